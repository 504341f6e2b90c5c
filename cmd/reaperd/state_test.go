package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/reaperd/reaperd/pkg/store"
)

// remembering gives the scene a state of its own, and its path.
func (s *scene) remembering(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state", "reaperd.db")
	text, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	with := strings.Replace(string(text), "dsn: ''", "dsn: '"+store.DSN(path)+"'", 1)
	if err := os.WriteFile(s.file, []byte(with), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhereTheStateIs(t *testing.T) {
	t.Parallel()
	all := map[string]string{"STATE_DIRECTORY": "/var/lib/private/r:/b", "XDG_STATE_HOME": "/x", "HOME": "/home/ann"}
	own := map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/home/ann"}
	usual := "sqlite:///x/reaperd/reaperd.db"
	if os.Geteuid() == 0 {
		usual = "sqlite:///var/lib/reaperd/reaperd.db"
	}
	for name, tc := range map[string]struct {
		dsn  string
		env  map[string]string
		want string
	}{
		"under systemd":       {stateAuto, all, "sqlite:///var/lib/private/r/reaperd.db"},
		"in the usual place":  {stateAuto, own, usual},
		"where it is written": {"sqlite:///a/b.db", all, "sqlite:///a/b.db"},
		"nowhere":             {"", all, ""},
		"a blank is escaped":  {stateAuto, map[string]string{"STATE_DIRECTORY": "/a b"}, "sqlite:///a%20b/reaperd.db"},
	} {
		var l loaded
		l.State.DSN = tc.dsn
		got, err := l.stateDSN(environment{getenv: func(name string) string { return tc.env[name] }})
		if err != nil || got != tc.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tc.want)
		}
	}
}

func TestCheckSaysWhereTheStateIs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "none: what is remembered is lost when the daemon ends", "sqlite:///a/b.db": "sqlite:///a/b.db",
	} {
		dir := write(t, "reaperd.yaml", valid+"state: {dsn: '"+text+"'}\n", "p.yaml", somePolicy)
		got := reaperd(t, nil, "check", "-c", filepath.Join(dir, "reaperd.yaml"))
		if got.code != exitClean || !strings.Contains(got.out, "state.dsn         "+want+"\n") || !strings.Contains(got.out, "state.history     90d\n") {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// Only the daemon opens the state.
func TestOtherVerbsLeaveTheStateAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t, spareAll, "  - {name: local, kind: process}\n")
	path := s.remembering(t)
	for _, args := range [][]string{{"run", "--once"}, {"ps"}, {"plan"}, {"check"}} {
		if got := reaperd(t, nil, append(args, "-c", s.file)...); got.code != exitClean {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Errorf("something was made: %v", err)
	}
	if got := reaperd(t, nil, "state", "accept", "-c", s.file); got.code != exitTrouble || !strings.Contains(got.errors, "no daemon has run on it") {
		t.Errorf("accepting a state that is not there: %+v", got)
	}
}

func TestASecondDaemonOnAStateIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t, spareAll, "  - {name: local, kind: process}\n")
	path := s.remembering(t)
	d := s.daemon(t)
	second := start(t, nil, nil, "run", "-c", s.file)
	said := func(out string) bool {
		return strings.Contains(out, "reaperd: open state "+path+": another reaperd has it open: pid "+pid(d)+" on ")
	}
	if code := second.wait(t); code != exitTrouble || !said(second.errs.String()) {
		t.Errorf("exit code %d, %s", code, second.errs.String())
	}
	got := reaperd(t, nil, "state", "accept", "-c", s.file)
	if got.code != exitTrouble || !strings.Contains(got.errors, "pid "+pid(d)+" on ") || !strings.Contains(got.errors, "stop it, accept, and start it again") {
		t.Errorf("accepting beside a daemon: %+v", got)
	}
	d.stop(t)
	s.daemon(t).stop(t) // whom nobody is in the way of
}

func TestAStateThatCannotBeOpenedEndsTheDaemon(t *testing.T) {
	t.Parallel()
	s := newScene(t, spareAll, "  - {name: local, kind: process}\n")
	path := s.remembering(t)
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	c := start(t, nil, nil, "run", "-c", s.file)
	if code := c.wait(t); code != exitTrouble || !strings.Contains(c.errs.String(), "open state "+path+": it is a directory") {
		t.Errorf("exit code %d, %s", code, c.errs.String())
	}
}

// The daemon finds its state damaged, and reclaims nothing, over a restart and
// a reload too, until that is accepted.
func TestALostStateKeepsTheDaemonDryUntilAccepted(t *testing.T) {
	t.Parallel()
	s := newScene(t, takeAll, "  - {name: local, kind: process}\n")
	path := s.remembering(t)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := s.process(t, "a")
	for life := range 2 {
		d := s.daemon(t)
		d.untilMetric(t, "reaperd_state_lost", 1)
		d.reload(t, reloaded)
		d.scans(t, "local", 2)
		if n := len(d.logged("would reclaim", "")); n != 1-life {
			t.Errorf("life %d says %d times what it would reclaim, and should say it once in all", life, n)
		}
		if !strings.Contains(d.errs.String(), "reaperd state accept") {
			t.Error("it does not say what to do")
		}
		d.stop(t)
	}
	select {
	case <-ended:
		t.Fatal("reclaimed without the protections that were lost")
	default:
	}
	if got := reaperd(t, nil, "state", "accept", "-c", s.file); got.code != exitClean {
		t.Fatalf("accept: %+v", got)
	}
	d := s.daemon(t)
	<-ended
	d.untilMetric(t, "reaperd_state_lost", 0)
	d.stop(t)
}

func pid(d *service) string { return strconv.Itoa(d.Process.Pid) }
