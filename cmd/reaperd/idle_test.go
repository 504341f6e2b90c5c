package main

import (
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// takeIdle takes what has done nothing for five seconds.
const takeIdle = `version: 1
policies:
  - name: idle
    match: {tags: {reaperd.test: $ID}}
    limits: {max_idle: 5s}
    action: {type: remove, grace: 0s}
`

func TestDaemonReclaimsWhatIsIdle(t *testing.T) { enginetest.Each(t, daemonReclaimsWhatIsIdle) }

func daemonReclaimsWhatIsIdle(t *testing.T, e *enginetest.Engine) {
	s := newScene(t, takeIdle, dockerAt("dev", e.Host()))
	idle, used := s.box(t, e), s.box(t, e)
	burning := e.Run(t, enginetest.Options{Labels: s.tags(), Cmd: []string{"sh", "-c", "while :; do :; done"}})
	if out := s.once(t); out.code != 0 || !e.Exists(t, idle) {
		t.Errorf("one scan ended with %d, and cannot know who is idle: %s", out.code, out.out)
	}
	began := time.Now()
	d := s.daemon(t)
	use := time.NewTicker(time.Second)
	defer use.Stop()
	for len(d.logged("reclaimed", idle)) == 0 || time.Since(began) < 12*time.Second {
		if time.Since(began) > patience {
			t.Fatal("the idle one stays")
		}
		<-use.C
		e.Exec(t, used, "true")
	}
	if line := d.logged("reclaimed", idle)[0]; line["reason"] != "max_idle" {
		t.Errorf("it went because of %v", line["reason"])
	}
	for what, id := range map[string]string{"one that is used": used, "one that burns": burning} {
		if !e.Exists(t, id) {
			t.Errorf("%s is gone", what)
		}
	}
	d.stop(t)
}
