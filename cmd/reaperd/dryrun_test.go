package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// TestDryRunSendsNothingThatChanges watches every request of a daemon that has
// violators before it, of run --once, plan, ps and stop --dry-run.
func TestDryRunSendsNothingThatChanges(t *testing.T) {
	t.Parallel()
	e := enginetest.Shared(t)
	p := enginetest.NewProxy(t, e)
	s := newScene(t, takeAll, dockerAt("dev", p.Host()))
	ids := []string{s.box(t, e), s.box(t, e)}
	d := s.daemon(t, "--dry-run")
	d.untilMetric(t, `reaperd_would_reclaim_sandboxes{policy="all",provider="dev"}`, 2)
	d.scans(t, "dev", 3)
	got := d.metrics(t)
	for series, want := range map[string]float64{
		`reaperd_dry_run`: 1,
		`reaperd_reclaims_total{outcome="dry_run",policy="all",provider="dev",reason="max_uptime"}`:   2, // once each
		`reaperd_reclaims_total{outcome="reclaimed",policy="all",provider="dev",reason="max_uptime"}`: 0,
		`reaperd_leaked_sandboxes{policy="all",provider="dev",reason="max_uptime"}`:                   2,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
	}
	d.stop(t)
	if once := s.once(t, "--dry-run"); once.code != exitClean || strings.Count(once.out, "\n") != 3 || strings.Count(once.out, "dry_run   docker_") != 2 {
		t.Errorf("run --once --dry-run: %+v", once)
	}

	plan := reaperd(t, nil, "plan", "--json", "-c", s.file)
	var parsed struct {
		Sandboxes []struct {
			Endpoint, Verdict, Reason, Policy string
			Deadline                          float64
		}
	}
	if err := json.Unmarshal([]byte(plan.out), &parsed); err != nil || plan.code != exitClean {
		t.Fatalf("%v, %+v", err, plan)
	}
	for _, id := range ids {
		found := false
		for _, sb := range parsed.Sandboxes {
			if sb.Endpoint == "docker://"+id[:12] {
				found = sb.Verdict == "reclaim" && sb.Reason == "max_uptime" && sb.Policy == "all" && sb.Deadline > 0
			}
		}
		if !found {
			t.Errorf("plan does not say that %s is due: %s", id[:12], plan.out)
		}
	}
	table := reaperd(t, nil, "plan", "-c", s.file)
	for _, want := range []string{"PROVIDER  INSTANCE ID ", " remove   all: max_uptime ", "\n2 to reclaim, "} {
		if !strings.Contains(table.out, want) {
			t.Errorf("%q is not in\n%s", want, table.out)
		}
	}
	for _, args := range [][]string{{"ps"}, {"ps", "-a", "--json"}, {"stop", "--all", "--dry-run"}, {"stop", ids[0], "--dry-run"}} {
		if got := reaperd(t, nil, append(args, "-c", s.file)...); got.code != exitClean {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if made := p.Mutations(); len(made) > 0 {
		t.Errorf("sent %v", made)
	}
	for _, id := range ids {
		if !e.Inspect(t, id).State.Running {
			t.Errorf("%s does not run", id)
		}
	}
}

// TestWithoutConfigurationNothingIsArmed runs with policies from the
// environment and nothing else.
func TestWithoutConfigurationNothingIsArmed(t *testing.T) {
	t.Parallel()
	needNoConfiguration(t)
	e := enginetest.Shared(t)
	p := enginetest.NewProxy(t, e)
	s := newScene(t, takeAll, dockerAt("unused", p.Host()))
	id := s.box(t, e)
	c := start(t, []string{"DOCKER_HOST=" + p.Host(), "REAPERD_POLICIES=" + strings.TrimSuffix(s.file, "reaperd.yaml") + "*p.yaml"}, nil, "run", "--once")
	if code := c.wait(t); code != exitClean || !strings.Contains(c.out.String(), "dry_run   docker_"+id[:12]+" (docker) by all: max_uptime\n") {
		t.Errorf("exit code %d, %s", code, c.out.String())
	}
	if made := p.Mutations(); len(made) > 0 || len(p.Requests()) == 0 {
		t.Errorf("sent %v of %d requests", made, len(p.Requests()))
	}
}

// TestOneProviderStaysDry has the same violators judged by an armed provider
// and one that is kept dry.
func TestOneProviderStaysDry(t *testing.T) {
	t.Parallel()
	e := enginetest.Shared(t)
	s := newScene(t, takeAll, "  - {name: dev, kind: docker, dry_run: true, host: '"+e.Host()+"'}\n")
	id := s.box(t, e)
	if got := s.once(t); got.code != exitClean || !strings.HasPrefix(got.out, "dry_run   docker_"+id[:12]+" (dev) by all: max_uptime\n") {
		t.Errorf("%+v", got)
	}
	if !e.Inspect(t, id).State.Running {
		t.Error("it does not run")
	}
}
