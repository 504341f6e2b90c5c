package docker

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestStopKeepsWhatItWroteAndRemoveDoesNot(t *testing.T) {
	enginetest.Each(t, stopKeepsWhatItWroteAndRemoveDoesNot)
}

func stopKeepsWhatItWroteAndRemoveDoesNot(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	stopped := e.Run(t, enginetest.Options{Cmd: enginetest.Polite()})
	removed := e.Run(t, enginetest.Options{Cmd: enginetest.Polite()})
	atOnce := e.Run(t, enginetest.Options{})
	for _, tc := range []struct {
		id     string
		o      providers.StopOptions
		exists bool
		calls  []string
	}{
		{stopped, providers.StopOptions{Action: providers.ActionStop, Grace: 20500 * time.Millisecond}, true,
			[]string{"POST /containers/" + stopped + "/stop?t=21"}},
		{removed, providers.StopOptions{Action: providers.ActionRemove, Grace: 20 * time.Second}, false,
			[]string{"POST /containers/" + removed + "/stop?t=20", "DELETE /containers/" + removed + "?force=1"}},
		{atOnce, providers.StopOptions{Action: providers.ActionRemove, Volumes: true}, false,
			[]string{"DELETE /containers/" + atOnce + "?force=1&v=1"}},
	} {
		proxy.Reset()
		mustStop(t, p, tc.id, tc.o)
		if got := paths(proxy.Mutations()); !slices.Equal(got, tc.calls) {
			t.Errorf("%+v called %v, want %v", tc.o, got, tc.calls)
		}
		if e.Exists(t, tc.id) != tc.exists {
			t.Errorf("%+v: exists %v", tc.o, !tc.exists)
		}
	}
	if s := e.Inspect(t, stopped).State; s.Running || s.ExitCode != 0 {
		t.Errorf("it was not asked politely: %+v", s)
	}
}

func TestOneThatIgnoresTheSignalIsKilledAfterItsGrace(t *testing.T) {
	enginetest.Each(t, oneThatIgnoresTheSignalIsKilledAfterItsGrace)
}

func oneThatIgnoresTheSignalIsKilledAfterItsGrace(t *testing.T, e *enginetest.Engine) {
	p := openAt(t, e.Host())
	for _, grace := range []time.Duration{0, time.Second} {
		id := e.Run(t, enginetest.Options{Cmd: enginetest.Stubborn()})
		mustStop(t, p, id, providers.StopOptions{Action: providers.ActionStop, Grace: grace})
		if s := e.Inspect(t, id).State; s.Running || s.ExitCode != 137 {
			t.Errorf("grace %v: %+v", grace, s)
		}
	}
}

func TestPausedOnesHearTheSignal(t *testing.T) { enginetest.Each(t, pausedOnesHearTheSignal) }

func pausedOnesHearTheSignal(t *testing.T, e *enginetest.Engine) {
	cli, proxy := e.Client(t), enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	for _, o := range []providers.StopOptions{
		{Action: providers.ActionStop, Grace: 20 * time.Second},
		{Action: providers.ActionRemove, Grace: 20 * time.Second},
		{Action: providers.ActionRemove},
	} {
		id := e.Run(t, enginetest.Options{Cmd: enginetest.Polite()})
		if err := cli.ContainerPause(within(t), id); err != nil {
			t.Fatal(err)
		}
		proxy.Reset()
		mustStop(t, p, id, o)
		// Docker 20.10 can stop a paused one by itself; others refuse.
		if got := paths(proxy.Mutations()); o.Grace > 0 && !slices.Equal(got[:2], []string{
			"POST /containers/" + id + "/unpause", "POST /containers/" + id + "/stop?t=20",
		}) {
			t.Errorf("%+v called %v", o, got)
		}
		if o.Action == providers.ActionRemove {
			if e.Exists(t, id) {
				t.Errorf("%+v: still there", o)
			}
		} else if s := e.Inspect(t, id).State; s.Running || s.Paused || s.ExitCode != 0 {
			t.Errorf("%+v: %+v", o, s)
		}
	}
}

func TestOnesThatDoNotRunAreStoppedAlready(t *testing.T) {
	enginetest.Each(t, onesThatDoNotRunAreStoppedAlready)
}

