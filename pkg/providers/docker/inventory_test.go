package docker

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

const listCall = "GET /containers/json?all=1"

func inspectCall(id string) string { return "GET /containers/" + id + "/json" }

func TestASteadyStateCostsOneListAndNoInspects(t *testing.T) {
	enginetest.Each(t, aSteadyStateCostsOneListAndNoInspects)
}

func aSteadyStateCostsOneListAndNoInspects(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	stays := e.Run(t, enginetest.Options{})
	changes := e.Run(t, enginetest.Options{CreateOnly: true})
	first := mustList(t, p)
	for range 3 {
		proxy.Reset()
		if again := mustList(t, p); len(again) != len(first) || !again[stays].Started.Equal(first[stays].Started) {
			t.Errorf("List gave %+v, then %+v", first, again)
		}
		if got := paths(proxy.Requests()); !slices.Equal(got, []string{listCall}) {
			t.Fatalf("a steady state costs %v", got)
		}
	}
	if err := e.Client(t).ContainerStart(within(t), changes, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	proxy.Reset()
	if sb := mustList(t, p)[changes]; sb.State != providers.StateRunning || sb.Started.IsZero() {
		t.Errorf("after its start: %+v", sb)
	}
	if got := paths(proxy.Requests()); !slices.Equal(got, []string{listCall, inspectCall(changes)}) {
		t.Errorf("one change costs %v", got)
	}
	e.Remove(t, changes)
	if _, ok := mustList(t, p)[changes]; ok || p.inventory.get(changes) != nil {
		t.Error("one that is gone is still listed or remembered")
	}
}

func TestGetCorrectsWhatListRemembers(t *testing.T) { enginetest.Each(t, getCorrectsWhatListRemembers) }

func getCorrectsWhatListRemembers(t *testing.T, e *enginetest.Engine) {
	p := openAt(t, e.Host())
	id := e.Run(t, enginetest.Options{})
	old := mustList(t, p)[id].Started
	restart(t, e, id)
	got := mustGet(t, p, id).Started
	if !got.After(old) {
		t.Errorf("Get: started %v, before the restart %v", got, old)
	}
	if sb := mustList(t, p)[id]; !sb.Started.Equal(got) {
		t.Errorf("List: started %v, Get said %v", sb.Started, got)
	}
}

func TestOnesThatVanishDoNotSpoilAList(t *testing.T) {
	enginetest.Each(t, onesThatVanishDoNotSpoilAList)
}

func onesThatVanishDoNotSpoilAList(t *testing.T, e *enginetest.Engine) {
	p := openAt(t, e.Host())
	violator := e.Run(t, enginetest.Options{})
	ctx, done := context.WithCancel(t.Context())
	var churn sync.WaitGroup
	churn.Go(func() {
		defer done()
		for range 20 {
			e.Remove(t, e.Run(t, enginetest.Options{CreateOnly: true}))
		}
	})
	for ctx.Err() == nil {
		if sb := mustList(t, p)[violator]; sb.State != providers.StateRunning {
			t.Errorf("the violator is %+v", sb)
		}
		p.inventory.keep(nil, p.inventory.asking()) // so that all are inspected again
	}
	churn.Wait()
}

func TestOneThatVanishesBeforeItsInspectIsDropped(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	stays, goes := e.Run(t, enginetest.Options{}), e.Run(t, enginetest.Options{})
	proxy.Hook(on("GET", goes+"/json", func(w http.ResponseWriter, r *http.Request) {
		e.Remove(t, goes)
		proxy.Forward(w, r)
	}))
	all := mustList(t, p)
	if _, ok := all[goes]; ok || all[stays].State != providers.StateRunning {
		t.Errorf("List shows %+v", all)
	}
}

func TestOneHungInspectCostsOnlyItself(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	p.deadlines.inspect = 3 * time.Second
	clock := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	p.now = func() time.Time { return clock }
	ids := make([]string, 10)
	for i := range ids {
		ids[i] = e.Run(t, enginetest.Options{CreateOnly: true, Labels: map[string]string{"a": "b"}})
	}
	wedged := ids[3]
	hold := on("GET", wedged+"/json", enginetest.Hold)
	proxy.Hook(hold)
	check := func(all map[string]providers.Sandbox) {
		t.Helper()
		for _, id := range ids {
			want := providers.StateCreated
			if id == wedged {
				want = providers.StateUnknown
			}
			if sb := all[id]; sb.State != want || sb.Tags["a"] != "b" || sb.RawState != "created" || sb.Name == "" {
				t.Errorf("%s: %+v, want state %s", short(id), sb, want)
			}
		}
	}
	check(mustList(t, p))
	proxy.Reset()
	check(mustList(t, p))
	if got := paths(proxy.Requests()); !slices.Equal(got, []string{listCall}) {
		t.Errorf("the list after it asked %v: want no inspect of the wedged one", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := p.Get(ctx, wedged); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get gave %v; want a deadline", err)
	}
	clock = clock.Add(59 * time.Second)
	proxy.Reset()
	check(mustList(t, p))
	if got := paths(proxy.Requests()); !slices.Equal(got, []string{listCall}) {
		t.Errorf("within the minute it asked %v", got)
	}
	clock = clock.Add(2 * time.Second)
	proxy.Hook(nil)
	if sb := mustList(t, p)[wedged]; sb.State != providers.StateCreated {
		t.Errorf("after a minute it is not read again: %+v", sb)
	}
	// What cannot change is kept from when it could be read.
	before := mustGet(t, p, wedged)
	p.inventory.byID[wedged].sandbox.RawState = "something else"
	proxy.Hook(hold)
	if sb := mustList(t, p)[wedged]; sb.State != providers.StateUnknown || sb.Revision != before.Revision || !sb.Created.Equal(before.Created) || sb.Image != before.Image {
		t.Errorf("unreadable after it was read: %+v, before %+v", sb, before)
	}
	proxy.Hook(nil)
	if sb := mustGet(t, p, wedged); sb.State != providers.StateCreated {
		t.Errorf("Get did not try: %+v", sb)
	}
	if sb := mustList(t, p)[wedged]; sb.State != providers.StateCreated {
		t.Errorf("Get cleared no doubt: %+v", sb)
	}
}

// A caller may give a list less time than an inspect may take.
func TestOneHungInspectDoesNotUseUpAListsTime(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	wedged := e.Run(t, enginetest.Options{CreateOnly: true})
	proxy.Hook(on("GET", wedged+"/json", enginetest.Hold))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // of the five that an inspect has
	defer cancel()
	all, err := p.List(ctx)
	if i := slices.IndexFunc(all, func(sb providers.Sandbox) bool { return sb.ID == wedged }); err != nil || i < 0 || all[i].State != providers.StateUnknown {
		t.Errorf("%v, %v", all, err)
	}
}

func TestAnEngineThatGoesAwayLeavesNoDoubtAboutItsContainers(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	id := e.Run(t, enginetest.Options{})
	socket := strings.TrimPrefix(proxy.Host(), "unix://")
	proxy.Hook(on("GET", "/containers/json", func(w http.ResponseWriter, r *http.Request) {
		if err := os.Rename(socket, socket+".away"); err != nil {
			t.Error(err)
		}
		w.Header().Set("Connection", "close")
		proxy.Forward(w, r)
	}))
	if sb := mustList(t, p)[id]; sb.State != providers.StateUnknown {
		t.Errorf("nobody could ask for its details, and it is %+v", sb)
	}
	proxy.Hook(nil)
	if err := os.Rename(socket+".away", socket); err != nil {
		t.Fatal(err)
	}
	if sb := mustList(t, p)[id]; sb.State != providers.StateRunning {
		t.Errorf("the engine is back, and it is %+v", sb)
	}
}

func TestAListThatFailsGivesNothing(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	id := e.Run(t, enginetest.Options{})
	mustList(t, p)
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		cause  providers.Cause
	}{
		"hangs":                     {enginetest.Hold, providers.CauseTimeout},
		"hangs after half the body": {enginetest.Stall(`[{"Id":"` + id + `","State":"run`), providers.CauseTimeout},
		"is cut":                    {enginetest.Cut, providers.CauseUnavailable},
		"answers half a body":       {enginetest.Answer(http.StatusOK, `[{"Id":"`+id), providers.CauseUnavailable},
		"answers something else":    {enginetest.Answer(http.StatusOK, `{"message":"ok"}`), providers.CauseUnavailable},
		"answers 500":               {enginetest.Answer(http.StatusInternalServerError, `{"message":"sick"}`), providers.CauseUnavailable},
		"is not an engine's":        {enginetest.Answer(http.StatusNotFound, `{"message":"page not found"}`), providers.CauseUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			proxy.Hook(on("GET", "/containers/json", tc.answer))
			ctx := within(t)
			if tc.cause == providers.CauseTimeout {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
			}
			all, err := p.List(ctx)
			if all != nil || providers.CauseOf(err) != tc.cause {
				t.Errorf("List gave %v, %v (cause %s); want nil and cause %s", all, err, providers.CauseOf(err), tc.cause)
			}
		})
	}
}

