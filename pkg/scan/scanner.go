package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/store"
)

// Scanner owns one provider's inventory: it lists it, judges it and reclaims
// what is due. Its Look and Cycle are not for concurrent use.
type Scanner struct {
	name, kind string

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
	agenda   agenda
	keeper   *keeper
	orphans  []store.Entry // intents of an earlier reaperd that are not resolved

	identified bool
	duplicate  error // why it was refused, until it says that it is another place
	unreadable int   // of the last list
	recalled   bool  // what is remembered of before was loaded
	down       bool  // whether the last look failed, for logging on change only

	cancel context.CancelFunc // ends its lane; nil before it runs
	over   chan struct{}      // closed when its lane has ended
	poke   chan struct{}      // ends its rest

	mu      sync.Mutex
	pending *renewal
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
	now := s.clock.Now()
	plan := policy.NewPlan(s.policies, s.pulses.see(sandboxes, now), now)
	s.tell(plan)
	s.brake.keepOnly(plan)
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

// Cycle looks once and reclaims what is due: the whole of what the daemon does
// at a tick. When ctx ends it finishes what it began and begins nothing more.
func (s *Scanner) Cycle(ctx context.Context) Report {
	began := s.clock.Now()
	r := Report{Provider: s.target.Name}
	r.Plan, r.Err = s.Look(ctx)
	if r.Err == nil {
		r.Results = s.settle(ctx, r.Plan)
		r.Results = append(r.Results, s.reclaimAll(ctx, r.Plan, r.Plan.Reclaim())...)
		s.agenda.begin(r.Plan, r.Results, s.retries)
		s.metrics.reclaimed(s, r.Plan, r.Results)
	}
	if r.Err == nil || ctx.Err() == nil {
		s.metrics.cycled(r, s.clock.Now().Sub(began))
	}
	s.tellScanned(r, began)
	return r
}

// tellScanned logs a scan that did something.
func (s *Scanner) tellScanned(r Report, began time.Time) {
	if len(r.Results) > 0 {
		s.log.Info("scanned", zap.Int("sandboxes", len(r.Plan.Items)), zap.Any("outcomes", tally(r.Results)),
			zap.Duration("took", s.clock.Now().Sub(began)))
	}
}

// reclaimAll takes what is due, not waiting for its next try and not held by
// the brake, through the door. plan is the inventory that it is from. Once a
// reload came no more are begun.
func (s *Scanner) reclaimAll(ctx context.Context, plan policy.Plan, due []policy.Item) []Result {
	now := s.clock.Now()
	due = slices.DeleteFunc(due, func(it policy.Item) bool {
		return !s.retries.ready(it.Facts.Sandbox, now) || s.orphaned(it.Facts.Sandbox)
	})
	due, holds := s.brake.admit(due, plan, now)
	results := s.hold(holds, now)
	var mu sync.Mutex
	s.each(ctx, due, func(ctx context.Context, it policy.Item) {
		if s.renewing() {
			return // it is judged anew at once
		}
		r := s.reclaim(ctx, it)
		mu.Lock()
		defer mu.Unlock()
		results = append(results, r)
	})
	return results
}

// hold records what the brake holds, each once.
func (s *Scanner) hold(holds []hold, now time.Time) []Result {
	first := 0
	results := make([]Result, len(holds))
	for i, h := range holds {
		results[i] = Result{Item: h.Item, Outcome: OutcomeHeld, At: now, next: h.until, repeat: h.again}
		if !h.again {
			first++
			s.metrics.record(s, results[i])
		}
	}
	if first > 0 {
		s.log.Warn("too many are due at once: some are held, and go if they still are due then",
			zap.Int("held", first), zap.Duration("for", s.brake.Confirm))
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

func tally(results []Result) map[string]int {
	t := map[string]int{}
	for _, r := range results {
		t[string(r.Outcome)]++
	}
	return t
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
