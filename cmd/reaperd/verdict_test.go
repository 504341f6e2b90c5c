package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
)

const castPolicies = `version: 1
protect:
  - tags: {reaperd.test: $ID, protect: "true"}
policies:
  - name: removes
    match: {tags: {reaperd.test: $ID, act: remove}}
    unless: [{tags: {env: prod}}]
    limits: {max_uptime: 1ms}
    action: {type: remove, grace: 0s}
  - name: stops
    match: {tags: {reaperd.test: $ID, act: stop}}
    limits: {max_uptime: 1ms}
    action: {type: stop, grace: 0s}
  - name: wishes
    match: {tags: {reaperd.test: $ID, wish: long}}
    limits: {ttl: {tag: reaperd.ttl, max: 1d}}
    action: {type: remove, grace: 0s}
  - name: bounds
    match: {tags: {reaperd.test: $ID, wish: bounded}}
    limits: {ttl: {tag: reaperd.ttl, max: 1ms}}
    action: {type: remove, grace: 0s}
  - name: watches
    match: {tags: {reaperd.test: $ID, act: watch}}
    limits: {max_uptime: 1ms}
    mode: report
`

// member of a cast is one container and what should become of it.
type member struct {
	id      string
	tags    []string
	create  bool   // only create it
	policy  string // that reclaims it; "" if it is kept
	reason  string
	remains string // its state afterwards; "" if it is gone
}

func newCast(t *testing.T, s *scene, e *enginetest.Engine) []*member {
	t.Helper()
	cast := []*member{
		{tags: []string{"act", "remove"}, policy: "removes", reason: "max_uptime"},
		{tags: []string{"act", "stop"}, policy: "stops", reason: "max_uptime", remains: "exited"},
		{tags: []string{"act", "none"}, remains: "running"},
		{tags: []string{"act", "remove", sceneTag, "another"}, remains: "running"},
		{tags: []string{"act", "remove", "protect", "true"}, remains: "running"},
		{tags: []string{"act", "remove", "env", "prod"}, remains: "running"},
		{tags: []string{"act", "remove"}, create: true, remains: "created"},
		{tags: []string{"act", "watch"}, remains: "running"},
		{tags: []string{"wish", "long", "reaperd.ttl", "1ms"}, policy: "wishes", reason: "ttl_tag"},
		{tags: []string{"wish", "long", "reaperd.ttl", "12h"}, remains: "running"},
		{tags: []string{"wish", "bounded", "reaperd.ttl", "10y"}, policy: "bounds", reason: "ttl_tag"},
		{tags: []string{"wish", "bounded", "reaperd.ttl", "soon"}, remains: "running"},
		{tags: []string{"wish", "bounded", "reaperd.ttl", "-1s", "act", "remove"}, policy: "removes", reason: "max_uptime"},
		{tags: []string{"wish", "bounded", "reaperd.ttl", "0"}, remains: "running"},
	}
	for _, m := range cast {
		m.id = e.Run(t, enginetest.Options{Labels: s.tags(m.tags...), CreateOnly: m.create})
	}
	return cast
}

func checkCast(t *testing.T, e *enginetest.Engine, cast []*member) {
	t.Helper()
	for _, m := range cast {
		state := ""
		if e.Exists(t, m.id) {
			state = e.Inspect(t, m.id).State.Status
		}
		if state != m.remains {
			t.Errorf("%v is %q, want %q", m.tags, state, m.remains)
		}
	}
}

func TestOnceReclaimsExactlyWhatIsDue(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, onceReclaimsExactlyWhatIsDue)
}

