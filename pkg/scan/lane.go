package scan

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// renewal is what a reload makes of one scanner.
type renewal struct {
	target   Target
	policies *policy.Set
	attempts int
	brake    BrakeOptions
}

func (l *Loop) scanner(t Target, set Settings) *Scanner {
	s := &Scanner{
		name: t.Name, kind: t.Kind, steady: l.steady, clock: l.clock, guard: l.guard, metrics: l.metrics, claims: l.claims, keeper: l.keeper,
		log:    l.log.Named("scan").With(zap.String("provider", t.Name)),
		pulses: newPulses(l.leases), doors: newDoors(), brake: newBrake(set.Brake), suspects: map[pulseKey]cause{}, news: newNews(), saving: newTurn(), flights: newFlights(), samples: newSamples(),
		poke: make(chan struct{}, 1), over: make(chan struct{}),
	}
	s.take(renewal{t, set.Policies, set.Attempts, set.Brake})
	return s
}

// take makes the scanner work by the renewal from now on.
func (s *Scanner) take(r renewal) {
	s.policies = r.policies
	s.brake.adjust(r.brake)
	if s.target.Provider != nil && s.target.Kind == r.target.Kind && s.target.Settings == r.target.Settings {
		r.target.Provider = s.real // which knows its sandboxes already
		s.retries.allow(r.attempts)
	} else { // it may be another place, which knows nothing of what was sent to the one before
		s.identified, s.duplicate = false, nil
		s.retries = newRetries(r.attempts, s.steady)
		s.samples.keep(nil)
		s.tellHealth(s.health.probed(nil, s.clock.Boot()))
		s.places++
	}
	s.real = r.target.Provider
	counter, _ := providers.As[providers.Counter](s.real)
	s.mu.Lock()
	s.counter = counter
	s.mu.Unlock()
	if r.target.DryRun {
		r.target.Provider = providers.DryRun(s.real)
	}
	s.target = r.target
}

// renew has the scanner take the renewal before its next scan, which it begins
// at once. A scan under way finishes the reclaims that it has begun, and begins
// no more of them by what is about to be replaced.
func (s *Scanner) renew(r renewal) {
	s.mu.Lock()
	s.pending = &r
	s.mu.Unlock()
	s.scanNow()
}

// scanNow ends the scanner's rest.
func (s *Scanner) scanNow() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// renewing says whether a renewal waits to be taken.
func (s *Scanner) renewing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending != nil
}

func (s *Scanner) takePending() {
	if !s.renewing() {
		return
	}
	s.flights.wait() // what is under way is so by what is about to be replaced
	s.mu.Lock()
	r := s.pending
	s.pending = nil
	s.mu.Unlock()
	s.take(*r)
}

// startLane runs a lane until ctx or the scanner's own cancel ends it. l.mu is
// held.
func (l *Loop) startLane(ctx context.Context, s *Scanner, before <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	s.cancel = cancel
	l.lanes.Go(func() {
		defer close(s.over)
		defer cancel()
		if before != nil {
			<-before
		}
		l.lane(ctx, s)
		l.leave(s)
	})
}

// leave lets go of a place that the scanner took when it was already told to
// end, having asked before who that is.
func (l *Loop) leave(s *Scanner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.has(s.name) {
		l.claims.release(s.name)
	}
}

// has says whether there is a provider of that name now. l.mu is held.
func (l *Loop) has(name string) bool {
	return slices.ContainsFunc(l.scanners, func(s *Scanner) bool { return s.name == name })
}

