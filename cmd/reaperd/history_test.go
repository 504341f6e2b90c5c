package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/store"
)

const takeStubborn = `version: 1
policies:
  - name: all
    match: {tags: {reaperd.test: $ID}}
    limits: {max_uptime: 1ms}
    action: {type: remove, grace: 5s}
`

// stubborn starts a process that ignores SIGTERM and says in a file that it had
// one. The function ends it.
func (s *scene) stubborn(t *testing.T) (asked string, end func()) {
	t.Helper()
	asked = filepath.Join(t.TempDir(), "asked")
	cmd := exec.Command("sh", "-c", `trap ': >"$1"' TERM; while :; do sleep 0.1; done`, "sh", asked)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "REAPERD_SANDBOX=" + s.id, "REAPERD_TAGS=" + sceneTag + "=" + s.id}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	end = func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	}
	t.Cleanup(end)
	return asked, end
}

// past is what history -o json says, the oldest first.
func (s *scene) past(t *testing.T, args ...string) []pastRow {
	t.Helper()
	got := reaperd(t, nil, append([]string{"history", "-o", "json", "-c", s.file}, args...)...)
	var all struct{ History []map[string]any }
	if err := json.Unmarshal([]byte(got.out), &all); err != nil || got.code != exitClean {
		t.Fatalf("%+v, %v", got, err)
	}
	var rows []pastRow
	for _, h := range all.History {
		text := func(key string) string { v, _ := h[key].(string); return v }
		rows = append([]pastRow{{Outcome: text("outcome"), Error: text("error"), Policy: text("policy"), By: text("by")}}, rows...)
	}
	return rows
}

// A daemon is killed in the middle of a stop. The next one looks first, and
// history tells the reclaim once.
func TestADaemonKilledInMidStop(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"and the sandbox went": true, "and the sandbox is there": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, takeStubborn, "  - {name: local, kind: process}\n")
			s.remembering(t)
			asked, end := s.stubborn(t)
			first := s.daemon(t)
			until(t, "the stop is under way", func() bool { _, err := os.Stat(asked); return err == nil })
			first.signal(t, syscall.SIGKILL)
			first.wait(t)
			if rows := s.past(t); len(rows) != 1 || rows[0].Outcome != "begun" {
				t.Errorf("after the kill: %+v", rows)
			}
			if gone {
				end()
			}
			d := s.daemon(t)
			d.untilMetric(t, `reaperd_reclaims_total{outcome="reclaimed",policy="all",provider="local",reason="max_uptime"}`, 1)
			d.scans(t, "local", 2)
			want := []pastRow{{Outcome: "reclaimed", Policy: "all", By: "policy"}}
			if !gone {
				failed := pastRow{Outcome: "failed", Error: "reaperd ended before its outcome was known", Policy: "all", By: "policy"}
				want = append([]pastRow{failed}, want...)
			}
			until(t, "history has the last outcome", func() bool { rows := s.past(t); return rows[len(rows)-1].Outcome == "reclaimed" })
			rows := s.past(t) // while the daemon runs
			if len(rows) != len(want) {
				t.Fatalf("history %+v, want %+v", rows, want)
			}
			for i := range rows {
				a, b := rows[i], want[i]
				if a.Outcome != b.Outcome || a.Error != b.Error || a.Policy != b.Policy || a.By != b.By {
					t.Errorf("history %+v, want %+v", a, b)
				}
			}
			d.stop(t)
		})
	}
}

