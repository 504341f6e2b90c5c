package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/store"
)

// Scanner owns one provider's inventory: it lists it, judges it and reclaims
// what is due. It is not for concurrent use.
type Scanner struct {
	name, kind string
	steady     bool // the pauses between tries have no jitter

	target   Target             // its Provider wrapped for a dry run
	real     providers.Provider // the same, never wrapped
	policies *policy.Set
	clock    Clock
	log      *zap.Logger
	metrics  *Metrics
	claims   *claims
	pulses   *pulses
	retries  *retries
	doors    *doors
	brake    *brake
	suspects map[pulseKey]cause // the due ones that the clocks speak against
	health   health
	samples  *samples
	guard    *guard
	agenda   agenda
	flights  *flights
	news     *news
	keeper   *keeper
	saving   turn
	orphans  []store.Entry // intents of an earlier reaperd that are not resolved

	identified bool
	duplicate  error // why it was refused, until it says that it is another place
	unreadable int   // of the last list
	// outcomes are those that are not told yet, and since when.
	outcomes      map[string]int
	outcomesSince time.Time
	failed        bool        // a reclaim did since the last cycle was counted
	skewed        bool        // whether its clock was too far from ours, for logging on change only
	recalled      atomic.Bool // what is remembered of before was loaded
	down          bool        // whether the last look failed, for logging on change only

	cancel context.CancelFunc // ends its lane; nil before it runs
	over   chan struct{}      // closed when its lane has ended
	poke   chan struct{}      // ends its rest
	places int                // how many providers it has had, by reloads

	mu      sync.Mutex
	pending *renewal
	counter providers.Counter // of the real provider; nil: it counts nothing
}

// Report is what one cycle over one provider came to.
type Report struct {
	Provider string
	Plan     policy.Plan
	// Err says why the provider could not be listed; the plan is then empty
	// and means nothing.
	Err     error
	Results []Result
}

// Clean says whether the provider was seen whole and everything due went.
func (r Report) Clean() bool {
	if r.Err != nil {
		return false
	}
	for _, res := range r.Results {
		if res.Outcome == OutcomeFailed || res.Outcome == OutcomeStuck {
			return false
		}
	}
	return true
}

// Look lists the provider and judges what is there. It changes nothing.
func (s *Scanner) Look(ctx context.Context) (policy.Plan, error) {
	s.agenda = agenda{}
	sandboxes, err := s.list(ctx)
	if err != nil {
		if ctx.Err() == nil { // else it says nothing of the provider
			s.lookFailed(err)
		}
		return policy.Plan{}, err
	}
	if s.down {
		s.down = false
		s.log.Info("provider answers again")
	}
	s.listed()
	s.sampleAll(ctx, sandboxes)
	m := s.moment()
	s.tellSkew(m)
	items, back := s.pulses.see(sandboxes, m)
	s.checkBack(ctx, back)
	for i := range items {
		items[i].Decision = s.judge(&items[i].Facts, m)
	}
	plan := policy.Plan{At: m.now, Items: items}
	s.tell(plan)
	s.brake.keepOnly(plan)
	s.clear(plan)
	s.metrics.looked(s, plan)
	return plan, nil
}

func (s *Scanner) lookFailed(err error) {
	s.metrics.lookFailed(s.target.Name)
	if s.down {
		return
	}
	s.down = true
	s.log.Warn("provider could not be listed", zap.Error(err))
	s.tellPanic(err)
}

func (s *Scanner) tellPanic(err error) {
	if p, ok := errors.AsType[*panicked](err); ok {
		s.log.Error("a provider's code panicked", zap.ByteString("stack", p.stack))
	}
}

func (s *Scanner) list(ctx context.Context) ([]providers.Sandbox, error) {
	if err := s.identify(ctx); err != nil {
		return nil, err
	}
	sandboxes, err := call(ctx, s, opList, s.target.Timeout, func(ctx context.Context) ([]providers.Sandbox, error) {
		all, err := s.target.Provider.List(ctx)
		if b, ok := providers.As[providers.BlindSpot](s.target.Provider); ok && err == nil {
			s.unreadable = b.Unreadable()
		}
		return all, err
	})
	if err != nil {
		s.identified = false // it may be another engine that answers next
		return nil, fmt.Errorf("list %s: %w", s.target.Name, err)
	}
	return sandboxes, nil
}