func onesThatDoNotRunAreStoppedAlready(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	created := e.Run(t, enginetest.Options{CreateOnly: true})
	exited := e.Run(t, enginetest.Options{Cmd: []string{"true"}})
	e.Wait(t, exited, func(s *container.State) bool { return s.Status == "exited" })
	for _, id := range []string{created, exited} {
		mustStop(t, p, id, providers.StopOptions{Action: providers.ActionStop, Grace: time.Second})
	}
	if got := paths(proxy.Mutations()); len(got) != 0 {
		t.Errorf("nothing was to be done, and it called %v", got)
	}
	for _, id := range []string{created, exited} {
		mustStop(t, p, id, providers.StopOptions{Action: providers.ActionRemove, Grace: time.Second})
		if e.Exists(t, id) {
			t.Errorf("%s was not removed", short(id))
		}
	}
}

func TestAStoppedOneStaysStoppedWhenTheEngineRestarts(t *testing.T) {
	e := enginetest.Start(t)
	p := openAt(t, e.Host())
	always := e.Run(t, enginetest.Options{Cmd: enginetest.Polite(), Restart: "always"})
	failing := e.Run(t, enginetest.Options{Restart: "on-failure"}) // ends with 137
	unless := e.Run(t, enginetest.Options{Cmd: enginetest.Polite(), Restart: "unless-stopped"})
	bystander := e.Run(t, enginetest.Options{Cmd: enginetest.Polite(), Restart: "always"})
	for _, id := range []string{always, failing, unless} {
		mustStop(t, p, id, providers.StopOptions{Action: providers.ActionStop, Grace: time.Second})
	}
	e.Restart(t)
	e.Wait(t, bystander, func(s *container.State) bool { return s.Running }) // by now the others would run
	for _, id := range []string{always, failing, unless} {
		c := e.Inspect(t, id)
		if c.State.Running || c.HostConfig.RestartPolicy.Name != "no" {
			t.Errorf("%+v with restart policy %s", c.State, c.HostConfig.RestartPolicy.Name)
		}
	}
	if sb := mustGet(t, p, bystander); sb.State != providers.StateRunning {
		t.Errorf("after the engine's restart the provider says %+v", sb)
	}
}

func TestAutoRemoveIsFasterThanUs(t *testing.T) { enginetest.Each(t, autoRemoveIsFasterThanUs) }

func autoRemoveIsFasterThanUs(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	inProgress := on("DELETE", "", conflict)
	for action, hook := range map[providers.Action]enginetest.Hook{
		providers.ActionStop: nil, providers.ActionRemove: inProgress,
	} {
		proxy.Hook(hook)
		id := e.Run(t, enginetest.Options{Cmd: enginetest.Polite(), AutoRemove: true})
		err := p.Stop(within(t), mustGet(t, p, id), providers.StopOptions{Action: action, Grace: 20 * time.Second})
		if err != nil {
			t.Errorf("%s: %v", action, err)
		}
		until(t, "it is gone", func() bool { return !e.Exists(t, id) })
	}
}

func TestAnonymousVolumesGoOnlyWhenAskedAndNamedOnesNever(t *testing.T) {
	enginetest.Each(t, anonymousVolumesGoOnlyWhenAskedAndNamedOnesNever)
}

func anonymousVolumesGoOnlyWhenAskedAndNamedOnesNever(t *testing.T, e *enginetest.Engine) {
	cli, p := e.Client(t), openAt(t, e.Host())
	for _, volumes := range []bool{true, false} {
		id := e.Run(t, enginetest.Options{Volumes: []string{"/anonymous"}, Binds: []string{"precious:/named"}})
		t.Cleanup(func() { _ = cli.VolumeRemove(t.Context(), "precious", true) })
		anonymous := ""
		for _, m := range e.Inspect(t, id).Mounts {
			if m.Destination == "/anonymous" {
				anonymous = m.Name
			}
		}
		mustStop(t, p, id, providers.StopOptions{Action: providers.ActionRemove, Volumes: volumes})
		_, err := cli.VolumeInspect(within(t), anonymous)
		if gone := errdefs.IsNotFound(err); gone != volumes {
			t.Errorf("volumes %v: anonymous volume gone %v (%v)", volumes, gone, err)
		}
		if _, err := cli.VolumeInspect(within(t), "precious"); err != nil {
			t.Errorf("volumes %v: named volume: %v", volumes, err)
		}
		if !volumes {
			_ = cli.VolumeRemove(within(t), anonymous, true)
		}
	}
}

