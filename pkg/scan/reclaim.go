package scan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/store"
)

// Outcome is what became of one reclaim.
type Outcome string

// The closed set of outcomes, as far as the loop gives them.
const (
	OutcomeReclaimed Outcome = "reclaimed" // ended by reaperd, and proven to be
	OutcomeGone      Outcome = "gone"      // ended without reaperd
	OutcomeSpared    Outcome = "spared"    // no longer due when looked at again
	OutcomeDryRun    Outcome = "dry_run"   // due, and left alone as told
	OutcomeHeld      Outcome = "held"      // due, and held by the brake for a while
	OutcomeFailed    Outcome = "failed"    // this try failed; there will be another
	OutcomeStuck     Outcome = "stuck"     // does not go, whatever is tried
)

// Outcomes gives every outcome.
func Outcomes() []Outcome {
	return []Outcome{OutcomeReclaimed, OutcomeGone, OutcomeSpared, OutcomeDryRun, OutcomeHeld, OutcomeFailed, OutcomeStuck}
}

// Result is one reclaim and what became of it.
type Result struct {
	Item    policy.Item // with the decision that was acted on
	Outcome Outcome
	Err     error // why it failed, is stuck, or was spared where that needs saying
	At      time.Time

	next   time.Time    // of one spared or held: when to judge it again
	sent   bool         // the provider took the stop, or may have taken it
	intent *store.Entry // in history, before the stop; nil if there is none, without an id if it may not stand there
	repeat bool         // what it says was recorded before
}

// stopMargin is what a stop may take beyond its grace before it is given up.
const stopMargin = 30 * time.Second

// proofWait is for how long a sandbox whose stop was accepted is looked at
// until it is gone.
const proofWait = 10 * time.Second

// Why says in a line why the sandbox is as it is.
func (r Result) Why() string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Outcome == OutcomeSpared:
		return "it is not what it was when it was listed"
	default:
		return string(r.Outcome)
	}
}

// errInFlight is why a sandbox is not reclaimed twice at once.
var errInFlight = errors.New("it is being reclaimed already")

// errSelf is why even an operator's order leaves reaperd itself alone.
var errSelf = errors.New("reaperd itself runs there, and does not stop itself")

// reclaim takes one that the policies say is due through the door.
func (s *Scanner) reclaim(ctx context.Context, it policy.Item) Result {
	return s.door(ctx, it, func(f *policy.Facts, m moment) (policy.Decision, time.Time) {
		d := s.judge(f, m)
		if d.Verdict != policy.Reclaim {
			return d, time.Time{}
		}
		_, until := m.suspicion(f, d)
		return d, until
	})
}

// order takes one that an operator wants stopped through the door: nothing is
// judged again, save that reaperd does not stop itself.
func (s *Scanner) order(ctx context.Context, it policy.Item) Result {
	return s.door(ctx, it, func(*policy.Facts, moment) (policy.Decision, time.Time) {
		d := it.Decision
		d.Verdict = policy.Reclaim
		return d, time.Time{}
	})
}

// judge decides, at a fresh moment, of a sandbox that was just looked at again.
// Where the clocks speak against the decision, held says until when.
type judge func(f *policy.Facts, m moment) (d policy.Decision, held time.Time)

// door is the one way to reclaim a sandbox: look again, judge again, stop,
// verify, record. ctx does not end with the daemon: one begun is finished.
func (s *Scanner) door(ctx context.Context, it policy.Item, j judge) Result {
	if !s.doors.enter(it.Facts.ID) {
		return Result{Item: it, Outcome: OutcomeSpared, Err: errInFlight, At: s.clock.Now()}
	}
	defer s.doors.leave(it.Facts.ID)
	return s.finish(ctx, s.attempt(ctx, it, j))
}

