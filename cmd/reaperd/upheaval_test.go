package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/store"
)

// TestUpheavals has the engine, and the daemon itself, misbehave in every way
// that the daemon has to come through. They wait for most of the time, so all of
// them run side by side, however many tests may be parallel.
func TestUpheavals(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for name, f := range map[string]func(*testing.T){
		"the engine restarts under a reclaim":      theEngineRestarts,
		"an engine of another version takes over":  anotherVersionTakesOver,
		"a list hangs for a while":                 aListHangs,
		"a look hangs for a while":                 aLookHangs,
		"a stop hangs for a while":                 aStopHangs,
		"three stops hang":                         threeStopsHang,
		"the daemon is suspended for two timeouts": theDaemonIsSuspended,
	} {
		all.Go(func() { t.Run(name, f) })
	}
	all.Wait()
}

// every has the scene's providers listed that often. Rarely, what happens is
// what the events have told.
func (s *scene) every(t testing.TB, span string) {
	t.Helper()
	s.rewrite(t, "reaperd.yaml", strings.Replace(s.configuration(t), "'@every 1s'", "'@every "+span+"'", 1))
}

const takeLabelled = `version: 1
policies:
  - name: all
    match: {tags: {reaperd.test: $ID, due: "yes"}}
    limits: {max_age: 1ms}
    action: {type: remove, grace: 2s}
`

// theEngineRestarts has it go down in the middle of a stop and come back: what
// was begun is finished, and events are followed again.
func theEngineRestarts(t *testing.T) {
	e := enginetest.Start(t)
	p := enginetest.NewProxy(t, e)
	s := newScene(t, takeLabelled, dockerAt("dev", p.Host()))
	s.every(t, "1h")
	state := store.DSN(s.remembering(t))
	spared := e.Run(t, enginetest.Options{Labels: s.tags(), Restart: "always"})
	d := s.daemon(t)
	d.scans(t, "dev", 1)

	caught := s.box(t, e, "due", "yes")
	until(t, "its stop is under way", func() bool { return asked(p, "/containers/"+caught+"/stop") })
	e.Restart(t)
	until(t, "what was begun is finished", func() bool { return len(d.logged("reclaimed", caught)) == 1 })

	next := s.box(t, e, "due", "yes")
	until(t, "an event tells of the next", func() bool { return len(d.logged("reclaimed", next)) == 1 })
	d.stop(t)
	if there := e.IDs(t); there[caught] || there[next] || !there[spared] {
		t.Errorf("there: the one caught %t, the next %t, the one spared %t", there[caught], there[next], there[spared])
	}
	history := readHistory(t, state)
	for _, id := range []string{caught, next} {
		if rows := history[id]; len(rows) == 0 || rows[len(rows)-1].Outcome != "reclaimed" {
			t.Errorf("of %s history tells %v", id[:12], rows)
		}
	}
	if rows := history[spared]; len(rows) > 0 {
		t.Errorf("of the one spared history tells %v", rows)
	}
	if n := len(lists(p)); n != 1 {
		t.Errorf("it was listed %d times: the events were not needed", n)
	}
}

// asked says whether something was to be changed by a request to that path.
func asked(p *enginetest.Proxy, path string) bool {
	return slices.ContainsFunc(p.Mutations(), func(r enginetest.Request) bool { return r.Path == path })
}

func lists(p *enginetest.Proxy) []enginetest.Request {
	return slices.DeleteFunc(p.Requests(), func(r enginetest.Request) bool { return r.Path != "/containers/json" })
}

// older is an engine that speaks no API version above 1.40.
type older struct {
	p *enginetest.Proxy

	mu      sync.Mutex
	streams []func() // end those of the engine before
	is      bool
}

func (o *older) hook(r enginetest.Request) http.HandlerFunc {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !o.is && r.Path == "/events":
		over := make(chan struct{})
		o.streams = append(o.streams, func() { close(over) })
		return func(w http.ResponseWriter, req *http.Request) {
			ctx, cancel := context.WithCancel(req.Context())
			defer cancel()
			go func() {
				defer cancel()
				select {
				case <-over:
				case <-ctx.Done():
				}
			}()
			o.p.Forward(w, req.WithContext(ctx))
		}
	case o.is && r.Path != "/_ping" && r.Version > "1.40":
		return enginetest.Answer(http.StatusBadRequest, `{"message":"client version `+r.Version+` is too new. Maximum supported API version is 1.40"}`)
	default:
		return nil
	}
}

// install puts it in the place of the engine.
func (o *older) install() {
	o.p.Headers(func(h http.Header) {
		if h.Get("Api-Version") != "" {
			h.Set("Api-Version", "1.40")
		}
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.is = true
	for _, end := range o.streams {
		end()
	}
	o.streams = nil
}

// anotherVersionTakesOver replaces the engine by one that does not speak the API
// version agreed upon.
func anotherVersionTakesOver(t *testing.T) {
	e := enginetest.Shared(t)
	p := enginetest.NewProxy(t, e)
	o := &older{p: p}
	p.Hook(o.hook)
	s := newScene(t, takeLabelled, dockerAt("dev", p.Host()))
	spared := s.box(t, e)
	d := s.daemon(t)
	reclaimsOne := func() {
		t.Helper()
		id := s.box(t, e, "due", "yes")
		until(t, "the violator goes", func() bool { return len(d.logged("reclaimed", id)) == 1 })
	}
	reclaimsOne()
	p.Reset()
	o.install()
	reclaimsOne()
	until(t, "its events are followed", func() bool {
		return slices.ContainsFunc(p.Requests(), func(r enginetest.Request) bool { return r.Path == "/events" && r.Version == "1.40" })
	})
	d.scans(t, "dev", 2)
	if d.metrics(t)[up] != 1 {
		t.Error("it is not up")
	}
	d.stop(t)
	if !e.Inspect(t, spared).State.Running {
		t.Error("the one to be spared does not run")
	}
	if !slices.ContainsFunc(p.Mutations(), func(r enginetest.Request) bool { return r.Version == "1.40" }) {
		t.Errorf("it changed nothing in the old version: %v", p.Mutations())
	}
}
