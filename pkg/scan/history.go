package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/store"
)

// ByPolicy is who reclaimed what no operator ordered.
const ByPolicy = "policy"

// unknownOutcome is why an intent that an earlier reaperd left failed.
const unknownOutcome = "reaperd ended before its outcome was known"

// ending is how an intent is resolved.
type ending struct {
	id            int64
	at            time.Time
	outcome       Outcome
	err           string
	uptime, costs float64
}

// unwritten is what the history could not take yet.
type unwritten struct {
	endings map[int64]ending
	whole   []store.Entry
}

// mostUnwritten bounds what is held of a history that takes nothing.
const mostUnwritten = 10_000

// begin writes an entry, and gives its id; 0 if that failed.
func (k *keeper) begin(ctx context.Context, e store.Entry) (id int64, err error) {
	err = k.use(ctx, memBegin, beginTimeout, func(ctx context.Context) error {
		var err error
		id, err = k.Begin(ctx, e)
		return err
	})
	return id, err
}

// write writes an entry that needs no intent.
func (k *keeper) write(ctx context.Context, e store.Entry) {
	if _, err := k.begin(ctx, e); err == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.unwritten.whole) < mostUnwritten {
		k.unwritten.whole = append(k.unwritten.whole, e)
	}
}

// end resolves an intent, now or at a later cycle.
func (k *keeper) end(ctx context.Context, e ending) {
	k.mu.Lock()
	k.unwritten.endings[e.id] = e
	k.mu.Unlock()
	k.endNow(ctx, e)
}

func (k *keeper) endNow(ctx context.Context, e ending) {
	err := k.use(ctx, memEnd, beginTimeout, func(ctx context.Context) error {
		return k.End(ctx, e.id, e.at, string(e.outcome), e.err, e.uptime, e.costs)
	})
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.unwritten.endings, e.id)
	}
}

// flush writes what the history could not take before, also while reaperd ends.
func (k *keeper) flush(ctx context.Context) {
	if k == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), memTimeout)
	defer cancel()
	k.mu.Lock()
	whole := k.unwritten.whole
	k.unwritten.whole = nil
	endings := make([]ending, 0, len(k.unwritten.endings))
	for _, e := range k.unwritten.endings {
		endings = append(endings, e)
	}
	k.mu.Unlock()
	for _, e := range whole {
		k.write(ctx, e)
	}
	for _, e := range endings {
		k.endNow(ctx, e)
	}
}

// resolving says whether the intent only waits for its ending to be written.
func (k *keeper) resolving(id int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, known := k.unwritten.endings[id]
	return known
}

// intend writes down what is about to be done. Nil: nothing is to be written;
// without an id the entry may not have been, and a history that cannot be
// written keeps nothing alive.
func (s *Scanner) intend(ctx context.Context, it policy.Item, told *providers.Evidence) *store.Entry {
	if s.keeper == nil || s.target.DryRun {
		return nil
	}
	e := s.entry(it, s.clock.Now())
	e.Evidence = told
	e.ID, _ = s.keeper.begin(ctx, e) // which has told
	return &e
}

func (s *Scanner) entry(it policy.Item, now time.Time) store.Entry {
	sb, d := it.Facts.Sandbox, it.Decision
	ran := uptime(sb, now)
	return store.Entry{
		Provider: s.name, Kind: s.kind, SandboxID: sb.ID, InstanceID: sb.InstanceID(), Name: sb.Name, Image: sb.Image,
		Revision: sb.Revision, Tags: sb.Tags, Policy: d.Policy, Reason: string(d.Reason), Action: string(d.Action.Action),
		By: s.onWhoseWord(it), Due: d.Due, Begun: now, UptimeSeconds: ran.Seconds(), CostDollars: ran.Hours() * s.target.PricePerHour,
		Attempt: s.retries.failures(sb) + 1,
	}
}

// onWhoseWord says who had it reclaimed: a policy, or whoever let go of its
// lease.
func (s *Scanner) onWhoseWord(it policy.Item) string {
	if it.Decision.Reason != policy.LeaseReleased {
		return ByPolicy
	}
	l, err := s.pulses.leases.Get(it.Facts.Tags[policy.LeaseTag])
	if err != nil {
		return ByPolicy
	}
	return fmt.Sprintf("%s, who released the lease %s", l.By, l.Key)
}