// finish keeps the account of tries and records what became of one.
func (s *Scanner) finish(ctx context.Context, r Result) Result {
	r.At = s.clock.Now()
	sb := r.Item.Facts.Sandbox
	if r.Outcome == OutcomeGone && s.retries.sent(sb) {
		r.Outcome = OutcomeReclaimed // by an earlier try that was given up on
	}
	switch r.Outcome {
	case OutcomeFailed:
		r.Outcome, r.repeat = s.retries.failed(r)
	case OutcomeGone:
		r.repeat = s.pulses.end(sb, goneItself)
	case OutcomeReclaimed:
		s.pulses.end(sb, end(r.Item.Decision.Action.Action))
	}
	news := s.record(r)
	s.chronicle(ctx, r, news)
	switch {
	case r.Outcome == OutcomeFailed, r.Outcome == OutcomeStuck:
	case (r.Outcome == OutcomeSpared || r.Outcome == OutcomeHeld) && s.retries.sent(sb): // it may be on its way out: settle finds out
	default:
		s.giveUp(ctx, sb)
	}
	return r
}

// giveUp ends the account of a sandbox that went, or is not to go any more.
func (s *Scanner) giveUp(ctx context.Context, sb providers.Sandbox) {
	s.close(ctx, s.retries.begun(sb), false)
	s.retries.forget(sb)
}

// settle finds out what became of those that were told to stop, did not go
// while that was watched, and are due no more: their end is still ours.
func (s *Scanner) settle(ctx context.Context, plan policy.Plan) []Result {
	var mu sync.Mutex
	var results []Result
	s.each(ctx, s.retries.unsettled(plan, s.flights.under), func(ctx context.Context, it policy.Item) {
		sb := it.Facts.Sandbox
		ended, err := s.look(ctx, sb, it.Decision.Action.Action)
		if !ended {
			if there, alive := errors.AsType[stillThere](err); alive && there.state != providers.StateChanging {
				s.giveUp(ctx, sb) // it lives on, and is not to be stopped any more
			}
			return // else it is asked again at the next scan
		}
		r := s.finish(ctx, Result{Item: it, Outcome: OutcomeReclaimed})
		mu.Lock()
		defer mu.Unlock()
		results = append(results, r)
	})
	return results
}

func (s *Scanner) attempt(ctx context.Context, it policy.Item, j judge) Result {
	// First, since it takes its time: nothing slow may come between the last look
	// and the stop.
	told := s.evidence(ctx, it)
	again, err := s.get(ctx, it.Facts.ID)
	switch {
	case errors.Is(err, providers.ErrNotFound):
		return Result{Item: it, Outcome: OutcomeGone}
	case err != nil:
		return Result{Item: it, Outcome: OutcomeFailed, Err: fmt.Errorf("look again at %s: %w", it.Facts.ID, err)}
	case again.Revision != it.Facts.Revision:
		return Result{Item: it, Outcome: OutcomeSpared}
	case again.Self, it.Facts.Self:
		return Result{Item: it, Outcome: OutcomeSpared, Err: errSelf}
	}
	s.sample(ctx, &again, it.Decision.Reason == policy.MaxIdle)
	m := s.moment()
	it.Facts = s.saw(again, m)
	d, held := j(&it.Facts, m)
	if d.Verdict != policy.Reclaim {
		if s.retries.sent(again) && again.State.Satisfies(it.Decision.Action.Action) {
			return Result{Item: it, Outcome: OutcomeReclaimed} // by an earlier try, that took its time
		}
		return Result{Item: it, Outcome: OutcomeSpared, next: d.Next} // with the decision that no longer holds
	}
	it.Decision = d
	if !held.IsZero() {
		return Result{Item: it, Outcome: OutcomeHeld, next: held}
	}
	intent := s.intend(ctx, it, told)
	// What was begun before did not end it so far; if it does, that is told by this intent.
	s.close(ctx, s.retries.begun(again), false)
	r := s.stop(ctx, it, again)
	r.intent = intent
	return r
}

