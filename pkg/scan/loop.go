// Package scan is the loop: it lists each provider on its schedule, judges
// what it finds, reclaims what is due through one door, and counts what it did.
package scan

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// Settings are what a reload can change.
type Settings struct {
	Targets  []Target
	Policies *policy.Set
	// Attempts is how many failed tries make a sandbox stuck.
	Attempts int
	Brake    BrakeOptions
	// History is for how long the memory keeps it; 0: for ever.
	History time.Duration
	// MaxSkew is how far a clock, ours or a provider's, may be from the right
	// time before what it makes due is held.
	MaxSkew time.Duration
	// MaxTTL is the longest that a lease may last without being renewed.
	MaxTTL time.Duration
}

// Options is what a Loop is made from.
type Options struct {
	Settings
	Clock Clock
	// Tick is how often the clocks are looked at and what was heard is saved;
	// by default every second.
	Tick time.Duration
	// Steady leaves the jitter out of the pauses between two tries, so that what
	// happened once can be had again.
	Steady  bool
	Log     *zap.Logger
	Metrics *Metrics
	// Memory, where set, is what Run remembers by.
	Memory Memory
	// OnReport, where set, is called after each cycle, from the provider's own
	// goroutine.
	OnReport func(Report)
}

// Loop scans all providers, each in a goroutine of its own.
type Loop struct {
	clock    Clock
	steady   bool
	log      *zap.Logger
	metrics  *Metrics
	claims   *claims
	guard    *guard
	leases   *lease.Book
	keeper   *keeper
	onReport func(Report)

	mu       sync.Mutex
	hears    bool // see Hear
	runs     bool
	scanners []*Scanner // in the order of the configuration
	// start runs a scanner's lane once the one before it of the same name, if
	// there is any, is over; nil while the loop does not run.
	start func(s *Scanner, before <-chan struct{})
	lanes sync.WaitGroup
}

// New makes a loop; nothing runs yet. Without a clock it goes by the machine's,
// without a log or metrics it keeps silent.
func New(o Options) *Loop {
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(prometheus.NewRegistry(), o.Clock, o.Targets, o.Policies)
	}
	l := &Loop{clock: o.Clock, steady: o.Steady, log: o.Log, metrics: o.Metrics, claims: newClaims(), onReport: o.OnReport}
	l.guard = newGuard(o.Clock, o.Tick, o.Log, o.Metrics)
	l.guard.adjust(o.MaxSkew)
	l.leases = lease.NewBook(o.MaxTTL)
	l.guard.onMove = l.leases.Move
	l.metrics.inventory.count(l.leaseCounts, l.calls)
	l.keeper = newKeeper(o.Memory, o.Clock, l.guard, o.Log, o.Metrics)
	l.keeper.keepFor(o.History)
	for _, t := range o.Targets {
		l.scanners = append(l.scanners, l.scanner(t, o.Settings))
	}
	return l
}

// Run scans every provider at once and then on its schedule until ctx ends, and
// reclaims between two scans what falls due meanwhile. It returns when each has
// finished what it began: a stop under way is seen through, nothing new is
// begun. Heartbeats count from its start on.
func (l *Loop) Run(ctx context.Context) {
	l.keeper.recallLeases(ctx, l.leases)
	l.mu.Lock()
	l.runs = true
	l.guard.listen(l.hears)
	l.mu.Unlock()
	var beside sync.WaitGroup
	beside.Go(func() { l.guard.watch(ctx, l.scanAll) })
	beside.Go(func() { l.keepHeard(ctx) })
	l.identify(ctx)
	l.mu.Lock()
	l.start = func(s *Scanner, before <-chan struct{}) { l.startLane(ctx, s, before) }
	for _, s := range l.scanners {
		l.start(s, nil)
	}
	l.mu.Unlock()
	l.keeper.pruneDaily(ctx, l.leases)
	<-ctx.Done()
	l.mu.Lock()
	l.start = nil // a reload that comes now begins nothing
	l.mu.Unlock()
	l.lanes.Wait()
	beside.Wait()
	l.saveHeard(ctx)
	l.keeper.flush(ctx)
}