// lane scans one provider until ctx ends, and follows its events meanwhile.
func (l *Loop) lane(ctx context.Context, s *Scanner) {
	place, unwatch := 0, func() {}
	defer func() {
		unwatch()
		if r := s.settled(Report{Provider: s.name}); len(r.Results) > 0 {
			l.report(r)
		}
		s.save(ctx)
	}()
	for ctx.Err() == nil {
		select {
		case <-s.poke: // this scan is what was asked for
		default:
		}
		s.news.take() // the list shows what was told before it
		s.takePending()
		if place != s.places {
			unwatch()
			place, unwatch = s.places, s.watch(ctx)
		}
		began := l.clock.Now()
		s.recall(ctx)
		s.verify(ctx)
		r := s.cycle(ctx)
		s.count(ctx, r, began)
		l.report(r)
		s.save(ctx)
		now := l.clock.Now()
		tick := s.target.Schedule.after(began, now)
		if slow := now.Add(s.health.slow(r.Err, l.clock.Boot())); slow.After(tick) {
			tick = slow
		}
		l.rest(ctx, s, tick)
	}
}

// rest waits for the tick, and acts on every deadline and change before it. A
// reload, the end of ctx and a wall clock that is set back before a deadline
// end it early: by such a clock the tick is further off than it was to be, and
// what was told is of another time.
func (l *Loop) rest(ctx context.Context, s *Scanner, tick time.Time) {
	for now := l.clock.Now(); !s.renewing(); {
		at, deadline := tick, s.agenda.next()
		early := !deadline.IsZero() && deadline.Before(tick)
		if early {
			at = deadline
		}
		var r Report
		var woken time.Time
		switch waitUntil(ctx, l.clock, at, s.target.Schedule.late(), rousers{s.poke, s.news.stir, s.flights.landed}) {
		case stirred:
			if pause := min(eventPause, at.Sub(l.clock.Now())); pause > 0 {
				if w := wait(ctx, l.clock, pause, rousers{poke: s.poke}); w != elapsed {
					return
				}
			}
			woken = l.clock.Now()
			if woken.Before(now) {
				return
			}
			var relist bool
			if r, relist = s.attend(ctx); relist {
				return
			}
		case landed:
			woken = l.clock.Now()
			r = s.Landed()
		case elapsed:
			woken = l.clock.Now()
			if !early || woken.Before(at) || woken.Before(now) {
				return
			}
			r = s.Wake(ctx)
		default:
			return
		}
		if len(r.Results) > 0 {
			l.report(r)
		}
		if now = l.clock.Now(); now.Before(woken) {
			return
		}
	}
}

// Reload puts new settings in the place of the old. A provider that stays keeps
// what is remembered of its sandboxes, and one whose kind and settings stay is
// not even asked anew who it is. Those that are new begin; those that are gone
// finish what they began, and their series go with them.
func (l *Loop) Reload(set Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keeper.keepFor(set.History)
	l.guard.adjust(set.MaxSkew)
	l.leases.SetMaxTTL(set.MaxTTL)
	l.metrics.reload(set.Targets, set.Policies)
	old := map[string]*Scanner{}
	for _, s := range l.scanners {
		old[s.name] = s
	}
	l.scanners = nil
	for _, t := range set.Targets {
		s := old[t.Name]
		if s == nil || s.kind != t.Kind {
			s = l.scanner(t, set)
			l.begin(s, old[t.Name])
		} else {
			s.renew(renewal{t, set.Policies, set.Attempts, set.Brake})
			delete(old, t.Name)
		}
		l.scanners = append(l.scanners, s)
	}
	for name, s := range old {
		l.end(s)
		if !l.has(name) {
			l.forget(s)
		}
	}
}

// begin starts a scanner in a loop that runs, after the one that it replaces.
func (l *Loop) begin(s, instead *Scanner) {
	if l.start == nil {
		return
	}
	if instead == nil {
		l.start(s, nil)
		return
	}
	l.start(s, instead.over)
}

// end has a scanner finish what it began, and let its place go.
func (l *Loop) end(s *Scanner) {
	l.claims.release(s.name)
	if s.cancel != nil {
		s.cancel()
	}
}

// forget takes away the series of a provider that is gone, once it is over.
func (l *Loop) forget(s *Scanner) {
	if s.cancel == nil || l.start == nil {
		l.metrics.forget(s.name)
		return
	}
	l.lanes.Go(func() {
		<-s.over
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.has(s.name) { // else it came back
			l.metrics.forget(s.name)
		}
	})
}
