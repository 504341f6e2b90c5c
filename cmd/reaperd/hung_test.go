package main

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// wedge is a proxy of which some requests hang until it is loosened.
type wedge struct {
	*enginetest.Proxy

	mu    sync.Mutex
	hangs func(r enginetest.Request) bool
	loose chan struct{} // closed once those hang no more
}

func newWedge(t *testing.T, e *enginetest.Engine) *wedge {
	t.Helper()
	w := &wedge{Proxy: enginetest.NewProxy(t, e), loose: make(chan struct{})}
	w.Hook(func(r enginetest.Request) http.HandlerFunc {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.hangs != nil && w.hangs(r) {
			return w.Delay(w.loose)
		}
		return nil
	})
	return w
}

// hang has those requests hang that f says yes to from now on. Nil: none, nor
// any that does.
func (w *wedge) hang(f func(r enginetest.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hangs = f; f == nil {
		close(w.loose)
		w.loose = make(chan struct{})
	}
}

// count is how many requests f says yes to came in.
func (w *wedge) count(f func(r enginetest.Request) bool) int {
	return len(slices.DeleteFunc(w.Requests(), func(r enginetest.Request) bool { return !f(r) }))
}

// takeStops is a policy whose stops an engine that hangs holds up for a quarter
// of a minute: less than its removals do.
const takeStops = `version: 1
policies:
  - name: all
    match: {tags: {reaperd.test: $ID, due: "yes"}}
    limits: {max_uptime: 1ms}
    action: {type: stop, grace: 0s}
`

// impatient is a provider that waits for a look no longer than a second.
func impatient(name, host string) string {
	return strings.Replace(dockerAt(name, host), "kind:", "timeout: 1s, kind:", 1)
}

func ended(e *enginetest.Engine, t *testing.T, id string) func() bool {
	return func() bool { return !e.Inspect(t, id).State.Running }
}

// aListHangs has nothing reclaimed by a list of before, and all once it is over.
func aListHangs(t *testing.T) {
	e := enginetest.Shared(t)
	w := newWedge(t, e)
	list := func(r enginetest.Request) bool { return r.Path == "/containers/json" }
	w.hang(list)
	s := newScene(t, takeStops, impatient("dev", w.Host()))
	id := s.box(t, e, "due", "yes")
	d := s.daemon(t)
	d.untilMetric(t, `reaperd_provider_errors_total{cause="timeout",op="list",provider="dev"}`, 2)
	if n := len(w.Mutations()); n > 0 || !e.Inspect(t, id).State.Running {
		t.Errorf("it changed %v by an inventory that it does not have", w.Mutations())
	}
	w.hang(nil)
	until(t, "the violator ends", ended(e, t, id))
	d.untilMetric(t, up, 1)
	d.stop(t)
}

// aLookHangs has the engine hang over one of three that are due: the others go,
// it is tried again, and goes when the engine lets it. A daemon that is told to
// end does not wait for that.
func aLookHangs(t *testing.T) {
	e := enginetest.Shared(t)
	w := newWedge(t, e)
	s := newScene(t, takeStops, impatient("dev", w.Host()))
	ids := []string{s.box(t, e, "due", "yes"), s.box(t, e, "due", "yes"), s.box(t, e, "due", "yes")}
	look := func(r enginetest.Request) bool { return r.Path == "/containers/"+ids[0]+"/json" }
	var looked atomic.Bool
	w.hang(func(r enginetest.Request) bool { return look(r) && looked.Swap(true) }) // not when it is first listed
	d := s.daemon(t)
	for _, id := range ids[1:] {
		until(t, "the others end", ended(e, t, id))
	}
	until(t, "it is looked at again", func() bool { return w.count(look) >= 3 })
	d.stop(t)
	if !e.Inspect(t, ids[0]).State.Running || asked(w.Proxy, "/containers/"+ids[0]+"/stop") {
		t.Error("one that could not be looked at was stopped")
	}
	looked.Store(false)
	before := w.count(look)
	d = s.daemon(t)
	until(t, "the next daemon looks at it", func() bool { return w.count(look) > before+1 })
	w.hang(nil)
	until(t, "it ends", ended(e, t, ids[0]))
	d.stop(t)
}

// stopsOf says of a request whether it is to end one of those.
func stopsOf(ids ...string) func(r enginetest.Request) bool {
	return func(r enginetest.Request) bool {
		return r.Mutating() && slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(r.Path, id) })
	}
}

// aStopHangs has the engine hang in one of three stops: the others go, it is
// given up and tried again, and goes when the engine lets it. A daemon that is
// told to end in such a stop ends once it gives that up.
func aStopHangs(t *testing.T) {
	e := enginetest.Shared(t)
	begin := func() (w *wedge, d *service, ids []string) {
		w = newWedge(t, e)
		s := newScene(t, takeStops, dockerAt("dev", w.Host()))
		ids = []string{s.box(t, e, "due", "yes"), s.box(t, e, "due", "yes"), s.box(t, e, "due", "yes")}
		w.hang(stopsOf(ids[0]))
		return w, s.daemon(t), ids
	}
	w, d, ids := begin()
	told, ending, over := begin() // both wait for the same quarter of a minute
	until(t, "its stop is under way", func() bool { return told.count(stopsOf(over[0])) > 0 })
	ending.signal(t, syscall.SIGTERM)
	for _, id := range append(ids[1:], over[1:]...) {
		until(t, "the others end", ended(e, t, id))
	}
	until(t, "it is tried again", func() bool { return len(d.logged("reclaim failed", ids[0])) > 0 && w.count(stopsOf(ids[0])) > 2 })
	w.hang(nil)
	until(t, "it ends", ended(e, t, ids[0]))
	until(t, "that is told", func() bool { return len(d.logged("reclaimed", ids[0])) == 1 })
	d.stop(t)
	if code := ending.wait(t); code != exitClean || len(ending.logged("reclaim failed", over[0])) != 1 || !e.Inspect(t, over[0]).State.Running {
		t.Errorf("the one that was told to end ended with %d, and gave up %d", code, len(ending.logged("reclaim failed", over[0])))
	}
}

// threeStopsHang has the provider become degraded, although the engine answers
// every look meanwhile: nothing more is stopped until it answers the one call
// that shows it to be fit.
func threeStopsHang(t *testing.T) {
	e := enginetest.Shared(t)
	w := newWedge(t, e)
	networks := func(r enginetest.Request) bool { return r.Path == "/networks" }
	w.hang(func(r enginetest.Request) bool { return r.Mutating() || networks(r) })
	s := newScene(t, takeStops, dockerAt("dev", w.Host()))
	// So few that it is not probed before.
	ids := []string{s.box(t, e, "due", "yes"), s.box(t, e, "due", "yes"), s.box(t, e, "due", "yes")}
	d := s.daemon(t)
	const degraded = `reaperd_provider_degraded{provider="dev"}`
	d.untilMetric(t, degraded, 1)
	sent := len(w.Mutations())
	ids = append(ids, s.box(t, e, "due", "yes"))
	until(t, "it is probed", func() bool { return w.count(networks) > 0 })
	if now := w.Mutations(); len(now) != sent {
		t.Errorf("it was sent %v while it was degraded", now[sent:])
	}
	w.hang(networks)
	d.scans(t, "dev", 2)
	if now := w.Mutations(); len(now) != sent {
		t.Errorf("it was sent %v without an answered probe", now[sent:])
	}
	w.hang(nil)
	for _, id := range ids {
		until(t, "all of them end", ended(e, t, id))
	}
	d.untilMetric(t, degraded, 0)
	d.stop(t)
}
