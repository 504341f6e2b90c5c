package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

var conflict = enginetest.Answer(http.StatusConflict, `{"message":"removal of container is already in progress"}`)

func TestARemovalInProgressIsBusyUntilItIsGone(t *testing.T) {
	enginetest.Each(t, aRemovalInProgressIsBusyUntilItIsGone)
}

func aRemovalInProgressIsBusyUntilItIsGone(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	id := e.Run(t, enginetest.Options{})
	sb := mustGet(t, p, id)
	deletes := 0
	proxy.Hook(on("DELETE", id, func(w http.ResponseWriter, r *http.Request) {
		if deletes++; deletes == 3 {
			e.Remove(t, id)
		}
		conflict(w, r)
	}))
	remove := providers.StopOptions{Action: providers.ActionRemove}
	for range 2 {
		if err := p.Stop(within(t), sb, remove); !errors.Is(err, providers.ErrBusy) {
			t.Errorf("in progress: %v; want ErrBusy", err)
		}
	}
	if err := p.Stop(within(t), sb, remove); err != nil {
		t.Errorf("in progress, and then gone: %v", err)
	}
	if err := p.Stop(within(t), sb, remove); !errors.Is(err, providers.ErrNotFound) {
		t.Errorf("long gone: %v; want ErrNotFound", err)
	}
}

func TestOneThatGoesDuringOurStopIsRemoved(t *testing.T) {
	enginetest.Each(t, oneThatGoesDuringOurStopIsRemoved)
}

func oneThatGoesDuringOurStopIsRemoved(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	o := providers.StopOptions{Action: providers.ActionRemove, Grace: 20 * time.Second}

	ours := e.Run(t, enginetest.Options{Cmd: enginetest.Polite()})
	proxy.Hook(on("DELETE", ours, func(w http.ResponseWriter, r *http.Request) {
		e.Remove(t, ours)
		proxy.Forward(w, r)
	}))
	if err := p.Stop(within(t), mustGet(t, p, ours), o); err != nil {
		t.Errorf("gone after our stop: %v", err)
	}

	notOurs := e.Run(t, enginetest.Options{Cmd: enginetest.Polite()})
	proxy.Hook(on("POST", notOurs+"/stop", func(w http.ResponseWriter, r *http.Request) {
		e.Remove(t, notOurs)
		proxy.Forward(w, r)
	}))
	if err := p.Stop(within(t), mustGet(t, p, notOurs), o); !errors.Is(err, providers.ErrNotFound) {
		t.Errorf("gone before our stop: %v; want ErrNotFound", err)
	}
}

func TestARefusedPreparationDoesNotPreventTheStop(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	p.deadlines.change = 200 * time.Millisecond
	for name, answer := range map[string]http.HandlerFunc{
		"409": conflict, "500": enginetest.Answer(500, `{"message":"no"}`), "404": enginetest.Answer(404, "Not Found"), "400": enginetest.Answer(400, `{"message":"no"}`),
		"hangs": enginetest.Hold, "cut": enginetest.Cut,
	} {
		id := e.Run(t, enginetest.Options{Cmd: enginetest.Polite(), Restart: "unless-stopped"})
		proxy.Hook(on("POST", id+"/update", answer))
		proxy.Reset()
		mustStop(t, p, id, providers.StopOptions{Action: providers.ActionStop, Grace: 20 * time.Second})
		want := []string{"POST /containers/" + id + "/update", "POST /containers/" + id + "/stop?t=20"}
		if got := paths(proxy.Mutations()); !slices.Equal(got, want) || e.Inspect(t, id).State.Running {
			t.Errorf("update %s: called %v, want %v", name, got, want)
		}
	}
	id := e.Run(t, enginetest.Options{Restart: "always"})
	proxy.Hook(on("POST", id+"/update", func(w http.ResponseWriter, r *http.Request) {
		e.Remove(t, id)
		proxy.Forward(w, r)
	}))
	err := p.Stop(within(t), mustGet(t, p, id), providers.StopOptions{Action: providers.ActionStop})
	if !errors.Is(err, providers.ErrNotFound) {
		t.Errorf("gone before the update: %v; want ErrNotFound", err)
	}
}

func TestAStopThatNeverReturnsEndsInOneKill(t *testing.T) {
	enginetest.Each(t, aStopThatNeverReturnsEndsInOneKill)
}