func TestARestartKeepsFirstSeen(t *testing.T) {
	t.Parallel()
	s := newScene(t, spareAll, "  - {name: local, kind: process}\n")
	path := s.remembering(t)
	s.process(t, "a")
	var first []store.Pulse
	for range 2 {
		d := s.daemon(t)
		d.scans(t, "local", 2)
		d.stop(t)
		st, err := store.Open(t.Context(), store.DSN(path), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		ps, err := st.Pulses(t.Context(), "local")
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		seen := map[string]time.Time{}
		for _, p := range first {
			seen[p.ID] = p.FirstSeen
		}
		both := 0
		for _, p := range ps {
			if at, ok := seen[p.ID]; ok {
				both++
				if !at.Equal(p.FirstSeen) {
					t.Errorf("%s was first seen %s, and after a restart %s", p.ID, at, p.FirstSeen)
				}
			}
		}
		if len(ps) == 0 || first != nil && both == 0 {
			t.Errorf("nothing is remembered: %d, %d", len(ps), both)
		}
		first = ps
	}
}

// filledState fills a state with three reclaims.
func filledState(t *testing.T) (config string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "reaperd.db")
	s, err := store.Open(t.Context(), store.DSN(path), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i, e := range []store.Entry{
		{Provider: "dev", Kind: "docker", InstanceID: "docker_a", Name: "one\x1b[2J", Policy: "old", Outcome: "reclaimed", UptimeSeconds: 4 * 3600, Begun: now.Add(-72 * time.Hour)},
		{Provider: "local", Kind: "process", InstanceID: "process_b", Name: "two", Policy: "new", Outcome: "failed", Error: "it would not", Begun: now.Add(-2 * time.Hour)},
		{Provider: "dev", Kind: "docker", InstanceID: "docker_c", Name: "three", Policy: "new", Begun: now.Add(-time.Hour)},
	} {
		e.SandboxID, e.Reason, e.By = e.InstanceID, "max_uptime", "policy"
		if e.Outcome != "" {
			e.Ended = e.Begun
		}
		if id, err := s.Begin(t.Context(), e); err != nil || id != int64(i+1) {
			t.Fatal(id, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dir := write(t, "reaperd.yaml", valid+"state: {dsn: '"+store.DSN(path)+"'}\n", "p.yaml", somePolicy)
	return filepath.Join(dir, "reaperd.yaml")
}

func TestHistory(t *testing.T) {
	t.Parallel()
	config := filledState(t)
	for args, want := range map[string]string{ // the names that are shown
		"": "three two one", "-p dev": "three one", "-p process": "two", "--since 1d": "three two", "--outcome failed": "two",
		"--policy old": "one", "--limit 1": "three", "docker_a": "one", "two": "two", "nobody": "",
	} {
		got := reaperd(t, nil, append(strings.Fields("history -c "+config), strings.Fields(args)...)...)
		var names []string
		for _, name := range []string{"three", "two", "one"} {
			if strings.Contains(got.out, "  "+name) {
				names = append(names, name)
			}
		}
		if strings.Join(names, " ") != want || got.code != exitClean || got.errors != "" {
			t.Errorf("history %s: want %q, got %+v", args, want, got)
		}
	}
	got := reaperd(t, nil, "history", "-c", config)
	lines := strings.Split(got.out, "\n")
	for i, want := range []string{"WHEN ", "  docker_c     three    begun      -       new: max_uptime", "  failed     -       new: max_uptime (it would not)", "  reclaimed  4h00m   old: max_uptime"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("%q is not in %q", want, lines[i])
		}
	}
	if strings.Contains(got.out, "\x1b") {
		t.Error("an escape sequence reaches the terminal")
	}
}

func TestHistorySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	none := write(t, "reaperd.yaml", valid+"state: {dsn: 'sqlite:///no/such/reaperd.db'}\n", "m.yaml", valid+"state: {dsn: ''}\n", "p.yaml", somePolicy)
	for args, want := range map[string]said{
		"-c " + none + "/reaperd.yaml": {code: exitTrouble, errors: "no daemon has run on it"},
		"-c " + none + "/m.yaml":       {code: exitTrouble, errors: "the daemon keeps everything in memory"},
		"--outcome eaten":              {code: exitUsage, errors: `there is no outcome "eaten"`},
		"--since yesterday":            {code: exitUsage, errors: "is not a duration"},
		"a b":                          {code: exitUsage, errors: "history takes one sandbox, found 2: a b"},
	} {
		got := reaperd(t, nil, append([]string{"history"}, strings.Fields(args)...)...)
		if got.code != want.code || !strings.Contains(got.errors, want.errors) || got.out != "" {
			t.Errorf("history %s: %+v, want %+v", args, got, want)
		}
	}
}
