package docker

import (
	"context"
	"errors"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

// watcher is a running Watch and what it told of.
type watcher struct {
	mu    sync.Mutex
	ids   []string
	ended chan error
	stop  context.CancelFunc
}

// begin starts a Watch. It ends with the test.
func begin(t *testing.T, p *Provider) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{ended: make(chan error, 1), stop: cancel}
	var wg sync.WaitGroup
	wg.Go(func() {
		w.ended <- p.Watch(ctx, func(id string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ids = append(w.ids, id)
		})
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return w
}

// watch starts a Watch and waits until the engine tells it what happens.
func watch(t *testing.T, e *enginetest.Engine, p *Provider) *watcher {
	t.Helper()
	w := begin(t, p)
	id := e.Run(t, enginetest.Options{CreateOnly: true})
	until(t, "the first event", func() bool {
		rename(t, e, id)
		return w.told(id) > 0
	})
	return w
}

func (w *watcher) told(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, one := range w.ids {
		if one == id {
			n++
		}
	}
	return n
}

// soon waits until the container was told of once more often than before, and
// gives how often it was.
func (w *watcher) soon(t *testing.T, id, what string, before int) int {
	t.Helper()
	began := time.Now()
	until(t, "an event of "+what, func() bool { return w.told(id) > before })
	if took := time.Since(began); took > time.Second {
		t.Errorf("%s was told of after %v", what, took)
	}
	return w.told(id)
}

// broke waits for the end of a Watch that nobody called off.
func (w *watcher) broke(t *testing.T) {
	t.Helper()
	select {
	case err := <-w.ended:
		if !errors.Is(err, providers.ErrUnavailable) {
			t.Errorf("Watch ended with %v; want ErrUnavailable", err)
		}
	case <-time.After(patience):
		t.Fatal("Watch did not end")
	}
}

func rename(t *testing.T, e *enginetest.Engine, id string) {
	t.Helper()
	name := "renamed-" + short(id) + "-" + time.Now().Format("150405.000000000")
	if err := e.Client(t).ContainerRename(within(t), id, name); err != nil {
		t.Fatal(err)
	}
}

func restart(t *testing.T, e *enginetest.Engine, id string) {
	t.Helper()
	now := 0
	if err := e.Client(t).ContainerRestart(within(t), id, container.StopOptions{Timeout: &now}); err != nil {
		t.Fatal(err)
	}
}

func TestChangesAreToldWithinASecond(t *testing.T) { enginetest.Each(t, changesAreToldWithinASecond) }

func changesAreToldWithinASecond(t *testing.T, e *enginetest.Engine) {
	cli, p := e.Client(t), openAt(t, e.Host())
	w := watch(t, e, p)
	id := e.Run(t, enginetest.Options{CreateOnly: true})
	n := w.soon(t, id, "create", 0)
	now := 0
	for _, step := range []struct {
		what string
		do   func() error
		want providers.State
	}{
		{"start", func() error { return cli.ContainerStart(within(t), id, container.StartOptions{}) }, providers.StateRunning},
		{"pause", func() error { return cli.ContainerPause(within(t), id) }, providers.StatePaused},
		{"unpause", func() error { return cli.ContainerUnpause(within(t), id) }, providers.StateRunning},
		{"rename", func() error { return cli.ContainerRename(within(t), id, "told-of-"+short(id)) }, providers.StateRunning},
		{"die, by a signal", func() error { return cli.ContainerKill(within(t), id, "KILL") }, providers.StateExited},
		{"another start", func() error { return cli.ContainerStart(within(t), id, container.StartOptions{}) }, providers.StateRunning},
		{"die, by a stop", func() error { return cli.ContainerStop(within(t), id, container.StopOptions{Timeout: &now}) }, providers.StateExited},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		n = w.soon(t, id, step.what, n)
		if sb := mustGet(t, p, id); sb.State != step.want {
			t.Errorf("told of %s, it is %s, want %s", step.what, sb.State, step.want)
		}
	}
	// A stop is told of twice; see told. The second may only now arrive.
	rename(t, e, id)
	until(t, "the last of them", func() bool { return w.told(id) == n+1 || w.told(id) == n+2 })
	n = w.told(id)
	e.Remove(t, id)
	w.soon(t, id, "destroy", n)
	if p.inventory.get(id) != nil {
		t.Error("it is gone and still remembered")
	}
}

func TestWhatChangesNothingThatIsReadIsNotToldOf(t *testing.T) {
	enginetest.Each(t, whatChangesNothingThatIsReadIsNotToldOf)
}

func whatChangesNothingThatIsReadIsNotToldOf(t *testing.T, e *enginetest.Engine) {
	cli, p := e.Client(t), openAt(t, e.Host())
	w := watch(t, e, p)
	id := e.Run(t, enginetest.Options{})
	until(t, "create and start", func() bool { return w.told(id) == 2 })
	var columns []string
	if e.IsPodman() {
		columns = []string{"pid,args"}
	}
	made, err := cli.ContainerExecCreate(within(t), id, container.ExecOptions{Cmd: []string{"true"}})
	if err == nil {
		err = cli.ContainerExecStart(within(t), made.ID, container.ExecStartOptions{Detach: true})
	}
	if err == nil {
		_, err = cli.ContainerTop(within(t), id, columns)
	}
	if err == nil {
		err = cli.ContainerKill(within(t), id, "CONT")
	}
	if err == nil && !e.IsPodman() { // 4.3.1 has no such call
		_, err = cli.ContainerUpdate(within(t), id, container.UpdateConfig{RestartPolicy: container.RestartPolicy{Name: "always"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	rename(t, e, id)
	until(t, "rename", func() bool { return w.told(id) > 2 })
	if got := w.told(id); got != 3 {
		t.Errorf("told of it %d times, want 3: create, start, rename", got)
	}
}

func TestACrashLoopThatIsStoppedWhileItWaitsIsToldOf(t *testing.T) {
	e := enginetest.Shared(t)
	cli, p := e.Client(t), openAt(t, e.Host())
	w := watch(t, e, p)
	id := e.Run(t, enginetest.Options{Cmd: []string{"false"}, Restart: "always"})
	until(t, "a wait of some seconds", func() bool {
		return e.Inspect(t, id).RestartCount >= 6 && mustGet(t, p, id).State == providers.StateStarting
	})
	n := w.told(id)
	if err := cli.ContainerStop(within(t), id, container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	w.soon(t, id, "stop", n)
	until(t, "exited", func() bool { return mustGet(t, p, id).State == providers.StateExited })
}

func TestWatchOutlivesNoEngine(t *testing.T) { enginetest.EachAlone(t, watchOutlivesNoEngine) }

func watchOutlivesNoEngine(t *testing.T, e *enginetest.Engine) {
	p := openAt(t, e.Host())
	w := watch(t, e, p)
	e.Restart(t)
	w.broke(t)
	watch(t, e, p)
	e.Down(t)
	if err := p.Watch(within(t), func(string) {}); !errors.Is(err, providers.ErrUnavailable) {
		t.Errorf("no engine: %v; want ErrUnavailable", err)
	}
	e.Up(t)
}

func TestWatchEndsWithWhatItsClientKnew(t *testing.T) {
	proxy := enginetest.NewProxyTo(t, "/nowhere")
	p := openAt(t, proxy.Host())
	speaks := func(lowest, highest string, streams chan<- struct{}) {
		rest := ranged(lowest, highest)
		proxy.Hook(func(r enginetest.Request) http.HandlerFunc {
			if strings.HasPrefix(r.Path, "/events") && r.Version <= highest && r.Version >= lowest {
				streams <- struct{}{}
				return enginetest.Stall("\n")
			}
			return rest(r)
		})
	}
	streams := make(chan struct{}, 2)
	speaks("1.12", "1.41", streams)
	w := begin(t, p)
	<-streams
	speaks("1.44", "1.52", streams)
	mustList(t, p)
	w.broke(t)
	w = begin(t, p)
	<-streams
	speaks("1.12", "1.40", streams)
	// A new Watch negotiates by itself; the one that goes on meanwhile was
	// begun with the client that it gives up.
	begin(t, p)
	<-streams
	w.broke(t)
}

func TestWatchSaysWhyItCannotBegin(t *testing.T) {
	proxy := enginetest.NewProxyTo(t, "/nowhere")
	p := openAt(t, proxy.Host())
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   providers.Cause
	}{
		"no such call":    {enginetest.Answer(404, `{}`), providers.CauseUnavailable},
		"kept from us":    {enginetest.Answer(403, `{}`), providers.CauseDenied},
		"sick":            {enginetest.Answer(500, strings.Repeat("x", 2<<20)), providers.CauseUnavailable},
		"a cut":           {enginetest.Cut, providers.CauseUnavailable},
		"an end":          {enginetest.Answer(200, ``), providers.CauseUnavailable},
		"something else":  {enginetest.Answer(200, `<html>`), providers.CauseUnavailable},
		"half of a event": {enginetest.Answer(200, `{"Type":"contai`), providers.CauseUnavailable},
	} {
		proxy.Hook(func(r enginetest.Request) http.HandlerFunc {
			if r.Path == "/_ping" {
				return enginetest.Answer(200, "OK")
			}
			return tc.answer
		})
		err := p.Watch(within(t), func(string) {})
		if got := providers.CauseOf(err); err == nil || got != tc.want {
			t.Errorf("%s: %v (cause %q), want cause %q", name, err, got, tc.want)
		}
	}
}

func TestAnEventIsTakenForWhatItIs(t *testing.T) {
	id := strings.Repeat("ab", 32)
	event := func(kind, action, id string) string {
		return `{"Type":"` + kind + `","Action":"` + action + `","Actor":{"ID":"` + id + `","Attributes":{"a":"b"}},"time":1796040000}` + "\n"
	}
	proxy := enginetest.NewProxyTo(t, "/nowhere")
	proxy.Hook(func(r enginetest.Request) http.HandlerFunc {
		if r.Path == "/_ping" {
			return enginetest.Answer(200, "OK")
		}
		return enginetest.Answer(200, event("network", "create", id)+event("container", "exec_start: sh -c true", id)+event("container", "prune", "")+
			event("container", "start", id[:12])+`{}`+event("container", "health_status: healthy", id)+event("container", "died", id)+event("container", "remove", id))
	})
	p := openAt(t, proxy.Host())
	var got []string
	if err := p.Watch(within(t), func(id string) { got = append(got, id) }); err == nil {
		t.Error("no error")
	}
	if !slices.Equal(got, []string{id, id}) {
		t.Errorf("told of %v; want Podman's died and remove alone", got)
	}
}

func TestWhatHappenedBetweenTwoWatchesIsToldByTheSecond(t *testing.T) {
	enginetest.Each(t, whatHappenedBetweenTwoWatchesIsToldByTheSecond)
}

func whatHappenedBetweenTwoWatchesIsToldByTheSecond(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	cut := make(chan struct{})
	proxy.Hook(on("GET", "/events", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-cut:
				cancel()
			case <-ctx.Done():
			}
		}()
		proxy.Forward(w, r.WithContext(ctx))
	}))
	w := watch(t, e, p)
	close(cut)
	w.broke(t)
	id := e.Run(t, enginetest.Options{CreateOnly: true})
	proxy.Hook(nil)
	again := begin(t, p)
	again.soon(t, id, "create", 0)
}

func TestTwoHundredWatchesLeaveNothingBehind(t *testing.T) {
	e := enginetest.Shared(t)
	p := openAt(t, e.Host())
	mustList(t, p)
	count := func() (goroutines, files int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(fds)
	}
	goroutines, files := count()
	for i := range 200 {
		// Some end before they have begun, most while they run.
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*time.Millisecond)
		err := p.Watch(ctx, func(string) {})
		cancel()
		if err != nil {
			t.Fatalf("Watch %d: %v; want nil once its context has ended", i, err)
		}
	}
	until(t, "as many goroutines and open files as before", func() bool {
		g, f := count()
		return g <= goroutines+2 && f <= files+1
	})
}
