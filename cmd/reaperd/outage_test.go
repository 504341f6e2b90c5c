package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
)

const up = `reaperd_provider_up{provider="dev"}`

// TestDaemonOutlivesItsEngine starts before the engine is there, sees it come,
// go and come again, and reclaims whenever it can.
func TestDaemonOutlivesItsEngine(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t)
	e.Down(t)
	s := newScene(t, takeAll, dockerAt("dev", e.Host()))
	d := s.daemon(t)
	d.untilMetric(t, `reaperd_scans_total{provider="dev",result="error"}`, 2)
	if status, body := d.get(t, "/readyz"); status != http.StatusOK {
		t.Errorf("/readyz: %d %s", status, body)
	}
	checkDown := func() {
		t.Helper()
		m := d.metrics(t)
		if v, there := m[up]; v != 0 || !there {
			t.Errorf("up is %v (there: %v)", v, there)
		}
		if _, there := m[`reaperd_sandboxes{provider="dev",state="running"}`]; there {
			t.Error("it counts sandboxes that it cannot see")
		}
	}
	checkDown()
	for range 2 {
		e.Up(t)
		d.untilMetric(t, up, 1)
		id := s.box(t, e)
		until(t, "the violator goes", func() bool { return !e.Exists(t, id) })
		until(t, "that is recorded", func() bool { return len(d.logged("reclaimed", id)) == 1 })
		e.Down(t)
		d.untilMetric(t, up, 0)
		checkDown()
	}
	// Told on change only.
	if n := len(d.logged("provider could not be listed", "")); n != 3 {
		t.Errorf("%d lines say that it is down, want 3", n)
	}
	if n := len(d.logged("provider answers again", "")); n != 2 {
		t.Errorf("%d lines say that it is back, want 2", n)
	}
	d.stop(t)
	e.Up(t) // for what clears up after the test
}

func TestOneEngineConfiguredTwice(t *testing.T) {
	t.Parallel()
	e := enginetest.Shared(t)
	first, second := enginetest.NewProxy(t, e), enginetest.NewProxy(t, e)
	s := newScene(t, takeAll, dockerAt("dev", first.Host())+dockerAt("again", second.Host()))
	id := s.box(t, e)
	const refused = "again reaches the same place as dev (docker"
	d := s.daemon(t)
	until(t, "the violator goes", func() bool { return len(d.logged("reclaimed", id)) > 0 })
	d.scans(t, "dev", 2)
	m := d.metrics(t)
	if m[up] != 1 || m[`reaperd_provider_up{provider="again"}`] != 0 {
		t.Errorf("up: %v and %v", m[up], m[`reaperd_provider_up{provider="again"}`])
	}
	if !strings.Contains(d.errs.String(), refused) || len(d.logged("reclaimed", id)) != 1 {
		t.Errorf("log: %s", d.errs.String())
	}
	d.stop(t)
	if made := second.Mutations(); len(made) > 0 {
		t.Errorf("through the second: %v", made)
	}
	got := reaperd(t, nil, "ps", "-c", s.file)
	if got.code != exitTrouble || !strings.Contains(got.out, "\n  again: "+refused) {
		t.Errorf("ps: %+v", got)
	}
}

func TestSocketWithoutPermission(t *testing.T) {
	t.Parallel()
	e := enginetest.Shared(t)
	nobody, err := user.Lookup("nobody")
	if err != nil {
		enginetest.SkipOrFail(t, err.Error())
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t, takeAll, dockerAt("dev", e.Host()))
	s.openToAll(t)
	id := s.box(t, e)
	asNobody := func(cmd *exec.Cmd) {
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	d := s.daemonAs(t, asNobody)
	d.untilMetric(t, `reaperd_provider_errors_total{cause="denied",op="list",provider="dev"}`, 1)
	ps := start(t, nil, asNobody, "ps", "-c", s.file)
	code := ps.wait(t)
	for _, want := range []string{
		"dev: list dev: list containers: socket " + e.Socket() + " has mode 0660 and belongs to user root (0), group ",
		"; reaperd runs as user nobody (" + nobody.Uid + ")",
	} {
		if !strings.Contains(ps.out.String(), want) || code != exitTrouble {
			t.Errorf("exit code %d, %q is not in\n%s", code, want, ps.out.String())
		}
	}
	if m := d.metrics(t); m[up] != 0 {
		t.Error("it is up")
	}
	d.stop(t)
	if !e.Inspect(t, id).State.Running {
		t.Error("the sandbox does not run")
	}
}

// openToAll lets every user read the scene's files.
func (s *scene) openToAll(t *testing.T) {
	t.Helper()
	for dir := filepath.Dir(s.file); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAHungEngineCostsTheOthersNothing has one engine whose list never answers.
func TestAHungEngineCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	e := enginetest.Shared(t)
	p := enginetest.NewProxy(t, e)
	p.Hook(func(r enginetest.Request) http.HandlerFunc {
		if r.Path == "/containers/json" {
			return enginetest.Hold
		}
		if r.Path == "/info" { // so that it does not pass for the same engine
			return enginetest.Answer(http.StatusOK, `{"ID": "hung"}`)
		}
		return nil
	})
	s := newScene(t, takeAll, dockerAt("hung", p.Host())+dockerAt("dev", e.Host()))
	id := s.box(t, e)
	d := s.daemon(t)
	until(t, "the violator goes", func() bool { return len(d.logged("reclaimed", id)) == 1 })
	d.scans(t, "dev", 3)
	if m := d.metrics(t); m[`reaperd_scans_total{provider="hung",result="success"}`] != 0 || m[up] != 1 {
		t.Errorf("hung: %v, dev up: %v", m[`reaperd_scans_total{provider="hung",result="success"}`], m[up])
	}
	d.stop(t) // without waiting for the list that hangs: its context ended
}

// TestASandboxThatVanishesInMidScan has short-lived sandboxes come and go
// under the daemon's hands; the one violator goes and nothing fails.
func TestASandboxThatVanishesInMidScan(t *testing.T) {
	e := enginetest.Shared(t)
	s := newScene(t, takeAll, dockerAt("dev", e.Host()))
	d := s.daemon(t)
	ctx, cancel := context.WithCancel(t.Context())
	churned := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			e.Remove(t, s.box(t, e))
		}
		churned <- n
	}()
	id := s.box(t, e)
	until(t, "the violator goes", func() bool { return len(d.logged("reclaimed", id)) == 1 })
	d.scans(t, "dev", 8)
	cancel()
	if n := <-churned; n < 5 {
		t.Errorf("only %d came and went", n)
	}
	m := d.metrics(t)
	for series, want := range map[string]float64{
		up: 1,
		`reaperd_scans_total{provider="dev",result="error"}`:                                       0,
		`reaperd_scans_total{provider="dev",result="partial"}`:                                     0,
		`reaperd_reclaims_total{outcome="failed",policy="all",provider="dev",reason="max_uptime"}`: 0,
		`reaperd_reclaims_total{outcome="stuck",policy="all",provider="dev",reason="max_uptime"}`:  0,
	} {
		if m[series] != want {
			t.Errorf("%s is %v, want %v", series, m[series], want)
		}
	}
	d.stop(t)
}