func aStopThatNeverReturnsEndsInOneKill(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p, patient := openAt(t, proxy.Host()), openAt(t, proxy.Host())
	p.deadlines.margin, p.deadlines.kill = 200*time.Millisecond, 20*time.Second
	hung := e.Run(t, enginetest.Options{})
	others := []string{e.Run(t, enginetest.Options{}), e.Run(t, enginetest.Options{})}
	proxy.Hook(on("POST", hung+"/stop", enginetest.Hold))
	proxy.Reset()
	var wg sync.WaitGroup
	for id, by := range map[string]*Provider{others[0]: patient, others[1]: patient, hung: p} {
		sb := mustGet(t, by, id)
		wg.Go(func() {
			if err := by.Stop(within(t), sb, providers.StopOptions{Action: providers.ActionStop}); err != nil {
				t.Errorf("%s: %v", short(id), err)
			}
		})
	}
	wg.Wait()
	for _, id := range append(others, hung) {
		if e.Inspect(t, id).State.Running {
			t.Errorf("%s still runs", short(id))
		}
	}
	kills := slices.DeleteFunc(paths(proxy.Mutations()), func(s string) bool { return !strings.Contains(s, "/kill") })
	if want := []string{"POST /containers/" + hung + "/kill?signal=KILL"}; !slices.Equal(kills, want) {
		t.Errorf("kills: %v, want %v", kills, want)
	}

	p.deadlines.kill = 200 * time.Millisecond
	wedged := e.Run(t, enginetest.Options{})
	proxy.Hook(func(r enginetest.Request) http.HandlerFunc {
		if r.Mutating() {
			return enginetest.Hold
		}
		return nil
	})
	proxy.Reset()
	err := p.Stop(within(t), mustGet(t, p, wedged), providers.StopOptions{Action: providers.ActionRemove, Grace: time.Millisecond})
	if providers.CauseOf(err) != providers.CauseTimeout || len(proxy.Mutations()) != 2 {
		t.Errorf("a wedged one: %v after %v; want a time-out after one stop and one kill", err, paths(proxy.Mutations()))
	}
}

func TestAStopThatFailsIsNotFollowedByAKill(t *testing.T) {
	enginetest.Each(t, aStopThatFailsIsNotFollowedByAKill)
}

func aStopThatFailsIsNotFollowedByAKill(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	id := e.Run(t, enginetest.Options{})
	proxy.Hook(on("POST", "/stop", enginetest.Answer(http.StatusInternalServerError, `{"message":"sick"}`)))
	err := p.Stop(within(t), mustGet(t, p, id), providers.StopOptions{Action: providers.ActionRemove, Grace: time.Second})
	if !errors.Is(err, providers.ErrUnavailable) || len(proxy.Mutations()) != 1 {
		t.Errorf("Stop gave %v after %v; want ErrUnavailable after the stop alone", err, paths(proxy.Mutations()))
	}
	// A 409 means what a look at the container says.
	proxy.Hook(on("POST", "/stop", conflict))
	if err := p.Stop(within(t), mustGet(t, p, id), providers.StopOptions{Action: providers.ActionStop}); !errors.Is(err, providers.ErrBusy) {
		t.Errorf("409 while it runs: %v; want ErrBusy", err)
	}
	proxy.Hook(on("POST", "/stop", func(w http.ResponseWriter, r *http.Request) {
		now := 0
		if err := e.Client(t).ContainerStop(r.Context(), id, container.StopOptions{Timeout: &now}); err != nil {
			t.Error(err)
		}
		conflict(w, r)
	}))
	if err := p.Stop(within(t), mustGet(t, p, id), providers.StopOptions{Action: providers.ActionStop}); err != nil {
		t.Errorf("409 although it has stopped: %v", err)
	}
}

func TestTheCallersContextEndsAStop(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	id := e.Run(t, enginetest.Options{})
	sb := mustGet(t, p, id)
	ctx, cancel := context.WithCancel(t.Context())
	proxy.Hook(on("POST", "/stop", func(w http.ResponseWriter, r *http.Request) {
		cancel()
		enginetest.Hold(w, r)
	}))
	err := p.Stop(ctx, sb, providers.StopOptions{Action: providers.ActionRemove, Grace: time.Second})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Stop gave %v; want context.Canceled", err)
	}
	if got := proxy.Mutations(); len(got) != 1 {
		t.Errorf("after it was called off it called %v", paths(got[1:]))
	}
}

