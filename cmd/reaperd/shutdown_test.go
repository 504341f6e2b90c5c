package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
)

const takeSlowly = `version: 1
policies:
  - name: all
    match: {tags: {reaperd.test: $ID}}
    limits: {max_uptime: 1ms}
    action: {type: stop, grace: 3s}
`

// inMidStop starts a daemon before a sandbox that ignores SIGTERM, and gives
// both once the daemon has asked the engine to stop it.
func inMidStop(t *testing.T, e *enginetest.Engine) (*service, string) {
	t.Helper()
	p := enginetest.NewProxy(t, e)
	s := newScene(t, takeSlowly, dockerAt("dev", p.Host()))
	id := s.box(t, e)
	d := s.daemon(t)
	until(t, "the stop is under way", func() bool {
		for _, r := range p.Mutations() {
			if r.Path == "/containers/"+id+"/stop" {
				return true
			}
		}
		return false
	})
	return d, id
}

func TestSIGTERMFinishesTheStopUnderWay(t *testing.T) {
	t.Parallel()
	e := enginetest.Shared(t)
	d, id := inMidStop(t, e)
	d.stop(t)
	if e.Inspect(t, id).State.Running {
		t.Error("the sandbox still runs")
	}
	lines := d.logged("reclaimed", id)
	if len(lines) != 1 || lines[0]["outcome"] != "reclaimed" || lines[0]["reason"] != "max_uptime" {
		t.Errorf("recorded %v", lines)
	}
	text := d.errs.String()
	if asked, done := strings.Index(text, "stopping: finishing what was begun"), strings.Index(text, `"reclaimed"`); asked < 0 || done < asked {
		t.Errorf("not in this order: asked to stop (at %d), reclaimed (at %d)", asked, done)
	}
}

func TestOnceFinishesTheStopUnderWay(t *testing.T) {
	t.Parallel()
	e := enginetest.Shared(t)
	p := enginetest.NewProxy(t, e)
	s := newScene(t, takeSlowly, dockerAt("dev", p.Host()))
	id := s.box(t, e)
	c := start(t, nil, nil, "run", "--once", "-c", s.file)
	until(t, "the stop is under way", func() bool { return len(p.Mutations()) > 0 })
	c.signal(t, syscall.SIGTERM)
	c.wait(t)
	if e.Inspect(t, id).State.Running || !strings.Contains(c.out.String(), "reclaimed docker_"+id[:12]) {
		t.Errorf("not finished or not told: %s", c.out.String())
	}
}

func TestASecondSIGINTEndsAtOnce(t *testing.T) {
	t.Parallel()
	d, id := inMidStop(t, enginetest.Shared(t))
	d.signal(t, os.Interrupt)
	until(t, "the first is heard", func() bool { return len(d.logged("stopping: finishing what was begun", "")) == 1 })
	d.signal(t, os.Interrupt)
	d.wait(t)
	if status := d.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("ended with %v", d.ProcessState)
	}
	if n := len(d.logged("reclaimed", id)) + len(d.logged("stopped", "")); n > 0 {
		t.Error("it went on to the end")
	}
}

func TestAnAddressThatIsTakenEndsTheDaemon(t *testing.T) {
	t.Parallel()
	s := newScene(t, takeAll, "  - {name: local, kind: process}\n")
	d := s.daemon(t)
	second := start(t, nil, nil, "run", "-c", s.file, "--listen", d.address)
	if code := second.wait(t); code != exitTrouble || !strings.Contains(second.errs.String(), "reaperd: listen on "+d.address+": ") {
		t.Errorf("exit code %d, %s", code, second.errs.String())
	}
	d.stop(t)
}
