package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// crowd starts that many containers of the scene's, four at a time.
func crowd(tb testing.TB, s *scene, e *enginetest.Engine, n int) []string {
	tb.Helper()
	return crowdOf(tb, s, e, n, func(int) []string { return nil })
}

// crowdOf starts that many, each with tags of its own.
func crowdOf(tb testing.TB, s *scene, e *enginetest.Engine, n int, tags func(i int) []string) []string {
	tb.Helper()
	ids := make([]string, n)
	slots := make(chan struct{}, 4)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ids[i] = s.box(tb, e, tags(i)...)
		})
	}
	wg.Wait()
	return ids
}

func TestTwoHundredGoInOneScan(t *testing.T) {
	e := enginetest.Shared(t)
	const many = 200
	s := newScene(t, takeAll, dockerAt("dev", e.Host())+"brake: {min_count: 200}\n")
	ids := crowd(t, s, e, many)
	d := s.daemon(t)
	d.untilMetric(t, `reaperd_reclaims_total{outcome="reclaimed",policy="all",provider="dev",reason="max_uptime"}`, many)
	for _, id := range ids {
		if e.Exists(t, id) {
			t.Errorf("%s is still there", id)
		}
	}
	until(t, "the scan is told", func() bool { return len(d.logged("scanned", "")) > 0 })
	if line := d.logged("scanned", "")[0]; fmt.Sprint(line["outcomes"]) != "map[reclaimed:200]" {
		t.Errorf("the first scan came to %v", line["outcomes"])
	}
	for series, v := range d.metrics(t) {
		failed := strings.HasPrefix(series, "reaperd_reclaims_total{") && !strings.Contains(series, `outcome="reclaimed"`)
		if (failed || strings.HasPrefix(series, "reaperd_provider_errors_total{")) && v > 0 {
			t.Errorf("%s is %v", series, v)
		}
	}
	d.stop(t)
}

// process starts a stray process that carries the scene's tag and more, and
// gives what is closed when it ends.
func (s *scene) process(t testing.TB, name string, tags ...string) chan struct{} {
	t.Helper()
	cmd := exec.Command("sleep", "86400")
	cmd.Env = []string{
		"REAPERD_SANDBOX=" + s.id + "-" + name,
		"REAPERD_TAGS=" + strings.Join(append(tags, sceneTag+"="+s.id), ","),
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return ended
}

// TestDaemonEndsStrayProcesses has two processes, of which one asked for a
// short life.
func TestDaemonEndsStrayProcesses(t *testing.T) {
	t.Parallel()
	s := newScene(t, `version: 1
policies:
  - name: wishes
    match: {kinds: [process], tags: {reaperd.test: $ID}}
    limits: {ttl: {tag: reaperd.ttl, max: 1d}}
    action: {type: remove, grace: 1s}
`, "  - {name: local, kind: process}\n")
	soon := s.process(t, "soon", "reaperd.ttl=1s")
	late := s.process(t, "late", "reaperd.ttl=1h")
	d := s.daemon(t)
	id := fmt.Sprintf("%d:%s-soon", os.Getuid(), s.id)
	until(t, "it is reclaimed", func() bool { return len(d.logged("reclaimed", id)) == 1 })
	<-soon
	d.scans(t, "local", 2)
	select {
	case <-late:
		t.Error("the other one ended too")
	default:
	}
	got := reaperd(t, nil, "stop", s.id+"-late", "-c", s.file)
	if want := fmt.Sprintf("Stopped process_%d:%s-late (local)\n\n1 stopped\n", os.Getuid(), s.id); got.code != exitClean || got.out != want {
		t.Errorf("stop: %+v, want %q", got, want)
	}
	<-late
	d.stop(t)
}