func onceReclaimsExactlyWhatIsDue(t *testing.T, e *enginetest.Engine) {
	s := newScene(t, castPolicies, dockerAt("dev", e.Host()))
	cast := newCast(t, s, e)
	got := s.once(t)
	checkCast(t, e, cast)
	n := 0
	for _, m := range cast {
		if line := fmt.Sprintf("reclaimed docker_%s (dev) by %s: %s\n", m.id[:12], m.policy, m.reason); m.policy != "" {
			n++
			if !strings.Contains(got.out, line) {
				t.Errorf("no line %q", line)
			}
		}
	}
	if got.code != exitClean || !strings.HasSuffix(got.out, fmt.Sprintf(" seen on 1 provider, %d reclaimed\n", n)) {
		t.Errorf("exit code %d, said %s", got.code, got.out)
	}
	// What it left is within its limits now, and stays.
	if again := s.once(t); again.code != exitClean || strings.Contains(again.out, "reclaimed") {
		t.Errorf("again: %+v", again)
	}
	checkCast(t, e, cast)
}

func TestDaemonReclaimsExactlyWhatIsDue(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, daemonReclaimsExactlyWhatIsDue)
}

func daemonReclaimsExactlyWhatIsDue(t *testing.T, e *enginetest.Engine) {
	s := newScene(t, castPolicies, dockerAt("dev", e.Host())+"  - {name: elsewhere, kind: process}\n")
	cast := newCast(t, s, e)
	d := s.daemon(t)
	for _, m := range cast {
		if m.policy != "" {
			until(t, fmt.Sprintf("%v is reclaimed", m.tags), func() bool { return len(d.logged("reclaimed", m.id)) == 1 })
			if line := d.logged("reclaimed", m.id)[0]; line["policy"] != m.policy || line["reason"] != m.reason || line["provider"] != "dev" {
				t.Errorf("%v was logged as %v", m.tags, line)
			}
		}
	}
	d.scans(t, "dev", 3)
	checkCast(t, e, cast)
	got := d.metrics(t)
	for series, want := range map[string]float64{
		`reaperd_provider_up{provider="dev"}`:                                                             1,
		`reaperd_malformed_tags_total{provider="dev"}`:                                                    3,
		`reaperd_reclaims_total{outcome="reclaimed",policy="removes",provider="dev",reason="max_uptime"}`: 2,
		`reaperd_reclaims_total{outcome="reclaimed",policy="stops",provider="dev",reason="max_uptime"}`:   1,
		`reaperd_reclaims_total{outcome="reclaimed",policy="wishes",provider="dev",reason="ttl_tag"}`:     1,
		`reaperd_reclaims_total{outcome="reclaimed",policy="bounds",provider="dev",reason="ttl_tag"}`:     1,
		`reaperd_reclaims_total{outcome="failed",policy="removes",provider="dev",reason="max_uptime"}`:    0,
		`reaperd_leaked_sandboxes{policy="removes",provider="dev",reason="max_uptime"}`:                   0,
		`reaperd_would_reclaim_sandboxes{policy="watches",provider="dev"}`:                                1,
		`reaperd_reclaim_lateness_seconds_count{provider="dev"}`:                                          5,
		`reaperd_dry_run`: 0,
		`reaperd_oldest_overdue_seconds{provider="dev"}`:                                                        0,
		`reaperd_stuck_sandboxes{provider="dev"}`:                                                               0,
		`reaperd_provider_errors_total{cause="unavailable",op="list",provider="dev"}`:                           0,
		`reaperd_scans_total{provider="dev",result="error"}`:                                                    0,
		`reaperd_provider_up{provider="elsewhere"}`:                                                             1,
		`reaperd_reclaims_total{outcome="reclaimed",policy="removes",provider="elsewhere",reason="max_uptime"}`: 0,
	} {
		if v, there := got[series]; !there || v != want {
			t.Errorf("%s is %v (there: %v), want %v", series, v, there, want)
		}
	}
	for name := range got {
		if strings.Contains(name, s.id) || strings.Contains(name, cast[0].id[:12]) {
			t.Errorf("%s tells of one sandbox", name)
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 200, "/nothing": 404} {
		if status, body := d.get(t, path); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	d.stop(t)
}