func TestAHungRemovalEndsByItsOwnDeadline(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	hung, other := e.Run(t, enginetest.Options{}), e.Run(t, enginetest.Options{})
	stuck, sb := mustGet(t, p, hung), mustGet(t, p, other)
	held := make(chan struct{})
	proxy.Hook(on("DELETE", hung, func(w http.ResponseWriter, r *http.Request) {
		close(held)
		enginetest.Hold(w, r)
	}))
	p.deadlines.remove = 8 * time.Second
	remove := providers.StopOptions{Action: providers.ActionRemove}
	done := make(chan error, 1)
	go func() { done <- p.Stop(t.Context(), stuck, remove) }()
	<-held
	if err := p.Stop(within(t), sb, remove); err != nil || e.Exists(t, other) {
		t.Errorf("the other one: %v", err)
	}
	if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the hung one: %v; want context.DeadlineExceeded", err)
	}
}

func TestNoMoreThanFourRemovalsAndSixteenStopsAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		limit int32
		o     providers.StopOptions
	}{
		"DELETE": {4, providers.StopOptions{Action: providers.ActionRemove}},
		"POST":   {16, providers.StopOptions{Action: providers.ActionStop, Grace: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			var now, most atomic.Int32
			var once sync.Once
			full, open := make(chan struct{}), make(chan struct{})
			proxy := enginetest.NewProxyTo(t, "/nowhere")
			proxy.Hook(func(r enginetest.Request) http.HandlerFunc {
				switch {
				case r.Path == "/_ping":
					return enginetest.Answer(http.StatusOK, "OK")
				case r.Method == "GET":
					return enginetest.Answer(http.StatusOK, fmt.Sprintf(`{"Id":%q,"Created":"2026-11-30T12:00:00Z",
						"State":{"Status":"running"},"Config":{}}`, strings.Split(r.Path, "/")[2]))
				}
				return func(w http.ResponseWriter, r *http.Request) {
					n := now.Add(1)
					defer now.Add(-1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					if n >= tc.limit {
						once.Do(func() { close(full) })
					}
					select {
					case <-open:
					case <-r.Context().Done():
					}
					w.WriteHeader(http.StatusNoContent)
				}
			})
			p := openAt(t, proxy.Host())
			ctx := within(t)
			var wg sync.WaitGroup
			for i := range 40 {
				sb := mustGet(t, p, fmt.Sprintf("%064x", i))
				wg.Go(func() {
					if err := p.Stop(ctx, sb, tc.o); err != nil {
						t.Error(err)
					}
				})
			}
			select {
			case <-full:
			case <-ctx.Done():
				t.Error("fewer at once than may be")
			}
			// As long as the first ones are held, one too many has time to show.
			for range 200 {
				mustGet(t, p, strings.Repeat("f", 64))
			}
			close(open)
			wg.Wait()
			if got := most.Load(); got != tc.limit {
				t.Errorf("%d at once, want %d", got, tc.limit)
			}
		})
	}
}

func TestWaitingForATurnEndsWithTheContext(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	id := e.Run(t, enginetest.Options{})
	sb := mustGet(t, p, id)
	for range removesAtOnce {
		p.removes <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := p.Stop(ctx, sb, providers.StopOptions{Action: providers.ActionRemove})
	if !errors.Is(err, context.DeadlineExceeded) || len(proxy.Mutations()) != 0 {
		t.Errorf("Stop gave %v after %v", err, paths(proxy.Mutations()))
	}
}

func TestStatusesAreTranslated(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	id := e.Run(t, enginetest.Options{})
	long := strings.Repeat(`lines\n of text\t`, 50000)
	for status, want := range map[int]providers.Cause{
		400: providers.CauseOther, 401: providers.CauseDenied, 403: providers.CauseDenied, 404: providers.CauseNotFound,
		409: providers.CauseBusy, 418: providers.CauseOther, 429: providers.CauseThrottled,
		500: providers.CauseUnavailable, 502: providers.CauseUnavailable, 503: providers.CauseUnavailable, 599: providers.CauseUnavailable,
	} {
		for _, text := range []string{"short", long} {
			proxy.Hook(on("DELETE", id, enginetest.Answer(status, `{"message":"`+text+`"}`)))
			p := openAt(t, proxy.Host())
			err := p.Stop(within(t), mustGet(t, p, id), providers.StopOptions{Action: providers.ActionRemove})
			if got := providers.CauseOf(err); got != want {
				t.Errorf("%d: %v (cause %s), want cause %s", status, err, got, want)
			}
			if n := len([]rune(err.Error())); n > 400 || strings.ContainsAny(err.Error(), "\n\t") {
				t.Errorf("%d: %d runes, or more than one line: %q", status, n, err.Error()[:min(n, 500)])
			}
		}
	}
}