// stop sends the stop of a sandbox that was just looked at, and proves it. sb
// is as its provider told it.
func (s *Scanner) stop(ctx context.Context, it policy.Item, sb providers.Sandbox) Result {
	err := s.send(ctx, sb, it.Decision.Action)
	switch {
	case errors.Is(err, providers.ErrDryRun):
		return Result{Item: it, Outcome: OutcomeDryRun}
	case errors.Is(err, providers.ErrNotFound):
		return Result{Item: it, Outcome: OutcomeGone}
	case errors.Is(err, providers.ErrChanged):
		return Result{Item: it, Outcome: OutcomeSpared}
	case err != nil && !errors.Is(err, providers.ErrBusy) && !errors.Is(err, context.DeadlineExceeded):
		return Result{
			Item: it, Outcome: OutcomeFailed, Err: fmt.Errorf("%s %s: %w", it.Decision.Action.Action, it.Facts.ID, err),
			sent: errors.Is(err, providers.ErrUnavailable), // the answer may be what broke off
		}
	}
	// Accepted, already being done by somebody, or out of time: look and see.
	if proof := s.prove(ctx, sb, it.Decision.Action.Action); proof != nil {
		return Result{Item: it, Outcome: OutcomeFailed, Err: errors.Join(proof, err), sent: !errors.Is(err, providers.ErrBusy)}
	}
	if errors.Is(err, providers.ErrBusy) {
		return Result{Item: it, Outcome: OutcomeGone}
	}
	return Result{Item: it, Outcome: OutcomeReclaimed}
}

// prove looks until the sandbox is what the action makes of it: nil is proof.
func (s *Scanner) prove(ctx context.Context, sb providers.Sandbox, action providers.Action) error {
	until := s.clock.Now().Add(proofWait)
	pause := 50 * time.Millisecond
	for {
		ended, err := s.look(ctx, sb, action)
		if ended {
			return nil
		}
		if !s.clock.Now().Before(until) {
			return err
		}
		wait(ctx, s.clock, pause, rousers{})
		pause = min(2*pause, time.Second)
	}
}

// look says whether the sandbox is what the action makes of it. If it is not,
// or that could not be seen, the error says which.
func (s *Scanner) look(ctx context.Context, sb providers.Sandbox, action providers.Action) (ended bool, err error) {
	now, err := s.get(ctx, sb.ID)
	switch {
	case errors.Is(err, providers.ErrNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look whether %s is gone: %w", sb.ID, err)
	case now.Revision != sb.Revision || now.State.Satisfies(action):
		return true, nil
	default:
		return false, stillThere{sb.ID, action, now.State}
	}
}

// stillThere is a sandbox that was told to end and was seen alive since.
type stillThere struct {
	id     string
	action providers.Action
	state  providers.State
}

func (e stillThere) Error() string {
	return fmt.Sprintf("%s of %s was accepted, and it is still %s", e.action, e.id, e.state)
}

// record counts and logs one result, and says whether it is news.
func (s *Scanner) record(r Result) (news bool) {
	sb, d := r.Item.Facts.Sandbox, r.Item.Decision
	if r.Outcome == OutcomeDryRun && !s.pulses.firstTime(sb, "dry run "+d.Policy+" "+string(d.Reason)) {
		return false
	}
	if r.repeat {
		s.log.Debug("as before", append(describe(sb, d), zap.String("outcome", string(r.Outcome)), zap.Error(r.Err))...)
		return false
	}
	s.metrics.record(s, r)
	fields := append(describe(sb, d), zap.String("outcome", string(r.Outcome)), zap.String("action", string(d.Action.Action)))
	switch r.Outcome {
	case OutcomeFailed, OutcomeStuck:
		s.log.Error("reclaim failed", append(fields, zap.Error(r.Err))...)
		s.tellPanic(r.Err)
	case OutcomeDryRun:
		s.log.Info("would reclaim", fields...)
	case OutcomeGone, OutcomeSpared:
		s.log.Debug("not reclaimed", fields...)
	default:
		s.log.Info("reclaimed", fields...)
	}
	return true
}
