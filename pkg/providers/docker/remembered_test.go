package docker

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/events"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestARestartThatWasHeardOfIsReadByTheNextList(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	w := watch(t, e, p)
	id, other := e.Run(t, enginetest.Options{}), e.Run(t, enginetest.Options{})
	old := mustList(t, p)[id].Started
	n := w.told(id)
	restart(t, e, id)
	until(t, "die, stop and start", func() bool { return w.told(id) == n+3 })
	proxy.Reset()
	all := mustList(t, p)
	if now := parseTime(e.Inspect(t, id).State.StartedAt); !all[id].Started.Equal(now) || !now.After(old) {
		t.Errorf("started %v; want %v, it was %v before", all[id].Started, now, old)
	}
	if got := paths(proxy.Requests()); !slices.Equal(got, []string{listCall, inspectCall(id)}) {
		t.Errorf("one change costs %v", got)
	}
	proxy.Reset()
	if again := mustList(t, p); !again[other].Started.Equal(all[other].Started) {
		t.Errorf("the other one: %+v, then %+v", all[other], again[other])
	}
	if got := paths(proxy.Requests()); !slices.Equal(got, []string{listCall}) {
		t.Errorf("and then a steady state costs %v", got)
	}
}

// overtaken has each inspect of that container answer how things were before
// change, which Watch has told of by the time of the answer.
func overtaken(t *testing.T, proxy *enginetest.Proxy, w *watcher, id string, change func()) {
	t.Helper()
	proxy.Hook(on("GET", id+"/json", proxy.Rewrite(func(b []byte) []byte {
		proxy.Hook(nil)
		n := w.told(id)
		change()
		until(t, "the event", func() bool { return w.told(id) > n })
		return b
	})))
}

func TestAnInspectThatAnEventOvertookIsNotTrustedForLong(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	w := watch(t, e, p)
	id := e.Run(t, enginetest.Options{})
	until(t, "create and start", func() bool { return w.told(id) == 2 })
	overtaken(t, proxy, w, id, func() { restart(t, e, id) })
	mustList(t, p)
	if sb, now := mustList(t, p)[id], parseTime(e.Inspect(t, id).State.StartedAt); !sb.Started.Equal(now) {
		t.Errorf("started %v; want %v", sb.Started, now)
	}

	unseen := e.Run(t, enginetest.Options{})
	until(t, "create and start", func() bool { return w.told(unseen) == 2 })
	overtaken(t, proxy, w, unseen, func() {
		if err := e.Client(t).ContainerPause(within(t), unseen); err != nil {
			t.Fatal(err)
		}
	})
	mustGet(t, p, unseen)
	if sb := mustGet(t, p, unseen); sb.State != providers.StatePaused || sb.PausedSince.IsZero() {
		t.Errorf("an answer from before the pause made it forgotten: %s since %v", sb.State, sb.PausedSince)
	}
}

func TestPausedSinceIsWhenTheLastPauseWasHeardOf(t *testing.T) {
	enginetest.Each(t, pausedSinceIsWhenTheLastPauseWasHeardOf)
}

