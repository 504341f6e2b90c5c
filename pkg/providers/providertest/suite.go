// Package providertest is the contract that every kind of provider must pass.
// A kind's tests call Run with a fixture that starts real sandboxes.
package providertest

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/providers"
)

// Fixture is one kind made ready for the suite. Each test of the suite gets a
// fresh one; what it starts it also clears away, through t.Cleanup.
type Fixture struct {
	Provider providers.Provider
	// Name is the name the provider was configured with.
	Name string
	// Actions are those that the kind can carry out on a running sandbox.
	Actions []providers.Action
	// Start begins a sandbox that runs until it is stopped and gives its id,
	// once it is running.
	Start func(t *testing.T, tags map[string]string) (id string)
	// Vanish ends a sandbox behind the provider's back, leaving nothing.
	Vanish func(t *testing.T, id string)
}

// patience bounds every wait of the suite: how long a real provider may take
// on a loaded machine, not how long it should.
const patience = 60 * time.Second

// Run holds the kind that open gives against the contract of
// providers.Provider.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, tc := range []struct {
		name string
		test func(t *testing.T, f Fixture)
	}{
		{"list is empty where nothing runs", emptyList},
		{"list shows what runs", list},
		{"get agrees with list", getAgrees},
		{"get of an unknown id is not found", getUnknown},
		{"stop of an unknown id is not found", stopUnknown},
		{"each action takes effect, and again does no harm", actions},
		{"a changed revision is left alone", changedRevision},
		{"an option the kind cannot honour is refused", unsupported},
		{"one that vanished is not found", vanished},
		{"a cancelled context ends every call and changes nothing", cancelled},
		{"a dry run changes nothing", dryRun},
		{"calls may run side by side", sideBySide},
		{"a watch tells what changes and ends with its context", watches},
		{"a probe of a fit provider succeeds", probes},
		{"the clock of a provider on this machine is this machine's", tellsTime},
		{"nothing is printed", silent},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, open(t)) })
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func mustList(t *testing.T, f Fixture) []providers.Sandbox {
	t.Helper()
	all, err := f.Provider.List(within(t))
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	return all
}

func find(all []providers.Sandbox, id string) (providers.Sandbox, bool) {
	i := slices.IndexFunc(all, func(sb providers.Sandbox) bool { return sb.ID == id })
	if i < 0 {
		return providers.Sandbox{}, false
	}
	return all[i], true
}

func mustFind(t *testing.T, f Fixture, id string) providers.Sandbox {
	t.Helper()
	sb, ok := find(mustList(t, f), id)
	if !ok {
		t.Fatalf("List does not show %s", id)
	}
	return sb
}

func stillRuns(t *testing.T, f Fixture, id string) {
	t.Helper()
	sb, err := f.Provider.Get(within(t), id)
	if err != nil || sb.State != providers.StateRunning {
		t.Errorf("it should still run: state %q, error %v", sb.State, err)
	}
}

func emptyList(t *testing.T, f Fixture) {
	if all := mustList(t, f); len(all) != 0 {
		t.Errorf("List shows %d sandboxes where none was started: %+v", len(all), all)
	}
}

func list(t *testing.T, f Fixture) {
	tags := map[string]string{"owner": "conformance", "empty": ""}
	before := time.Now().Add(-time.Minute)
	first, second := f.Start(t, tags), f.Start(t, map[string]string{"owner": "other"})
	all := mustList(t, f)
	if len(all) != 2 {
		t.Fatalf("List shows %d sandboxes, want 2: %+v", len(all), all)
	}
	for _, id := range []string{first, second} {
		if _, ok := find(all, id); !ok {
			t.Errorf("List does not show %s", id)
		}
	}
	sb, _ := find(all, first)
	if sb.Provider != f.Name || sb.Kind == "" {
		t.Errorf("provider %q, kind %q: want %q and a kind", sb.Provider, sb.Kind, f.Name)
	}
	if sb.State != providers.StateRunning {
		t.Errorf("state %q, want running", sb.State)
	}
	for k, v := range tags {
		if got, ok := sb.Tags[k]; !ok || got != v {
			t.Errorf("tag %s: got %q (present %v), want %q", k, got, ok, v)
		}
	}
	if sb.Created.IsZero() || sb.Started.IsZero() {
		t.Errorf("created %v, started %v: a running sandbox has both", sb.Created, sb.Started)
	}
	// The fake kind works with made-up times; a real one must tell the real time.
	if sb.Kind != "fake" && (sb.Created.Before(before) || sb.Created.After(time.Now().Add(time.Minute))) {
		t.Errorf("created %v is not about now", sb.Created)
	}
	if sb.Started.Before(sb.Created.Add(-time.Second)) {
		t.Errorf("started %v before created %v", sb.Started, sb.Created)
	}
	if sb.Restarts != 0 {
		t.Errorf("%d restarts of one that was started once", sb.Restarts)
	}
	if sb.Revision == "" {
		t.Error("no revision: reuse of the id could not be told")
	}
}