func TestWhatCannotBeDoneIsRefusedUntouched(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	id := e.Run(t, enginetest.Options{})
	sb := mustGet(t, p, id)
	proxy.Reset()
	for _, o := range []providers.StopOptions{
		{},
		{Action: "incinerate"},
		{Action: providers.ActionPause, Volumes: true},
		{Action: providers.ActionRemove, Networks: true},
		{Action: providers.ActionRemove, Images: true},
		{Action: providers.ActionRemove, Snapshot: true},
		{Action: providers.ActionStop, Volumes: true},
		{Action: providers.ActionRemove, Grace: -time.Second},
	} {
		if err := p.Stop(within(t), sb, o); !errors.Is(err, providers.ErrUnsupported) {
			t.Errorf("%+v gave %v; want ErrUnsupported", o, err)
		}
	}
	if got := paths(proxy.Requests()); len(got) != 0 {
		t.Errorf("it called %v", got)
	}
	for _, other := range []string{"", "2026-11-30T12:00:00Z", sb.Revision + "0"} {
		changed := sb
		changed.Revision = other
		for _, action := range []providers.Action{providers.ActionStop, providers.ActionRemove, providers.ActionPause} {
			if err := p.Stop(within(t), changed, providers.StopOptions{Action: action}); !errors.Is(err, providers.ErrChanged) {
				t.Errorf("revision %q: %s gave %v; want ErrChanged", other, action, err)
			}
		}
	}
	gone := sb
	gone.ID = strings.Repeat("0", 64)
	if err := p.Stop(within(t), gone, providers.StopOptions{Action: providers.ActionRemove}); !errors.Is(err, providers.ErrNotFound) {
		t.Errorf("one that is gone: %v; want ErrNotFound", err)
	}
	if got := paths(proxy.Mutations()); len(got) != 0 || !e.Inspect(t, id).State.Running {
		t.Errorf("it changed something: %v", got)
	}
}

// Somebody starts again what was judged by how long it had been lying around,
// before the stop or while that waits for its turn.
func TestOneThatWasSetGoingAgainIsKept(t *testing.T) {
	enginetest.Each(t, oneThatWasSetGoingAgainIsKept)
}

func oneThatWasSetGoingAgainIsKept(t *testing.T, e *enginetest.Engine) {
	cli, proxy := e.Client(t), enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	start := func(id string) {
		if err := cli.ContainerStart(within(t), id, container.StartOptions{}); err != nil {
			t.Errorf("start: %v", err)
		}
	}
	exited := func() string {
		id := e.Run(t, enginetest.Options{})
		if err := cli.ContainerKill(within(t), id, "KILL"); err != nil {
			t.Fatal(err)
		}
		e.Wait(t, id, func(s *container.State) bool { return s.Status == "exited" })
		return id
	}
	created := e.Run(t, enginetest.Options{CreateOnly: true})
	paused := e.Run(t, enginetest.Options{})
	if err := cli.ContainerPause(within(t), paused); err != nil {
		t.Fatal(err)
	}
	removals := []providers.StopOptions{
		{Action: providers.ActionRemove}, {Action: providers.ActionRemove, Grace: time.Second},
	}
	for _, o := range removals {
		for _, id := range []string{exited(), created, paused} {
			sb := mustGet(t, p, id)
			if id == paused {
				if err := cli.ContainerUnpause(within(t), id); err != nil {
					t.Fatal(err)
				}
			} else {
				start(id)
			}
			if err := p.Stop(within(t), sb, o); !errors.Is(err, providers.ErrChanged) {
				t.Errorf("%s before the stop, with %v of grace: %v; want ErrChanged", sb.State, o.Grace, err)
			}
			if c, err := cli.ContainerInspect(within(t), id); err != nil || !c.State.Running {
				t.Fatalf("%s and set going again, it was taken: %v", sb.State, err)
			}
			if id == created {
				created = e.Run(t, enginetest.Options{CreateOnly: true})
			}
			if id == paused {
				if err := cli.ContainerPause(within(t), id); err != nil {
					t.Fatal(err)
				}
			}
		}
		late := exited()
		sb := mustGet(t, p, late)
		proxy.Hook(on("DELETE", late, func(w http.ResponseWriter, r *http.Request) {
			start(late)
			proxy.Forward(w, r)
		}))
		if err := p.Stop(within(t), sb, o); !errors.Is(err, providers.ErrBusy) {
			t.Errorf("started just before the removal, with %v of grace: %v; want ErrBusy", o.Grace, err)
		}
		if c, err := cli.ContainerInspect(within(t), late); err != nil || !c.State.Running {
			t.Errorf("started just before the removal, it was taken: %v", err)
		}
		proxy.Hook(nil)
	}
}
