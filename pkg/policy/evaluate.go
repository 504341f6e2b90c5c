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
// thought of it; unmatched are those that nobody thought of, among them those
// that only may be protected because something about them cannot be said.
func (s *Set) Evaluate(f *Facts, now time.Time) Decision { return s.evaluate(f, now, false) }

// EvaluateHeartbeats is Evaluate as if the policies had no limits and tag rules
// but on heartbeats, which alone count by nobody's clock but reaperd's own.
func (s *Set) EvaluateHeartbeats(f *Facts, now time.Time) Decision { return s.evaluate(f, now, true) }

func (s *Set) evaluate(f *Facts, now time.Time, heartbeats bool) Decision {
	switch {
	case f.Self:
		return Decision{Verdict: Keep, Reason: Self}
	case f.Owner != "":
		return Decision{Verdict: Keep, Reason: NotOwned}
	}
	state := setOf(f.State)
	switch {
	case judgedStates&state == 0:
		return Decision{Verdict: Keep, Reason: InTransition}
	case s == nil:
		return Decision{Verdict: Keep, Reason: Unmatched}
	}
	now = now.Round(0) // limits count wall time, which goes on while a laptop sleeps
	var looked lookups
	g := s.protection(f, &looked, now)
	if g.sure && g.forever && g.turn.IsZero() {
		return Decision{Verdict: Keep, Reason: Protected, UnknownAge: g.unbelieved}
	}
	d := Decision{Verdict: Keep, Reason: Unmatched}
	enforced := origin{now: now, firstSeen: f.Pulse.FirstSeen, state: state, heartbeats: heartbeats}
	reported := enforced
	var decisive *rule
	for i := range s.policies {
		r := &s.policies[i]
		if looked.rulesOut(r, s.leads.keys, f.Tags) {
			continue
		}
		if a := r.applies(f, &looked); a != yes {
			d.Unsaid = d.Unsaid || a == cannotSay
			continue
		}
		if r.Mode == Report {
			d.report(r, f, &reported, &g)
			continue
		}
		if d.Reason == Unmatched {
			d.Reason = WithinLimits
		}
		if r.satisfied&state != 0 {
			continue
		}
		due, limit := r.deadline(f, &enforced)
		if !due.IsZero() && (decisive == nil || r.precedes(due, decisive, d.Due)) {
			decisive, d.Due, d.Limit = r, due, limit
		}
	}
	if enforced.unclear != nil || reported.unclear != nil {
		d.Malformed = slices.Concat(enforced.unclear, reported.unclear)
		slices.Sort(d.Malformed)
		d.Malformed = slices.Compact(d.Malformed)
	}
	d.Unsaid = d.Unsaid || enforced.unsaid || reported.unsaid || g.unsaid
	d.UnknownAge = enforced.unbelieved || reported.unbelieved || g.unbelieved
	d.settle(decisive, &enforced, &g)
	return d
}

// settle draws the verdict from the earliest deadline there is.
func (d *Decision) settle(decisive *rule, o *origin, g *guard) {
	matched := d.Reason != Unmatched
	due := d.Due
	switch {
	case g.keeps() && (matched || g.sure):
		d.Reason, d.Limit, d.Due = Protected, "", time.Time{}
	case decisive == nil:
		if o.blind {
			d.Reason = UnknownAge
		}
	case due.After(o.now):
		d.Policy, d.Action, d.Logs = decisive.Name, decisive.options, decisive.Action.Logs
	default:
		d.Verdict, d.Policy, d.Action, d.Logs = Reclaim, decisive.Name, decisive.options, decisive.Action.Logs
		d.Reason, d.Limit = d.Limit, ""
		d.Due = later(due, g.until)
	}
	switch {
	case g.forever:
		d.Next = g.turn
	case decisive == nil || d.Verdict == Reclaim:
		d.Next = earlier(o.turn, g.turn)
	default:
		d.Next = earlier(earlier(o.turn, g.turn), later(g.until, due))
	}
}

// report adds what a policy in report mode would do now.
func (d *Decision) report(r *rule, f *Facts, o *origin, g *guard) {
	if r.satisfied&o.state != 0 {
		return
	}
	due, why := r.deadline(f, o)
	if due.IsZero() || due.After(o.now) || g.keeps() {
		return
	}
	d.Shadows = append(d.Shadows, Shadow{Policy: r.Name, Reason: why, Due: later(due, g.until)})
}

// applies says whether the policy has a say in this sandbox. Only yes does: to
// match, a sandbox must surely do so, and to be spared, it is enough that it may.
func (r *rule) applies(f *Facts, looked *lookups) answer {
	least := r.Match.ask(f, looked)
	for i := range r.Unless {
		if least == no {
			return no
		}
		least = min(least, yes-r.Unless[i].ask(f, looked))
	}
	return least
}

// deadline gives when the first of the rule's limits falls due, and which
// reason that gives; zero: none does. The first of equal ones wins.
func (r *rule) deadline(f *Facts, o *origin) (due time.Time, reason Reason) {
	for i := range r.limits {
		if o.heartbeats && r.limits[i].reason != HeartbeatLost {
			continue
		}
		if v := r.limits[i].judge(f, o); !v.due.IsZero() && (due.IsZero() || v.due.Before(due)) {
			due, reason = v.due, v.reason
		}
	}
	return due, reason
}

// precedes says whether the rule with its deadline decides rather than one
// that comes before it in the files.
func (r *rule) precedes(due time.Time, other *rule, otherDue time.Time) bool {
	if due.Equal(otherDue) {
		return rank(r.options.Action) < rank(other.options.Action)
	}
	return due.Before(otherDue)
}

// rank orders actions with equal deadlines: the one that leaves least is first.
func rank(a providers.Action) int {
	switch a {
	case providers.ActionRemove:
		return 0
	case providers.ActionStop:
		return 1
	default:
		return 2
	}
}

// guard is what the protect entries say of one sandbox.
type guard struct {
	forever bool      // it is kept without end, or until turn if that is not zero
	holds   bool      // it is kept until until
	until   time.Time // the end of the last bounded protection, past or not; zero: none
	sure    bool      // what keeps it surely hits, rather than cannot be said
	origin
}

func (g *guard) keeps() bool { return g.forever || g.holds }

func (s *Set) protection(f *Facts, looked *lookups, now time.Time) guard {
	g := guard{origin: origin{now: now, firstSeen: f.Pulse.FirstSeen}}
	unbounded := false
	for i := range s.protections {
		p := &s.protections[i]
		hit := p.selector.ask(f, looked)
		if hit == no {
			continue
		}
		g.unsaid = g.unsaid || hit == cannotSay
		if p.For == 0 {
			unbounded, g.forever = true, true
			g.sure = g.sure || hit == yes
			continue
		}
		from, name := g.from(f.Created, "created")
		if name == "" {
			g.forever = true // an age that cannot be told is not over
			g.sure = g.sure || hit == yes
			continue
		}
		end := from.Add(p.For)
		g.until = later(g.until, end)
		if end.After(now) {
			g.holds = true
			g.sure = g.sure || hit == yes
		}
	}
	if unbounded {
		g.turn = time.Time{} // no time changes anything
	}
	return g
}