// identify makes sure that no other provider is the same place. Where the
// place will not say who it is, it is taken as it is, or stays refused.
func (s *Scanner) identify(ctx context.Context) error {
	p, ok := providers.As[providers.Identifier](s.target.Provider)
	if !ok || (s.identified && !s.claims.doubted(s.target.Name)) {
		return nil
	}
	s.identified = false
	id, err := call(ctx, s, opIdentity, min(s.target.Timeout, identityTimeout), p.Identity)
	if err != nil || id == "" {
		return s.duplicate // err is counted by call; whether the place answers at all, the list will tell
	}
	if err := s.claim(id); err != nil {
		s.metrics.callFailed(s.target.Name, opIdentity, providers.CauseDuplicate)
		return err
	}
	return nil
}

// claim takes the place with this identity, or says who has it.
func (s *Scanner) claim(id string) error {
	other := s.claims.claim(id, s.target.Name)
	s.identified, s.duplicate = other == "", nil
	if other != "" {
		s.duplicate = fmt.Errorf("%s reaches the same place as %s (%s), remove one of the two: %w",
			s.target.Name, other, id, providers.ErrDuplicate)
	}
	return s.duplicate
}

// identityTimeout is short because a sick engine may hang on this one call
// and still list (moby/libnetwork#2649).
const identityTimeout = 5 * time.Second

// tell logs what is worth a line and counts what is counted once a sandbox.
func (s *Scanner) tell(plan policy.Plan) {
	debug := s.log.Core().Enabled(zap.DebugLevel)
	for i := range plan.Items {
		it := &plan.Items[i]
		for _, tag := range it.Decision.Malformed {
			if s.pulses.firstTime(it.Facts.Sandbox, "malformed "+tag) {
				s.metrics.malformed(s.target.Name)
				s.log.Warn("a tag cannot be understood and is ignored",
					zap.String("sandbox", it.Facts.ID), zap.String("name", it.Facts.Name),
					zap.String("tag", tag), zap.String("value", it.Facts.Tags[tag]))
			}
		}
		if debug && it.Decision.Verdict == policy.Keep {
			s.log.Debug("kept", describe(it.Facts.Sandbox, it.Decision)...)
		}
	}
}

// cycle looks once and reclaims what is due: the whole of what the daemon does
// at a tick. What takes its time goes on when it returns. When ctx ends it
// begins nothing more.
func (s *Scanner) cycle(ctx context.Context) Report {
	r := Report{Provider: s.target.Name}
	r.Plan, r.Err = s.Look(ctx)
	if r.Err == nil {
		r.Results = s.settle(ctx, r.Plan)
		s.agenda.begin(r.Plan)
		s.agenda.note(r.Results, s.retries)
		r.Results = append(r.Results, s.reclaimAll(ctx, r.Plan, r.Plan.Reclaim(), s.moment())...)
		s.metrics.reclaimed(s, s.agenda.plan, s.agenda.results)
	}
	return r
}

// count counts a cycle. What failed since the one before counts with it.
func (s *Scanner) count(ctx context.Context, r Report, began time.Time) {
	if r.Err == nil || ctx.Err() == nil {
		s.metrics.cycled(r, !r.Clean() || s.failed, s.clock.Now().Sub(began))
		s.failed = false
	}
	s.tellScanned(r, began)
}

// tellScanned logs what a scan did, in one line once all of it is over.
func (s *Scanner) tellScanned(r Report, began time.Time) {
	if len(r.Results) > 0 && s.outcomes == nil {
		s.outcomes, s.outcomesSince = map[string]int{}, began
	}
	for _, res := range r.Results {
		s.outcomes[string(res.Outcome)]++
	}
	if s.outcomes == nil || s.flights.any() {
		return
	}
	s.log.Info("scanned", zap.Int("sandboxes", len(s.agenda.plan.Items)), zap.Any("outcomes", s.outcomes),
		zap.Duration("took", s.clock.Now().Sub(s.outcomesSince)))
	s.outcomes = nil
}

