package main

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// TestASteadyStateCostsOneListATick counts what a daemon asks of an engine with
// fifty sandboxes to which nothing happens.
func TestASteadyStateCostsOneListATick(t *testing.T) {
	t.Parallel()
	const many, ticks = 50, 6
	e := enginetest.Start(t) // on which nobody else makes events
	p := enginetest.NewProxy(t, e)
	s := newScene(t, spareAll, dockerAt("dev", p.Host()))
	crowd(t, s, e, many)
	var lists atomic.Int32
	held, release := make(chan struct{}), make(chan struct{})
	p.Hook(func(r enginetest.Request) http.HandlerFunc {
		if r.Path != "/containers/json" || lists.Add(1) != 2+ticks {
			return nil
		}
		close(held) // in the middle of a scan: all before are over
		return p.Delay(release)
	})
	d := s.daemon(t)
	select {
	case <-held:
	case <-time.After(patience):
		t.Fatal("there were not so many ticks")
	}
	if n := d.metrics(t)[`reaperd_scans_total{provider="dev",result="success"}`]; n != 1+ticks {
		t.Errorf("%d lists were for %v ticks", 1+ticks, n)
	}
	if n := d.metrics(t)[`reaperd_sandboxes{provider="dev",state="running"}`]; n != many {
		t.Errorf("%v run", n)
	}
	close(release)
	d.stop(t)
	asked := map[string]int{}
	for _, r := range p.Requests() {
		asked[r.Path]++
	}
	looks := 0
	for path, n := range asked {
		switch path {
		case "/containers/json", "/info", "/events":
		default:
			looks += n
		}
	}
	if looks != many || asked["/events"] != 1 || len(p.Mutations()) > 0 {
		t.Errorf("%d looks at %d sandboxes, %d streams of events: %v", looks, many, asked["/events"], asked)
	}
}
