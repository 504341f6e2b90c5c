package scan_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
	"github.com/reaperd/reaperd/pkg/store"
)

// faulty is a memory whose calls can be made to fail.
type faulty struct {
	scan.Memory

	mu    sync.Mutex
	fails map[string]int // by call, how many more times
	calls map[string]int
}

var errMemory = errors.New("the disk is on fire")

func (f *faulty) fail(call string, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails[call] = times
}

func (f *faulty) saves() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls["save"]
}

func (f *faulty) meet(call string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[call]++
	if f.fails[call] > 0 {
		f.fails[call]--
		return errMemory
	}
	return nil
}

func (f *faulty) Pulses(ctx context.Context, provider string) ([]store.Pulse, error) {
	if err := f.meet("pulses"); err != nil {
		return nil, err
	}
	return f.Memory.Pulses(ctx, provider)
}

func (f *faulty) SavePulses(ctx context.Context, ps []store.Pulse) error {
	if err := f.meet("save"); err != nil {
		return err
	}
	return f.Memory.SavePulses(ctx, ps)
}

func (f *faulty) Leases(ctx context.Context) ([]lease.Lease, error) {
	if err := f.meet("leases"); err != nil {
		return nil, err
	}
	return f.Memory.Leases(ctx)
}

func (f *faulty) SaveLeases(ctx context.Context, ls []lease.Lease) error {
	if err := f.meet("save leases"); err != nil {
		return err
	}
	return f.Memory.SaveLeases(ctx, ls)
}

// lasting is a state on disk and the world around it, which outlive one daemon.
type lasting struct {
	dsn      string
	clock    *wall
	mem      *fake.Provider
	policies string // by default those of a rig
	dry      bool
}

// daemon is one daemon's life on it.
type daemon struct {
	*rig
	*faulty
	store *store.Store
	stop  func()
}

func (l *lasting) start(t *testing.T, change ...func(*faulty)) *daemon {
	t.Helper()
	s, err := store.Open(t.Context(), l.dsn, l.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{Memory: s, fails: map[string]int{}, calls: map[string]int{}}
	for _, c := range change {
		c(f)
	}
	d := &daemon{store: s, faulty: f, rig: newRig(t, setup{
		memory: f, clock: l.clock, policies: l.policies, providers: []providers.Provider{l.mem}, names: []string{"mem"},
		change: func(_ int, t *scan.Target) { t.DryRun = l.dry },
	})}
	end := d.run()
	d.stop = sync.OnceFunc(func() {
		end()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(d.stop)
	synctest.Wait()
	return d
}

// lives runs f in a bubble with a state that is new.
func lives(t *testing.T, f func(t *testing.T, l *lasting)) {
	t.Helper()
	dsn := store.DSN(filepath.Join(t.TempDir(), "reaperd.db"))
	synctest.Test(t, func(t *testing.T) {
		f(t, &lasting{dsn: dsn, clock: newWall(), mem: fake.New("mem")})
	})
}

// ageless says neither when it was made nor when it was started.
func ageless(l *lasting) {
	l.mem.Put(providers.Sandbox{
		Ref: providers.Ref{ID: "a"}, State: providers.StateRunning, Revision: "1", Tags: map[string]string{"env": "dev"},
	})
}

func (d *daemon) pulses(t *testing.T) []store.Pulse {
	t.Helper()
	ps, err := d.store.Pulses(t.Context(), "mem")
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

func TestFirstSeenSurvivesARestart(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		ageless(l)
		for range 3 { // an hour each
			d := l.start(t)
			pass(time.Hour)
			d.stop()
		}
		d := l.start(t)
		pass(time.Hour - time.Minute)
		equal(t, "a minute early", ids(t, l.mem), "a")
		pass(2 * time.Minute)
		equal(t, "after four hours", ids(t, l.mem), "")
		d.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
	})
}

func TestSteadyStateWritesNothing(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		ageless(l)
		d := l.start(t)
		pass(59 * time.Minute)
		equal(t, "saves within an hour", d.saves(), 1)
		pass(2 * time.Minute)
		equal(t, "saves after it", d.saves(), 2)
		seen := d.pulses(t)[0].LastSeen
		if behind := l.clock.Now().Sub(seen); behind > 2*time.Minute {
			t.Errorf("its last sight was kept as %s ago", behind)
		}
	})
}

func TestWhatWasToldIsNotToldAgainAfterARestart(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		l.policies = `
version: 1
policies:
  - name: dev
    match: {tags: {env: dev}}
    limits: {ttl: {tag: reaperd.ttl, max: 1d}}
`
		l.mem.Put(providers.Sandbox{
			Ref: providers.Ref{ID: "a"}, State: providers.StateRunning, Revision: "1",
			Tags: map[string]string{"env": "dev", "reaperd.ttl": "soon"},
		})
		for _, want := range []float64{1, 0} {
			d := l.start(t)
			pass(time.Minute)
			d.want(want, "malformed_tags_total")
			d.stop()
		}
	})
}

func TestAStateThatCannotBeSavedIsSavedLater(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		ageless(l)
		d := l.start(t, func(f *faulty) { f.fail("save", 70) })
		first := l.clock.Now()
		pass(65 * time.Second)
		equal(t, "kept while it fails", len(d.pulses(t)), 0)
		equal(t, "scans", d.scanned(), 3)
		d.want(0, "hears_heartbeats")
		equal(t, "told", d.lines("the state does not work, and reaperd goes on without"), 1)
		pass(10 * time.Second)
		d.want(70, "store_errors_total", "op=save")
		d.want(1, "hears_heartbeats")
		ps := d.pulses(t)
		if len(ps) != 1 || !ps[0].FirstSeen.Equal(first) {
			t.Errorf("kept %+v, first seen %s", ps, first)
		}
		equal(t, "told", d.lines("the state works again"), 1)
		equal(t, "saves", d.saves(), 71)
	})
}

// While it cannot be loaded nothing is saved, since that would make what is
// remembered young again.
func TestAStateThatCannotBeLoadedIsLoadedLater(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		ageless(l)
		d := l.start(t)
		first := l.clock.Now()
		pass(time.Hour)
		d.stop()
		d = l.start(t, func(f *faulty) { f.fail("pulses", 3) })
		pass(70 * time.Second)
		d.want(3, "store_errors_total", "op=load")
		equal(t, "scans meanwhile", d.scanned(), 3)
		equal(t, "saves meanwhile", d.saves(), 0)
		pass(2 * time.Minute)
		ps := d.pulses(t)
		if len(ps) != 1 || !ps[0].FirstSeen.Equal(first) || !ps[0].StateSince.Equal(first) {
			t.Errorf("kept %+v, first seen %s", ps, first)
		}
		pass(3 * time.Hour)
		equal(t, "after four hours", ids(t, l.mem), "")
	})
}

func TestPulsesUnseenForAWeekAreForgotten(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		ageless(l)
		d := l.start(t)
		l.mem.Delete("a")
		pass(6 * 24 * time.Hour)
		equal(t, "after six days", len(d.pulses(t)), 1)
		pass(3 * 24 * time.Hour)
		equal(t, "after nine days", len(d.pulses(t)), 0)
	})
}

func (d *daemon) scanned() int {
	d.rig.mu.Lock()
	defer d.rig.mu.Unlock()
	return len(d.reports)
}
