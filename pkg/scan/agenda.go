package scan

import (
	"container/heap"
	"context"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
)

// agenda is what there is to do between two lists: the plan of the last list,
// kept up to date with what was done since, and when to judge which of its
// items again. It is empty while the provider cannot be listed.
type agenda struct {
	plan    policy.Plan
	results []Result // since the list
	queue   deadlines
}

// deadline is the next moment at which one item of the plan wants attention.
type deadline struct {
	at   time.Time
	item int // its index in the plan
}

// deadlines is a heap, the earliest first.
type deadlines []deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }

// Push implements heap.Interface.
func (d *deadlines) Push(x any) { *d = append(*d, x.(deadline)) }

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// begin takes up the plan of a list and what was done about it at once.
func (a *agenda) begin(plan policy.Plan, results []Result, r *retries) {
	*a = agenda{plan: plan}
	at := make(map[pulseKey]int, len(plan.Items))
	for i := range plan.Items {
		it := &plan.Items[i]
		if it.Decision.Verdict == policy.Reclaim {
			at[pulseKey{it.Facts.ID, it.Facts.Revision}] = i
			continue
		}
		a.remind(i, it.Decision.Next)
	}
	a.note(results, at, r)
}

// remind has the item judged again then; never, if that is zero.
func (a *agenda) remind(item int, at time.Time) {
	if !at.IsZero() {
		heap.Push(&a.queue, deadline{at, item})
	}
}

// note takes in what became of the due items, given by where they stand in the
// plan. One without a result was not tried, and waits for its next try.
func (a *agenda) note(results []Result, at map[pulseKey]int, r *retries) {
	a.results = append(a.results, results...)
	for _, res := range results {
		sb := res.Item.Facts.Sandbox
		k := pulseKey{sb.ID, sb.Revision}
		i, known := at[k]
		if !known {
			continue
		}
		delete(at, k)
		switch res.Outcome {
		case OutcomeFailed, OutcomeStuck:
			a.remind(i, r.next(sb))
		case OutcomeHeld:
			a.remind(i, res.next)
		case OutcomeSpared:
			a.plan.Items[i].Facts = res.Item.Facts // as it was looked at, and judged, again
			a.remind(i, res.next)
		}
	}
	for _, i := range at {
		a.remind(i, r.next(a.plan.Items[i].Facts.Sandbox))
	}
}

// next is when something wants attention; zero: nothing does.
func (a *agenda) next() time.Time {
	if len(a.queue) == 0 {
		return time.Time{}
	}
	return a.queue[0].at
}

// due gives the items whose moment has come and that are to be reclaimed, and
// where they stand in the plan.
func (a *agenda) due(policies *policy.Set, now time.Time) ([]policy.Item, map[pulseKey]int) {
	var due policy.Plan
	at := map[pulseKey]int{}
	for len(a.queue) > 0 && !a.queue[0].at.After(now) {
		i := heap.Pop(&a.queue).(deadline).item
		it := &a.plan.Items[i]
		it.Decision = policies.Evaluate(&it.Facts, now)
		if it.Decision.Verdict == policy.Reclaim {
			at[pulseKey{it.Facts.ID, it.Facts.Revision}] = i
			due.Items = append(due.Items, *it)
			continue
		}
		a.remind(i, it.Decision.Next)
	}
	return due.Reclaim(), at
}

// Wake acts on what fell due since the last list, without another list: every
// sandbox is looked at again before anything is done to it. The report's plan
// is that of the last list as it stands now.
func (s *Scanner) Wake(ctx context.Context) Report {
	began := s.clock.Now()
	due, at := s.agenda.due(s.policies, began)
	r := Report{Provider: s.target.Name, Plan: s.agenda.plan}
	r.Results = s.reclaimAll(ctx, s.agenda.plan, due)
	s.agenda.note(r.Results, at, s.retries)
	s.metrics.reclaimed(s, s.agenda.plan, s.agenda.results)
	s.tellScanned(r, began)
	return r
}