// reclaimAll takes what is due, not under way, not waiting for its next try and
// not held, through the door. plan is the inventory that it is from. Once a
// reload came or the provider turned out to be unfit no more are begun. It gives
// what is over by when it returns; the agenda knows of all.
func (s *Scanner) reclaimAll(ctx context.Context, plan policy.Plan, due []policy.Item, m moment) []Result {
	var waiting []policy.Item
	due = slices.DeleteFunc(due, func(it policy.Item) bool {
		sb := it.Facts.Sandbox
		ready := s.retries.ready(sb, m.now) && !s.orphaned(sb)
		if !ready {
			waiting = append(waiting, it)
		}
		return !ready || s.flights.under(keyOf(&sb))
	})
	s.agenda.postpone(waiting, s.retries, time.Time{}, m.now)
	due, holds := s.distrust(due, m)
	due, braked := s.brake.admit(due, plan, m.now, s.clock.Boot())
	held := s.hold(append(holds, braked...), m.now)
	s.agenda.note(held, s.retries)
	if len(due) == 0 {
		return held
	}
	if later, fit := s.fit(ctx, len(due)); !fit {
		s.agenda.postpone(due, s.retries, later, s.clock.Now())
		return held
	}
	over := s.flights.launch(ctx, max(s.target.Parallel, 1), due, func(ctx context.Context, it policy.Item) flight {
		if s.renewing() || s.unfit() {
			return flight{Result: Result{Item: it}} // it is judged anew
		}
		return flight{s.reclaim(ctx, it), true}
	})
	wait(context.WithoutCancel(ctx), s.clock, patience, rousers{poke: over})
	return append(held, s.collect()...)
}

// collect takes what came of the reclaims that are over.
func (s *Scanner) collect() []Result {
	results, unbegun := s.flights.take()
	s.failed = s.failed || !Report{Results: results}.Clean()
	s.agenda.note(results, s.retries)
	s.agenda.postpone(unbegun, s.retries, s.resting(), s.clock.Now())
	return results
}

// Landed takes in what came of reclaims that took their time.
func (s *Scanner) Landed() Report {
	began := s.clock.Now()
	r := Report{Provider: s.name, Results: s.collect()}
	if s.agenda.known {
		s.metrics.reclaimed(s, s.agenda.plan, s.agenda.results)
	}
	if len(r.Results) > 0 {
		r.Plan = s.agenda.current()
	}
	s.tellScanned(r, began)
	return r
}

// settled waits for all that is under way, and adds it to a report.
func (s *Scanner) settled(r Report) Report {
	s.flights.wait()
	r.Results = append(r.Results, s.Landed().Results...)
	return r
}

// hold records what is held, each once.
func (s *Scanner) hold(holds []hold, now time.Time) []Result {
	first := map[cause]int{}
	results := make([]Result, len(holds))
	for i, h := range holds {
		results[i] = Result{Item: h.Item, Outcome: OutcomeHeld, At: now, next: h.until, repeat: h.again}
		if !h.again {
			first[h.cause]++
			s.metrics.record(s, results[i])
		}
	}
	for why, n := range first {
		s.log.Warn("some that are due are held, and go if they still are due then",
			zap.String("because", why.because()), zap.Int("held", n))
	}
	return results
}

// each runs f for the items, as many at once as the kind bears. Once ctx has
// ended no more are begun; those begun have a context that outlives it.
func (s *Scanner) each(ctx context.Context, items []policy.Item, f func(context.Context, policy.Item)) {
	var g errgroup.Group
	g.SetLimit(max(s.target.Parallel, 1))
	for _, it := range items {
		g.Go(func() error {
			if ctx.Err() == nil {
				f(context.WithoutCancel(ctx), it)
			}
			return nil
		})
	}
	_ = g.Wait() // the functions give no errors
}

// describe gives the fields by which every line about a sandbox names it.
func describe(sb providers.Sandbox, d policy.Decision) []zap.Field {
	fields := []zap.Field{
		zap.String("sandbox", sb.ID), zap.String("name", sb.Name),
		zap.String("state", string(sb.State)), zap.String("reason", string(d.Reason)),
	}
	if d.Policy != "" {
		fields = append(fields, zap.String("policy", d.Policy))
	}
	if !d.Due.IsZero() {
		fields = append(fields, zap.Time("due", d.Due))
	}
	return fields
}
