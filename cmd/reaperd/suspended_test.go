package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
)

const takeSilent = `version: 1
policies:
  - name: all
    match: {tags: {reaperd.test: $ID}}
    limits: {heartbeat: {timeout: 4s}}
    action: {type: remove, grace: 0s}
`

// theDaemonIsSuspended has SIGSTOP stop it for two heartbeat timeouts. Nobody who
// goes on beating is lost by that, and whoever fell silent has a full timeout
// from when it could hear again.
func theDaemonIsSuspended(t *testing.T) {
	const timeout = 4 * time.Second
	e := enginetest.Shared(t)
	p := enginetest.NewProxy(t, e)
	l := newLedger(p)
	s := newScene(t, takeSilent, dockerAt("dev", p.Host()))
	socket := s.onSocket(t)
	beating, silent := []string{s.box(t, e), s.box(t, e)}, s.box(t, e)
	d := s.daemon(t)
	b := beatOn(t, socket)
	beat := func(id string) string { return "/api/v1/sandboxes/dev/" + id + "/heartbeat" }
	b.also(beat(beating[0]), beat(beating[1]), beat(silent))
	until(t, "all of them were heard", func() bool { return d.metrics(t)[`reaperd_heartbeats_total{outcome="accepted"}`] > 6 })

	b.without(beat(silent))
	d.signal(t, syscall.SIGSTOP)
	<-time.After(2 * timeout) // the case itself: as much as two timeouts
	awake := time.Now()
	d.signal(t, syscall.SIGCONT)

	until(t, "the silent one goes", func() bool { return len(d.logged("reclaimed", silent)) == 1 })
	if reason := d.logged("reclaimed", silent)[0]["reason"]; reason != "heartbeat_lost" {
		t.Errorf("it went because of %v", reason)
	}
	if at := l.of(silent)[0]; at.Sub(awake) < timeout {
		t.Errorf("it went %v after the daemon could hear again, and had %v", at.Sub(awake), timeout)
	}
	blind := d.logged("reaperd was not there for a while: whoever sends heartbeats has a full timeout again", "")
	long := 0
	for _, line := range blind { // a machine that starves it of more than three seconds adds others
		if d, err := time.ParseDuration(line["while"].(string)); err == nil && d >= 2*timeout {
			long++
		}
	}
	if n := d.metrics(t)["reaperd_blindness_total"]; long != 1 || n != float64(len(blind)) {
		t.Errorf("it was blind %v times, and told of %v", n, blind)
	}
	d.stop(t)
	for _, id := range beating {
		if len(l.of(id)) > 0 || !e.Inspect(t, id).State.Running {
			t.Errorf("%s was beating all the while, and was to be ended at %v", id[:12], l.of(id))
		}
	}
}