func pausedSinceIsWhenTheLastPauseWasHeardOf(t *testing.T, e *enginetest.Engine) {
	cli, proxy := e.Client(t), enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	missed := e.Run(t, enginetest.Options{})
	if err := cli.ContainerPause(within(t), missed); err != nil {
		t.Fatal(err)
	}
	w := watch(t, e, p)
	id := e.Run(t, enginetest.Options{})
	until(t, "create and start", func() bool { return w.told(id) == 2 })
	agreed := func() providers.Sandbox {
		t.Helper()
		listed := mustList(t, p)[id]
		got := mustGet(t, p, id)
		again := mustList(t, p)[id]
		if !listed.PausedSince.Equal(got.PausedSince) || !again.PausedSince.Equal(got.PausedSince) || listed.State != got.State {
			t.Fatalf("List: %s since %v, Get: %s since %v, List again: since %v", listed.State, listed.PausedSince, got.State, got.PausedSince, again.PausedSince)
		}
		return got
	}
	change := func(pause bool) (before, after time.Time) {
		t.Helper()
		n := w.told(id)
		before = time.Now()
		f := cli.ContainerUnpause
		if pause {
			f = cli.ContainerPause
		}
		if err := f(within(t), id); err != nil {
			t.Fatal(err)
		}
		after = time.Now()
		until(t, "the event", func() bool { return w.told(id) > n })
		return before, after
	}
	for round := range 2 {
		before, after := change(true)
		if sb := agreed(); sb.State != providers.StatePaused || sb.PausedSince.Before(before) || sb.PausedSince.After(after) {
			t.Errorf("round %d: %s since %v; it was paused between %v and %v", round, sb.State, sb.PausedSince, before, after)
		}
		n := w.told(id)
		rename(t, e, id)
		until(t, "rename", func() bool { return w.told(id) > n })
		if sb := agreed(); sb.PausedSince.Before(before) || sb.PausedSince.After(after) {
			t.Errorf("renamed: paused since %v", sb.PausedSince)
		}
		change(false) // and in the second round it is listed only when paused again
		if round == 0 {
			if sb := agreed(); sb.State != providers.StateRunning || !sb.PausedSince.IsZero() {
				t.Errorf("unpaused: %s since %v", sb.State, sb.PausedSince)
			}
		}
	}
	before, after := change(true)
	if sb := agreed(); sb.PausedSince.Before(before) || sb.PausedSince.After(after) {
		t.Errorf("unpaused and paused between two lists: since %v, want between %v and %v", sb.PausedSince, before, after)
	}
	if sb := mustGet(t, p, missed); sb.State != providers.StatePaused || !sb.PausedSince.IsZero() {
		t.Errorf("one whose pause nobody heard of: %s since %v", sb.State, sb.PausedSince)
	}
	w.stop()
	if err := <-w.ended; err != nil {
		t.Errorf("Watch gave %v; want nil", err)
	}
	if sb := agreed(); sb.State != providers.StatePaused || !sb.PausedSince.IsZero() {
		t.Errorf("nobody watches, and it is %s since %v", sb.State, sb.PausedSince)
	}
}

func TestAPauseThatWasNotHeardOfYetHasNoTime(t *testing.T) {
	id := strings.Repeat("ab", 32)
	inv := newInventory()
	for _, action := range []events.Action{events.ActionPause, events.ActionUnPause} {
		inv.hear(events.Message{Type: events.ContainerEventType, Action: action, Actor: events.Actor{ID: id}, TimeNano: 1796040000e9})
	}
	paused := providers.Sandbox{Ref: providers.Ref{ID: id}, State: providers.StatePaused}
	if sb := inv.learn(paused, inv.asking()); !sb.PausedSince.IsZero() {
		t.Errorf("paused since %v, which was the time before", sb.PausedSince)
	}
}

func TestWhatComesToBeDuringAListIsNotForgottenByIt(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	w := watch(t, e, p)
	var id string
	proxy.Hook(on("GET", "/containers/json", proxy.Rewrite(func(b []byte) []byte {
		proxy.Hook(nil)
		id = e.Run(t, enginetest.Options{})
		if err := e.Client(t).ContainerPause(within(t), id); err != nil {
			t.Error(err)
		}
		until(t, "create, start and pause", func() bool { return w.told(id) == 3 })
		return b
	})))
	if _, listed := mustList(t, p)[id]; listed {
		t.Fatal("it is listed: nothing was tested")
	}
	if sb := mustGet(t, p, id); sb.PausedSince.IsZero() {
		t.Error("its pause is forgotten")
	}
}

// A container that cannot be read is not asked for more often for being heard of.
func TestEventsOfOneThatCannotBeReadCostNothing(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	w := watch(t, e, p)
	id := e.Run(t, enginetest.Options{CreateOnly: true})
	proxy.Hook(on("GET", id+"/json", enginetest.Answer(http.StatusInternalServerError, `{}`)))
	mustList(t, p)
	n := w.told(id)
	rename(t, e, id)
	until(t, "rename", func() bool { return w.told(id) > n })
	proxy.Reset()
	mustList(t, p)
	if got := paths(proxy.Requests()); !slices.Equal(got, []string{listCall}) {
		t.Errorf("it asked %v", got)
	}
}