func getAgrees(t *testing.T, f Fixture) {
	id := f.Start(t, map[string]string{"a": "b"})
	listed := mustFind(t, f, id)
	got, err := f.Provider.Get(within(t), id)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	if diff := cmp.Diff(listed, got); diff != "" {
		t.Errorf("Get disagrees with List (-list +get):\n%s", diff)
	}
	if diff := cmp.Diff(got, mustFind(t, f, id)); diff != "" {
		t.Errorf("a second List disagrees with Get (-get +list):\n%s", diff)
	}
}

// unknownID is well-formed for no kind and present on none.
const unknownID = "0:no-such-sandbox"

func getUnknown(t *testing.T, f Fixture) {
	if sb, err := f.Provider.Get(within(t), unknownID); !errors.Is(err, providers.ErrNotFound) {
		t.Errorf("Get gave %+v, %v; want ErrNotFound", sb, err)
	}
}

func stopUnknown(t *testing.T, f Fixture) {
	sb := providers.Sandbox{Ref: providers.Ref{Provider: f.Name, ID: unknownID}}
	if err := f.Provider.Stop(within(t), sb, providers.StopOptions{Action: f.Actions[0]}); !errors.Is(err, providers.ErrNotFound) {
		t.Errorf("Stop gave %v; want ErrNotFound", err)
	}
}

func actions(t *testing.T, f Fixture) {
	for _, action := range f.Actions {
		t.Run(string(action), func(t *testing.T) {
			bystander := f.Start(t, nil)
			id := f.Start(t, nil)
			sb := mustFind(t, f, id)
			o := providers.StopOptions{Action: action, Grace: time.Second}
			if err := f.Provider.Stop(within(t), sb, o); err != nil {
				t.Fatalf("Stop: %v", err)
			}
			reached(t, f, id, action)
			err := f.Provider.Stop(within(t), sb, o)
			if err != nil && !errors.Is(err, providers.ErrNotFound) && !errors.Is(err, providers.ErrChanged) {
				t.Errorf("the second Stop: %v; want nil, ErrNotFound or ErrChanged", err)
			}
			reached(t, f, id, action)
			stillRuns(t, f, bystander)
		})
	}
}

// reached waits until the sandbox is what the action makes of it.
func reached(t *testing.T, f Fixture, id string, action providers.Action) {
	t.Helper()
	ctx := within(t)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		sb, err := f.Provider.Get(ctx, id)
		if errors.Is(err, providers.ErrNotFound) && action != providers.ActionPause {
			return
		}
		if err == nil && action != providers.ActionRemove && sb.State.Satisfies(action) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s: state %q, error %v", action, sb.State, err)
		case <-tick.C:
		}
	}
}

func changedRevision(t *testing.T, f Fixture) {
	id := f.Start(t, nil)
	sb := mustFind(t, f, id)
	sb.Revision = "something else"
	for _, action := range f.Actions {
		err := f.Provider.Stop(within(t), sb, providers.StopOptions{Action: action, Grace: time.Second})
		if !errors.Is(err, providers.ErrChanged) {
			t.Errorf("%s gave %v; want ErrChanged", action, err)
		}
	}
	stillRuns(t, f, id)
}