// chronicle writes into history what became of one reclaim. One that never
// came to a stop is an entry of its own where it is news.
func (s *Scanner) chronicle(ctx context.Context, r Result, news bool) {
	if s.keeper == nil {
		return
	}
	text := ""
	if r.Err != nil {
		text = r.Err.Error()
	}
	if r.Outcome == OutcomeReclaimed && r.intent == nil {
		if begun := s.retries.begun(r.Item.Facts.Sandbox); len(begun) > 0 {
			s.close(ctx, begun, true)
			return
		}
	}
	e := s.entry(r.Item, r.At)
	switch {
	case r.intent != nil && r.intent.ID != 0:
		s.keeper.end(ctx, ending{r.intent.ID, r.At, r.Outcome, text, e.UptimeSeconds, e.CostDollars})
		return
	case r.intent != nil: // perhaps it stands there: then this is the same one
		e.Begun, e.Attempt, e.Evidence = r.intent.Begun, r.intent.Attempt, r.intent.Evidence
	case !news || r.Outcome == OutcomeSpared:
		return
	case r.Outcome == OutcomeFailed || r.Outcome == OutcomeStuck:
		e.Attempt-- // it counts among the failures already
	}
	e.Ended, e.Outcome, e.Error = r.At, string(r.Outcome), text
	s.keeper.write(ctx, e)
}

// verify finds out what became of the intents that an earlier reaperd left
// open. Those that cannot be looked at now are looked at at the next cycle,
// and not reclaimed before. What is still there may yet go by what was begun,
// which is then told as it turns out.
func (s *Scanner) verify(ctx context.Context) {
	if len(s.orphans) == 0 {
		return
	}
	var items []policy.Item
	by := make(map[pulseKey][]store.Entry, len(s.orphans))
	for _, e := range slices.Backward(s.orphans) { // the last one counts, if it is reclaimed
		k := pulseKey{e.SandboxID, e.Revision}
		if by[k] == nil {
			items = append(items, asItem(e))
		}
		by[k] = append(by[k], e)
	}
	var mu sync.Mutex
	verified := map[pulseKey]bool{}
	s.each(ctx, items, func(ctx context.Context, it policy.Item) {
		sb := it.Facts.Sandbox
		ended, err := s.look(ctx, sb, it.Decision.Action.Action)
		_, alive := errors.AsType[stillThere](err)
		k := keyOf(&sb)
		switch {
		case ended:
			s.close(ctx, by[k], true)
			s.pulses.end(sb, end(it.Decision.Action.Action))
			s.metrics.verified(s.name, it.Decision)
		case alive:
			s.retries.resume(it, by[k])
		default:
			return
		}
		mu.Lock()
		defer mu.Unlock()
		verified[k] = true
	})
	s.orphans = slices.DeleteFunc(s.orphans, func(e store.Entry) bool {
		return verified[pulseKey{e.SandboxID, e.Revision}]
	})
}

// close writes how the intents for one sandbox that an earlier reaperd left,
// the last one first, came out. Of several it is the last that ended it.
func (s *Scanner) close(ctx context.Context, intents []store.Entry, ended bool) {
	now := s.clock.Now()
	for i, e := range intents {
		how := ending{e.ID, now, OutcomeFailed, unknownOutcome, e.UptimeSeconds, e.CostDollars}
		if ended && i == 0 {
			how.outcome, how.err = OutcomeReclaimed, ""
		}
		s.keeper.end(ctx, how)
		it := asItem(e)
		s.log.Info("verified what was begun before", append(describe(it.Facts.Sandbox, it.Decision),
			zap.String("outcome", string(how.outcome)), zap.Time("begun", e.Begun))...)
	}
}

// orphaned says whether what was begun with the sandbox is not verified yet.
func (s *Scanner) orphaned(sb providers.Sandbox) bool {
	return slices.ContainsFunc(s.orphans, func(e store.Entry) bool { return e.SandboxID == sb.ID && e.Revision == sb.Revision })
}

// asItem gives what an entry is about, as far as that is written.
func asItem(e store.Entry) policy.Item {
	var it policy.Item
	it.Facts.Sandbox = providers.Sandbox{
		Ref: providers.Ref{Provider: e.Provider, ID: e.SandboxID}, Kind: e.Kind, Name: e.Name, Image: e.Image,
		Revision: e.Revision, Tags: e.Tags, State: providers.StateUnknown,
	}
	it.Decision = policy.Decision{Policy: e.Policy, Reason: policy.Reason(e.Reason), Due: e.Due}
	it.Decision.Action.Action = providers.Action(e.Action)
	return it
}
