// Package scan is the loop: it lists each provider on its schedule, judges
// what it finds, reclaims what is due through one door, and counts what it did.
package scan

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// Options is what a Loop is made from.
type Options struct {
	Targets  []Target
	Policies *policy.Set
	// Attempts is how many failed tries make a sandbox stuck.
	Attempts int
	Brake    BrakeOptions
	Clock    Clock
	Log      *zap.Logger
	Metrics  *Metrics
	// OnReport, where set, is called after each cycle, from the provider's own
	// goroutine.
	OnReport func(Report)
}

// Loop scans all providers, each in a goroutine of its own.
type Loop struct {
	scanners []*Scanner
	clock    Clock
	onReport func(Report)
}

// New makes a loop; nothing runs yet.
func New(o Options) *Loop {
	l := &Loop{clock: o.Clock, onReport: o.OnReport}
	c := newClaims()
	for _, t := range o.Targets {
		if t.DryRun {
			t.Provider = providers.DryRun(t.Provider)
		}
		l.scanners = append(l.scanners, &Scanner{
			target: t, policies: o.Policies, clock: o.Clock, metrics: o.Metrics, claims: c,
			log:    o.Log.Named("scan").With(zap.String("provider", t.Name)),
			pulses: newPulses(), retries: newRetries(o.Attempts), doors: newDoors(), brake: newBrake(o.Brake),
		})
	}
	return l
}

// Run scans every provider at once and then on its schedule until ctx ends, and
// reclaims between two scans what falls due meanwhile. It returns when each has
// finished what it began: a stop under way is seen through, nothing new is
// begun.
func (l *Loop) Run(ctx context.Context) {
	l.identify(ctx)
	l.each(func(s *Scanner) {
		for {
			began := l.clock.Now()
			l.report(s.Cycle(ctx))
			tick := s.target.Schedule.after(began, l.clock.Now())
			if !l.until(ctx, s, tick) {
				return
			}
		}
	})
	<-ctx.Done() // with no provider at all there is still a daemon
}

// until waits for the tick and acts on every deadline before it; false if ctx
// ended first.
func (l *Loop) until(ctx context.Context, s *Scanner, tick time.Time) bool {
	for {
		due := s.agenda.next()
		if due.IsZero() || !due.Before(tick) {
			return waitUntil(ctx, l.clock, tick, s.target.Schedule.late())
		}
		if !waitUntil(ctx, l.clock, due, s.target.Schedule.late()) {
			return false
		}
		if r := s.Wake(ctx); len(r.Results) > 0 {
			l.report(r)
		}
	}
}

// Once runs one cycle over every provider, side by side, and gives the reports
// in the order of the configuration.
func (l *Loop) Once(ctx context.Context) []Report {
	l.identify(ctx)
	return l.reports(func(s *Scanner) Report { return s.Cycle(ctx) })
}

// Look is Once without the reclaiming.
func (l *Loop) Look(ctx context.Context) []Report {
	l.identify(ctx)
	return l.reports(func(s *Scanner) Report {
		plan, err := s.Look(ctx)
		return Report{Provider: s.target.Name, Plan: plan, Err: err}
	})
}

func (l *Loop) reports(f func(*Scanner) Report) []Report {
	var mu sync.Mutex
	by := make(map[string]Report, len(l.scanners))
	l.each(func(s *Scanner) {
		r := f(s)
		l.report(r)
		mu.Lock()
		defer mu.Unlock()
		by[r.Provider] = r
	})
	out := make([]Report, len(l.scanners))
	for i, s := range l.scanners {
		out[i] = by[s.target.Name]
	}
	return out
}

func (l *Loop) report(r Report) {
	if l.onReport != nil {
		l.onReport(r)
	}
}

func (l *Loop) each(f func(*Scanner)) {
	var wg sync.WaitGroup
	for _, s := range l.scanners {
		wg.Go(func() { f(s) })
	}
	wg.Wait()
}

// identify asks every place who it is before any is listed, so that of two
// that are the same it is always the later one in the configuration that is
// refused. Those that do not answer in time are asked again at their scan.
func (l *Loop) identify(ctx context.Context) {
	ids := make([]string, len(l.scanners))
	var wg sync.WaitGroup
	for i, s := range l.scanners {
		p, ok := providers.As[providers.Identifier](s.target.Provider)
		if !ok {
			continue
		}
		wg.Go(func() {
			ids[i], _ = call(ctx, s, opIdentity, min(s.target.Timeout, startIdentity), p.Identity)
		})
	}
	wg.Wait()
	for i, s := range l.scanners {
		if ids[i] != "" {
			_ = s.claim(ids[i]) // its scan tells
		}
	}
}

// startIdentity is for how long a place that does not answer may hold up the
// first scan of the others.
const startIdentity = 2 * time.Second

// claims remembers which provider holds which place.
type claims struct {
	mu       sync.Mutex
	by       map[string]string // identity to provider name
	doubtful map[string]bool   // holders whose place another provider reached
}

func newClaims() *claims {
	return &claims{by: map[string]string{}, doubtful: map[string]bool{}}
}

// claim takes the place for the provider, or gives the name of the one that
// has it already. A provider that now reaches another place lets its old go.
func (c *claims) claim(identity, name string) (other string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if holder, held := c.by[identity]; held && holder != name {
		c.doubtful[holder] = true
		return holder
	}
	for id, holder := range c.by {
		if holder == name {
			delete(c.by, id)
		}
	}
	c.by[identity] = name
	return ""
}

// doubted says, once each time, that another provider wanted the place that
// this one holds: it may have moved to another since it was asked.
func (c *claims) doubted(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.doubtful[name]
	delete(c.doubtful, name)
	return d
}

// Order carries out an operator's orders: each item goes through the door with
// the action in its decision, whatever the policies say of it. done is called
// for each as it is over, from several goroutines. Items of a provider that
// the loop does not have are a programming error and panic.
func (l *Loop) Order(ctx context.Context, items map[string][]policy.Item, done func(Result)) {
	by := map[string]*Scanner{}
	for _, s := range l.scanners {
		by[s.target.Name] = s
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