func unsupported(t *testing.T, f Fixture) {
	id := f.Start(t, nil)
	sb := mustFind(t, f, id)
	err := f.Provider.Stop(within(t), sb, providers.StopOptions{Action: "incinerate", Grace: time.Second})
	if !errors.Is(err, providers.ErrUnsupported) {
		t.Errorf("an unknown action gave %v; want ErrUnsupported", err)
	}
	for _, action := range []providers.Action{providers.ActionStop, providers.ActionRemove, providers.ActionPause} {
		if slices.Contains(f.Actions, action) {
			continue
		}
		err := f.Provider.Stop(within(t), sb, providers.StopOptions{Action: action, Grace: time.Second})
		if !errors.Is(err, providers.ErrUnsupported) {
			t.Errorf("%s gave %v; want ErrUnsupported", action, err)
		}
	}
	stillRuns(t, f, id)
}

func vanished(t *testing.T, f Fixture) {
	id := f.Start(t, nil)
	sb := mustFind(t, f, id)
	f.Vanish(t, id)
	if got, err := f.Provider.Get(within(t), id); !errors.Is(err, providers.ErrNotFound) {
		t.Errorf("Get gave %+v, %v; want ErrNotFound", got, err)
	}
	err := f.Provider.Stop(within(t), sb, providers.StopOptions{Action: f.Actions[0], Grace: time.Second})
	if !errors.Is(err, providers.ErrNotFound) {
		t.Errorf("Stop gave %v; want ErrNotFound", err)
	}
	if _, ok := find(mustList(t, f), id); ok {
		t.Error("List still shows it")
	}
}

func cancelled(t *testing.T, f Fixture) {
	id := f.Start(t, nil)
	sb := mustFind(t, f, id)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if all, err := f.Provider.List(ctx); !errors.Is(err, context.Canceled) || all != nil {
		t.Errorf("List gave %d sandboxes, %v; want none and context.Canceled", len(all), err)
	}
	if _, err := f.Provider.Get(ctx, id); !errors.Is(err, context.Canceled) {
		t.Errorf("Get gave %v; want context.Canceled", err)
	}
	err := f.Provider.Stop(ctx, sb, providers.StopOptions{Action: f.Actions[0], Grace: time.Second})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Stop gave %v; want context.Canceled", err)
	}
	stillRuns(t, f, id)
}

func dryRun(t *testing.T, f Fixture) {
	id := f.Start(t, nil)
	sb := mustFind(t, f, id)
	dry := providers.DryRun(f.Provider)
	for _, action := range f.Actions {
		if err := dry.Stop(within(t), sb, providers.StopOptions{Action: action}); !errors.Is(err, providers.ErrDryRun) {
			t.Errorf("%s gave %v; want ErrDryRun", action, err)
		}
	}
	stillRuns(t, f, id)
}

func sideBySide(t *testing.T, f Fixture) {
	ids := []string{f.Start(t, nil), f.Start(t, nil), f.Start(t, nil)}
	stopped := mustFind(t, f, ids[0])
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := f.Provider.List(within(t)); err != nil {
				t.Errorf("List: %v", err)
			}
			if _, err := f.Provider.Get(within(t), ids[1]); err != nil {
				t.Errorf("Get: %v", err)
			}
		})
	}
	wg.Go(func() {
		err := f.Provider.Stop(within(t), stopped, providers.StopOptions{Action: f.Actions[0], Grace: time.Second})
		if err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	wg.Wait()
	stillRuns(t, f, ids[1])
	stillRuns(t, f, ids[2])
}

func silent(t *testing.T, f Fixture) {
	id := f.Start(t, nil)
	printed := capture(t, func() {
		sb := mustFind(t, f, id)
		_, _ = f.Provider.Get(within(t), unknownID)
		_ = f.Provider.Stop(within(t), sb, providers.StopOptions{Action: "incinerate"})
		if err := f.Provider.Stop(within(t), sb, providers.StopOptions{Action: f.Actions[0], Grace: time.Second}); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	if printed != "" {
		t.Errorf("a provider never logs; this one printed %q", printed)
	}
}

// capture gives what was written to standard output, standard error and the
// standard library's logger while f ran.
func capture(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, errOut := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = w, w
	log.SetOutput(w)
	text := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		text <- string(b)
	}()
	func() {
		defer func() {
			os.Stdout, os.Stderr = out, errOut
			log.SetOutput(errOut)
			_ = w.Close()
		}()
		f()
	}()
	return <-text
}
