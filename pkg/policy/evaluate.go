package policy

import (
	"slices"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// Evaluate judges one sandbox at now. Deadlines are inclusive: at the instant
// of its due time a sandbox is due.
//
// What keeps is asked in this order, and the first that does is the reason:
// reaperd's own, owned by a controller, in transition, protected, unmatched.
// A protected sandbox that no policy matches is protected, since somebody
// thought of it; unmatched are those that nobody thought of.
func (s *Set) Evaluate(f *Facts, now time.Time) Decision {
	switch {
	case f.Self:
		return Decision{Verdict: Keep, Reason: Self}
	case f.Owner != "":
		return Decision{Verdict: Keep, Reason: NotOwned}
	case !judged(f.State):
		return Decision{Verdict: Keep, Reason: InTransition}
	case s == nil:
		return Decision{Verdict: Keep, Reason: Unmatched}
	}
	now = now.Round(0) // limits count wall time, which goes on while a laptop sleeps
	guard := s.protection(f, now)
	if guard.forever {
		return Decision{Verdict: Keep, Reason: Protected, UnknownAge: guard.unbelieved, Next: guard.turn}
	}
	d := Decision{Verdict: Keep, Reason: Unmatched}
	enforced := origin{now: now, firstSeen: f.Pulse.FirstSeen}
	reported := enforced
	var decisive *rule
	for i := range s.policies {
		r := &s.policies[i]
		if !r.applies(f) {
			continue
		}
		if r.Mode == Report {
			d.report(r, f, &reported, guard)
			continue
		}
		if d.Reason == Unmatched {
			d.Reason = WithinLimits
		}
		if f.State.Satisfies(r.options.Action) {
			continue
		}
		due, limit := r.deadline(f, &enforced, &d.Malformed)
		if !due.IsZero() && (decisive == nil || r.precedes(due, decisive, d.Due)) {
			decisive, d.Due, d.Limit = r, due, limit
		}
	}
	slices.Sort(d.Malformed)
	d.UnknownAge = enforced.unbelieved || reported.unbelieved || guard.unbelieved
	d.settle(decisive, &enforced, guard)
	return d
}

// settle draws the verdict from the earliest deadline there is.
func (d *Decision) settle(decisive *rule, o *origin, guard guard) {
	if decisive == nil && o.turn.IsZero() {
		// Nothing to come.
		if o.blind {
			d.Reason = UnknownAge
		}
		if guard.holds {
			d.Reason = Protected
		}
		return
	}
	d.Next = earlier(o.turn, guard.turn)
	switch {
	case guard.holds:
		d.Reason = Protected
		if decisive != nil {
			d.Next = earlier(d.Next, later(guard.until, d.Due))
		}
		d.Due, d.Limit = time.Time{}, ""
	case decisive == nil:
		d.Reason = UnknownAge
	case d.Due.After(o.now):
		d.Policy, d.Action = decisive.Name, decisive.options
		d.Next = earlier(d.Next, d.Due)
	default:
		d.Verdict, d.Policy, d.Action = Reclaim, decisive.Name, decisive.options
		d.Reason, d.Limit = d.Limit, ""
		d.Due = later(d.Due, guard.until)
	}
}

// report adds what a policy in report mode would do now.
func (d *Decision) report(r *rule, f *Facts, o *origin, guard guard) {
	if f.State.Satisfies(r.options.Action) {
		return
	}
	due, why := r.deadline(f, o, &d.Malformed)
	if due.IsZero() || due.After(o.now) || guard.holds {
		return
	}
	d.Shadows = append(d.Shadows, Shadow{Policy: r.Name, Reason: why, Due: later(due, guard.until)})
}

// applies says whether the policy has a say in this sandbox.
func (r *rule) applies(f *Facts) bool {
	if !r.Match.hits(f) {
		return false
	}
	for i := range r.Unless {
		if r.Unless[i].spares(f) {
			return false
		}
	}
	return true
}

// precedes says whether the rule with its deadline decides rather than one
// that comes before it in the files.
func (r *rule) precedes(due time.Time, other *rule, otherDue time.Time) bool {
	if due.Equal(otherDue) {
		return r.options.Action == providers.ActionRemove && other.options.Action != providers.ActionRemove
	}
	return due.Before(otherDue)
}

// guard is what the protect entries say of one sandbox.
type guard struct {
	forever bool      // it is kept whatever happens, until turn if that is not zero
	holds   bool      // it is kept until until
	until   time.Time // the end of the last bounded protection, past or not; zero: none
	origin
}

func (s *Set) protection(f *Facts, now time.Time) guard {
	g := guard{origin: origin{now: now, firstSeen: f.Pulse.FirstSeen}}
	for i := range s.protections {
		p := &s.protections[i]
		if !p.selector.spares(f) {
			continue
		}
		if p.For == 0 {
			return guard{forever: true}
		}
		from, ok := g.from(f.Created)
		if !ok {
			g.forever = true // an age that cannot be told is not over
			continue
		}
		g.until = later(g.until, from.Add(p.For))
	}
	g.holds = g.until.After(now)
	return g
}