// scanAll has every provider scanned now.
func (l *Loop) scanAll() {
	for _, s := range l.current() {
		s.scanNow()
	}
}

// Once runs one cycle over every provider, side by side, and gives the reports
// in the order of the configuration.
func (l *Loop) Once(ctx context.Context) []Report {
	l.identify(ctx)
	return l.reports(func(s *Scanner) Report {
		began := l.clock.Now()
		r := s.settled(s.cycle(ctx))
		s.count(ctx, r, began)
		return r
	})
}

// Look is Once without the reclaiming.
func (l *Loop) Look(ctx context.Context) []Report {
	l.identify(ctx)
	return l.reports(func(s *Scanner) Report {
		plan, err := s.Look(ctx)
		return Report{Provider: s.name, Plan: plan, Err: err}
	})
}

func (l *Loop) reports(f func(*Scanner) Report) []Report {
	var mu sync.Mutex
	scanners := l.current()
	by := make(map[string]Report, len(scanners))
	l.each(func(s *Scanner) {
		r := f(s)
		l.report(r)
		mu.Lock()
		defer mu.Unlock()
		by[r.Provider] = r
	})
	out := make([]Report, len(scanners))
	for i, s := range scanners {
		out[i] = by[s.name]
	}
	return out
}

func (l *Loop) report(r Report) {
	if l.onReport != nil {
		l.onReport(r)
	}
}

// current gives the scanners, in the order of the configuration.
func (l *Loop) current() []*Scanner {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.scanners)
}

func (l *Loop) each(f func(*Scanner)) {
	var wg sync.WaitGroup
	for _, s := range l.current() {
		wg.Go(func() { f(s) })
	}
	wg.Wait()
}

// calls gives what each provider that counts has sent to its place.
func (l *Loop) calls(yield func(provider string, calls map[string]uint64)) {
	for _, s := range l.current() {
		s.mu.Lock()
		c := s.counter
		s.mu.Unlock()
		if c != nil {
			yield(s.name, c.Calls())
		}
	}
}

// identify asks every place who it is before any is listed, so that of two
// that are the same it is always the later one in the configuration that is
// refused. Those that do not answer in time are asked again at their scan.
func (l *Loop) identify(ctx context.Context) {
	scanners := l.current()
	ids := make([]string, len(scanners))
	var wg sync.WaitGroup
	for i, s := range scanners {
		p, ok := providers.As[providers.Identifier](s.target.Provider)
		if !ok {
			continue
		}
		wg.Go(func() {
			ids[i], _ = call(ctx, s, opIdentity, min(s.target.Timeout, startIdentity), p.Identity)
		})
	}
	wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range scanners {
		if ids[i] != "" && slices.Contains(l.scanners, s) { // else a reload took it away
			_ = s.claim(ids[i]) // its scan tells
		}
	}
}

// startIdentity is for how long a place that does not answer may hold up the
// first scan of the others.
const startIdentity = 2 * time.Second

// Order carries out an operator's orders: each item goes through the door with
// the action in its decision, whatever the policies say of it. done is called
// for each as it is over, from several goroutines. Items of a provider that
// the loop does not have are a programming error and panic.
func (l *Loop) Order(ctx context.Context, items map[string][]policy.Item, done func(Result)) {
	by := map[string]*Scanner{}
	for _, s := range l.current() {
		by[s.name] = s
	}
	var wg sync.WaitGroup
	for name, its := range items {
		s := by[name]
		if s == nil {
			panic("scan: an order for the provider " + name + ", which there is not")
		}
		wg.Go(func() {
			s.each(ctx, its, func(ctx context.Context, it policy.Item) {
				done(s.order(ctx, it))
			})
		})
	}
	wg.Wait()
}
