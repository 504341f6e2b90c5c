package providertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// watches holds a Watcher against its contract. A kind that is none passes.
func watches(t *testing.T, f Fixture) {
	w, ok := providers.As[providers.Watcher](providers.DryRun(f.Provider))
	if !ok {
		return
	}
	over, end := context.WithCancel(t.Context())
	end()
	if err := w.Watch(over, func(string) {}); err != nil {
		t.Errorf("Watch gave %v with a context that had ended; want nil", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := &listener{}
	var watching sync.WaitGroup
	watching.Go(func() {
		if err := w.Watch(ctx, told.hear); err != nil {
			t.Errorf("Watch gave %v before its context had ended, or after; want nil", err)
		}
	})
	defer watching.Wait()
	defer cancel()
	// Nobody says when it begins to see, so what comes first may be missed.
	id := f.Start(t, nil)
	for n := 0; !told.of(id, time.Second); n++ {
		if n == 20 {
			t.Fatal("Watch tells of no start")
		}
		id = f.Start(t, nil)
	}
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"an end", func() { f.Vanish(t, id) }},
		{"a start", func() { id = f.Start(t, nil) }},
		{"a stop of reaperd's own", func() {
			id = f.Start(t, nil)
			told.of(id, patience)
			sb := mustFind(t, f, id)
			told.forget()
			if err := f.Provider.Stop(within(t), sb, providers.StopOptions{Action: f.Actions[0], Grace: time.Second}); err != nil {
				t.Errorf("Stop: %v", err)
			}
		}},
	} {
		told.forget()
		if step.do(); !told.of(id, patience) {
			t.Errorf("Watch does not tell of %s", step.what)
		}
	}
}

// listener is what a Watch told of.
type listener struct {
	mu  sync.Mutex
	ids []string
}

func (l *listener) hear(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = append(l.ids, id)
}

func (l *listener) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = nil
}

// of says whether that id is told of within d.
func (l *listener) of(id string, d time.Duration) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(d); ; {
		l.mu.Lock()
		heard := slices.Contains(l.ids, id)
		l.mu.Unlock()
		if heard {
			return true
		}
		select {
		case <-deadline:
			return false
		case <-tick.C:
		}
	}
}

// probes holds a Prober against its contract. A kind that is none passes.
func probes(t *testing.T, f Fixture) {
	p, ok := providers.As[providers.Prober](providers.DryRun(f.Provider))
	if !ok {
		return
	}
	if err := p.Probe(within(t)); err != nil {
		t.Errorf("a probe where all is well gave %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Probe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Probe gave %v; want context.Canceled", err)
	}
}

// tellsTime holds a Timekeeper against its contract, given that it runs on this
// very machine. A kind that is none passes.
func tellsTime(t *testing.T, f Fixture) {
	k, ok := providers.As[providers.Timekeeper](providers.DryRun(f.Provider))
	if !ok {
		return
	}
	if ahead, known := k.Skew(); ahead != 0 || known {
		t.Errorf("ahead by %v (known %v) before any call", ahead, known)
	}
	for range 3 {
		mustList(t, f)
	}
	if ahead, known := k.Skew(); ahead != 0 || !known {
		t.Errorf("ahead by %v (known %v): it has this machine's clock", ahead, known)
	}
}