func TestGetTakesFullIDsOnly(t *testing.T) { enginetest.Each(t, getTakesFullIDsOnly) }

func getTakesFullIDsOnly(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	looksLikeAnID := strings.Repeat("ab", 32)
	id := e.Run(t, enginetest.Options{Name: looksLikeAnID})
	for _, other := range []string{looksLikeAnID, id[:12], id[:63], strings.ToUpper(id), "/" + looksLikeAnID, "", "../" + id, id + "/json", id + "\n"} {
		if sb, err := p.Get(within(t), other); !errors.Is(err, providers.ErrNotFound) {
			t.Errorf("Get(%q) gave %+v, %v; want ErrNotFound", other, sb, err)
		}
		err := p.Stop(within(t), providers.Sandbox{Ref: providers.Ref{ID: other}}, providers.StopOptions{Action: providers.ActionRemove})
		if !errors.Is(err, providers.ErrNotFound) {
			t.Errorf("Stop(%q) gave %v; want ErrNotFound", other, err)
		}
	}
	if got := proxy.Mutations(); len(got) != 0 || !e.Inspect(t, id).State.Running {
		t.Errorf("it was touched: %v", got)
	}
	if p.inventory.get(looksLikeAnID) != nil {
		t.Error("a name is remembered as if it were an id")
	}
}

func TestErrorsLeaveNoConnectionsBehind(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	id := e.Run(t, enginetest.Options{CreateOnly: true})
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	mustList(t, p)
	before := open()
	big := `{"message":"` + strings.Repeat("x", 1<<16) + `"}`
	for i := range 300 {
		status := []int{http.StatusNotFound, http.StatusInternalServerError, http.StatusConflict}[i%3]
		proxy.Hook(on("GET", id+"/json", enginetest.Answer(status, big)))
		if _, err := p.Get(within(t), id); err == nil {
			t.Fatal("no error")
		}
		mustList(t, p)
	}
	if after := open(); after > before+2*inspectsAtOnce {
		t.Errorf("%d open files before, %d after 300 errors", before, after)
	}
}
