package scan

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
)

// agenda is what there is to do between two lists: the plan of the last list,
// kept up to date with what was done and heard of since, and when to judge
// which of its items again. It is empty while the provider cannot be listed.
type agenda struct {
	known   bool         // there is a list that it is from
	plan    policy.Plan  // one that is gone since has left an item without an id
	done    map[int]bool // items that went through the door, and were not looked at since
	results []Result     // since the list
	queue   deadlines
	index   map[string]int // where an id stands in the plan; nil until it is asked for
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

// begin takes up the plan of a list. What is due in it is for reclaimAll.
func (a *agenda) begin(plan policy.Plan) {
	*a = agenda{known: true, plan: plan, done: map[int]bool{}}
	for i := range plan.Items {
		if it := &plan.Items[i]; it.Decision.Verdict != policy.Reclaim {
			a.remind(i, it.Decision.Next)
		}
	}
}

// put takes in an item as it was looked at since the list.
func (a *agenda) put(it policy.Item) {
	i, known := a.find(it.Facts.ID)
	if known {
		a.plan.Items[i] = it
		delete(a.done, i)
	} else {
		i = len(a.plan.Items)
		a.plan.Items = append(a.plan.Items, it)
		a.index[it.Facts.ID] = i
	}
	a.forget(it.Facts.ID)
	if it.Decision.Verdict == policy.Reclaim {
		a.remind(i, a.plan.At) // at once
		return
	}
	a.remind(i, it.Decision.Next)
}

// drop takes out what is gone.
func (a *agenda) drop(id string) {
	if i, known := a.find(id); known {
		a.plan.Items[i] = policy.Item{}
		delete(a.index, id)
		a.forget(id)
	}
}

// forget forgets what was done with a sandbox that has changed since.
func (a *agenda) forget(id string) {
	a.results = slices.DeleteFunc(a.results, func(r Result) bool { return r.Item.Facts.ID == id })
}

func (a *agenda) find(id string) (i int, known bool) {
	if a.index == nil {
		a.index = make(map[string]int, len(a.plan.Items))
		for i := range a.plan.Items {
			a.index[a.plan.Items[i].Facts.ID] = i
		}
	}
	i, known = a.index[id]
	return i, known
}

// recheck has those judged again now that f says yes to.
func (a *agenda) recheck(now time.Time, f func(*policy.Facts) bool) {
	for i := range a.plan.Items {
		if f(&a.plan.Items[i].Facts) {
			a.remind(i, now)
		}
	}
}

// current is the plan without what is gone.
func (a *agenda) current() policy.Plan {
	p := policy.Plan{At: a.plan.At, Items: slices.Clone(a.plan.Items)}
	p.Items = slices.DeleteFunc(p.Items, func(it policy.Item) bool { return it.Facts.ID == "" })
	return p
}

// remind has the item judged again then; never, if that is zero.
func (a *agenda) remind(item int, at time.Time) {
	if !at.IsZero() {
		heap.Push(&a.queue, deadline{at, item})
	}
}

// note takes in what became of due items.
func (a *agenda) note(results []Result, r *retries) {
	a.results = append(a.results, results...)
	for _, res := range results {
		i, known := a.at(&res.Item)
		if !known {
			continue
		}
		switch res.Outcome {
		case OutcomeReclaimed, OutcomeGone:
			a.done[i] = true
		case OutcomeFailed, OutcomeStuck:
			a.remind(i, r.next(res.Item.Facts.Sandbox))
		case OutcomeHeld:
			a.remind(i, res.next)
		case OutcomeSpared:
			a.plan.Items[i].Facts = res.Item.Facts // as it was looked at, and judged, again
			a.remind(i, res.next)
		}
	}
}

// postpone has due items that were not tried judged again at their next try, and
// not before later.
func (a *agenda) postpone(items []policy.Item, r *retries, later, now time.Time) {
	for k := range items {
		i, known := a.at(&items[k])
		if !known {
			continue
		}
		again := r.next(items[k].Facts.Sandbox)
		if again.Before(later) {
			again = later
		}
		if again.After(now) { // else it is the next list that brings it up: to ask at once would be to ask for ever
			a.remind(i, again)
		}
	}
}

// at is where an item stands in the plan, if the same sandbox does.
func (a *agenda) at(it *policy.Item) (i int, known bool) {
	if !a.known {
		return 0, false
	}
	i, known = a.find(it.Facts.ID)
	return i, known && a.plan.Items[i].Facts.Revision == it.Facts.Revision
}

// next is when something wants attention; zero: nothing does.
func (a *agenda) next() time.Time {
	if len(a.queue) == 0 {
		return time.Time{}
	}
	return a.queue[0].at
}

// due gives the items whose moment has come and that are to be reclaimed.
func (a *agenda) due(judge func(*policy.Facts, moment) policy.Decision, p *pulses, m moment) []policy.Item {
	var due policy.Plan
	seen := map[int]bool{}
	for len(a.queue) > 0 && !a.queue[0].at.After(m.now) {
		i := heap.Pop(&a.queue).(deadline).item
		it := &a.plan.Items[i]
		if seen[i] || a.done[i] || it.Facts.ID == "" {
			continue
		}
		seen[i] = true
		p.again(&it.Facts, m)
		it.Decision = judge(&it.Facts, m)
		if it.Decision.Verdict == policy.Reclaim {
			due.Items = append(due.Items, *it)
			continue
		}
		a.remind(i, it.Decision.Next)
	}
	return due.Reclaim()
}

// Wake acts on what fell due since the last list, without another list: every
// sandbox is looked at again before anything is done to it. The report's plan
// is that of the last list as it stands now.
func (s *Scanner) Wake(ctx context.Context) Report {
	m := s.moment()
	r := Report{Provider: s.target.Name}
	r.Results = s.reclaimAll(ctx, s.agenda.plan, s.agenda.due(s.judge, s.pulses, m), m)
	s.metrics.reclaimed(s, s.agenda.plan, s.agenda.results)
	if len(r.Results) > 0 {
		r.Plan = s.agenda.current()
	}
	s.tellScanned(r, m.now)
	return r
}
