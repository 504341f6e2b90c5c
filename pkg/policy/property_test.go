package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestAnotherEnforcingPolicyNeverLengthensALife(t *testing.T) {
	forAll(t, func(w world) {
		policies, protections := w.policies(), w.protections()
		more := slices.Insert(slices.Clone(policies), rapid.IntRange(0, len(policies)).Draw(w.T, "where"), w.policy("enforce"))
		before, after := w.set(policies, protections), w.set(more, protections)
		for range sandboxes {
			f := w.facts()
			if was, is := w.end(before, f), w.end(after, f); sooner(was, is) {
				w.Fatalf("%v became %v of %s by\n%q", was, is, show(f), more)
			}
		}
	})
}

func TestAnotherProtectionNeverShortensALife(t *testing.T) {
	forAll(t, func(w world) {
		policies, protections := w.policies(), w.protections()
		more := append(slices.Clone(protections), w.protection())
		sparing := slices.Clone(policies)
		if i := rapid.IntRange(0, len(sparing)-1).Draw(w.T, "which"); !strings.Contains(sparing[i], "unless") {
			sparing[i] += ", unless: [{" + w.entry() + "}]"
		}
		plain := w.set(policies, protections)
		for _, after := range []*policy.Set{w.set(policies, more), w.set(sparing, protections)} {
			for range sandboxes {
				f := w.facts()
				if was, is := w.end(plain, f), w.end(after, f); sooner(is, was) {
					w.Fatalf("%v became %v of %s by\n%q\n%q", was, is, show(f), sparing, more)
				}
			}
		}
	})
}

func TestReportModeChangesNoVerdict(t *testing.T) {
	forAll(t, func(w world) {
		policies, protections := w.policies(), w.protections()
		more := append(slices.Clone(policies), w.policy("report"))
		before, after := w.set(policies, protections), w.set(more, protections)
		for range sandboxes {
			f := w.facts()
			was, is := before.Evaluate(f, now), after.Evaluate(f, now)
			was.Shadows, was.Malformed, was.UnknownAge, was.Unsaid = is.Shadows, is.Malformed, is.UnknownAge, is.Unsaid
			if diff := cmp.Diff(was, is); diff != "" {
				w.Fatalf("%s by\n%q\n%s", show(f), more, diff)
			}
		}
	})
}

// TestKnowingLessNeverBringsTheEndNearer takes one thing away at a time from a
// sandbox that is seen for the first time, so that what falls back on that
// begins anew.
func TestKnowingLessNeverBringsTheEndNearer(t *testing.T) {
	forAll(t, func(w world) {
		s := w.anySet()
		for range sandboxes {
			f := w.facts()
			f.Pulse.FirstSeen, f.Pulse.StateSince = now, now
			was := w.end(s, f)
			for what, forget := range map[string]func(f *policy.Facts){
				"tags":         func(f *policy.Facts) { f.Tags = nil },
				"name":         func(f *policy.Facts) { f.Name = "" },
				"image":        func(f *policy.Facts) { f.Image = "" },
				"kind":         func(f *policy.Facts) { f.Kind = "" },
				"provider":     func(f *policy.Facts) { f.Provider = "" },
				"state":        func(f *policy.Facts) { f.State = providers.StateUnknown },
				"created":      func(f *policy.Facts) { f.Created = time.Time{} },
				"started":      func(f *policy.Facts) { f.Started = time.Time{} },
				"ended":        func(f *policy.Facts) { f.Ended = time.Time{} },
				"paused since": func(f *policy.Facts) { f.PausedSince = time.Time{} },
				"last active":  func(f *policy.Facts) { f.LastActive = time.Time{} },
				"state since":  func(f *policy.Facts) { f.Pulse.StateSince = time.Time{} },
				"blind until":  func(f *policy.Facts) { f.Pulse.BlindUntil = time.Time{} },
				"everything":   func(f *policy.Facts) { *f = policy.Facts{} },
			} {
				less := *f
				forget(&less)
				if is := w.end(s, &less); sooner(is, was) {
					w.Fatalf("without %s %v became %v of %s", what, was, is, show(f))
				}
			}
		}
	})
}

func TestTimeOnlyMovesKeepToReclaimAndNextIsExact(t *testing.T) {
	forAll(t, func(w world) {
		s := w.anySet()
		for range sandboxes {
			f := w.facts()
			d := s.Evaluate(f, now)
			if !d.Next.IsZero() {
				if !d.Next.After(now) {
					w.Fatalf("next is not after now: %+v of %s", d, show(f))
				}
				if got := s.Evaluate(f, d.Next); got.Verdict == d.Verdict {
					w.Fatalf("nothing changes at next: %+v, %+v of %s", d, got, show(f))
				}
				if got := s.Evaluate(f, d.Next.Add(-1)); got.Verdict != d.Verdict {
					w.Fatalf("it changes before next: %+v, %+v of %s", d, got, show(f))
				}
			} else if got := s.Evaluate(f, now.AddDate(600, 0, 0)); got.Verdict != d.Verdict {
				w.Fatalf("it changes though there is no next: %+v, %+v of %s", d, got, show(f))
			}
			at, verdict := now, d.Verdict
			for range 10 {
				at = at.Add(w.upTo(pick(w, time.Hour, day, 100*day)))
				got := s.Evaluate(f, at)
				if verdict == policy.Reclaim && got.Verdict == policy.Keep {
					w.Fatalf("time brought it back: %+v of %s", got, show(f))
				}
				if (d.Next.IsZero() || at.Before(d.Next)) && got.Verdict != d.Verdict {
					w.Fatalf("it changes at %v, before next: %+v, %+v of %s", at, d, got, show(f))
				}
				verdict = got.Verdict
			}
		}
	})
}

// With times in the future, which are believed once they have come, next is
// still never too late.
func TestNextIsNeverTooLate(t *testing.T) {
	forAll(t, func(w world) {
		s := w.anySet()
		for range sandboxes {
			f := w.facts()
			for _, at := range []*time.Time{&f.Created, &f.Started, &f.Ended, &f.PausedSince, &f.LastActive} {
				if w.oneIn(2) {
					*at = now.Add(w.upTo(pick(w, time.Minute, time.Hour, 3*day)))
				}
			}
			d := s.Evaluate(f, now)
			for range 20 {
				at := now.Add(w.upTo(pick(w, time.Hour, day, 10*day)))
				if !d.Next.IsZero() && w.oneIn(3) {
					at = d.Next.Add(-1)
				}
				if !d.Next.IsZero() && !at.Before(d.Next) {
					continue
				}
				if got := s.Evaluate(f, at); got.Verdict != d.Verdict {
					w.Fatalf("it changes at %v, before next: %+v, %+v of %s", at, d, got, show(f))
				}
			}
		}
	})
}

func TestTheOrderOfSandboxesNeverMatters(t *testing.T) {
	forAll(t, func(w world) {
		s := w.anySet()
		var facts []policy.Facts
		for range sandboxes {
			facts = append(facts, *w.facts())
		}
		forwards := policy.NewPlan(s, facts, now)
		slices.Reverse(facts)
		backwards := policy.NewPlan(s, facts, now)
		slices.Reverse(backwards.Items)
		if diff := cmp.Diff(forwards, backwards); diff != "" {
			w.Fatalf("(-forwards +backwards):\n%s", diff)
		}
	})
}

// TestExplainAgreesWithEvaluate draws the decision anew from what the trace
// tells of protections, policies, clauses and limits.
func TestExplainAgreesWithEvaluate(t *testing.T) {
	forAll(t, func(w world) {
		s := w.anySet()
		for range sandboxes {
			f := w.facts()
			at := now.Add(w.upTo(pick(w, time.Minute, day, 500*day)))
			trace := s.Explain(f, at)
			if diff := cmp.Diff(s.Evaluate(f, at), trace.Decision); diff != "" {
				w.Fatalf("(-evaluate +explain):\n%s", diff)
			}
			if d := trace.Decision; d.Reason == policy.Self || d.Reason == policy.NotOwned || d.Reason == policy.InTransition {
				continue
			}
			got, shadows := drawn(w, &trace)
			want := policy.Decision{Verdict: trace.Decision.Verdict, Policy: trace.Decision.Policy, Due: trace.Decision.Due}
			if want.Verdict == policy.Reclaim {
				want.Reason, want.Action = trace.Decision.Reason, trace.Decision.Action
			}
			if diff := cmp.Diff(want, got); diff != "" {
				w.Fatalf("%+v of %s (-decided +explained):\n%s", trace, show(f), diff)
			}
			if diff := cmp.Diff(trace.Decision.Shadows, shadows); diff != "" {
				w.Fatalf("%+v of %s (-decided +explained):\n%s", trace, show(f), diff)
			}
		}
	})
}

// drawn draws from a trace what the decision has to be.
func drawn(w world, t *policy.Trace) (d policy.Decision, shadows []policy.Shadow) {
	kept := false
	var until time.Time
	for _, p := range t.Protections {
		kept = kept || p.Keeps
		until = later(until, p.Until)
	}
	d.Verdict = policy.Keep
	ranks := []providers.Action{providers.ActionRemove, providers.ActionStop, providers.ActionPause}
	rank := len(ranks)
	for _, p := range t.Policies {
		applies := holds(p.Match) == policy.Yes
		for _, entry := range p.Unless {
			applies = applies && holds(entry) == policy.No
		}
		if applies != p.Applies {
			w.Fatalf("applies %v, by its clauses %v: %+v", p.Applies, applies, p)
		}
		var due time.Time
		var reason policy.Reason
		for _, l := range p.Limits {
			if l.Due.IsZero() != (l.Note != "") || l.Due.IsZero() != (l.From == "") {
				w.Fatalf("neither a deadline nor a reason for none, or both: %+v", l)
			}
			if sooner(l.Due, due) {
				due, reason = l.Due, l.Reason
			}
		}
		switch r := slices.Index(ranks, p.Action.Action); {
		case !applies || due.IsZero():
		case p.Mode == policy.Report:
			if !due.After(t.At) && !kept {
				shadows = append(shadows, policy.Shadow{Policy: p.Name, Reason: reason, Due: later(due, until)})
			}
		case sooner(due, d.Due) || due.Equal(d.Due) && r < rank:
			d.Policy, d.Due, d.Reason, d.Action, rank = p.Name, due, reason, p.Action, r
		}
	}
	switch {
	case kept:
		return policy.Decision{Verdict: policy.Keep}, shadows
	case !d.Due.IsZero() && !d.Due.After(t.At):
		d.Verdict, d.Due = policy.Reclaim, later(d.Due, until)
	default:
		d.Reason, d.Action = "", providers.StopOptions{}
	}
	return d, shadows
}

// holds gives the weakest answer.
func holds(clauses []policy.ClauseTrace) policy.Answer {
	answer := policy.Yes
	for _, c := range clauses {
		if c.Answer == policy.No || c.Answer == policy.CannotSay && answer == policy.Yes {
			answer = c.Answer
		}
	}
	return answer
}

func TestDecisionsAgreeWithThemselves(t *testing.T) {
	kept := []policy.Reason{
		policy.Unmatched, policy.Protected, policy.WithinLimits, policy.UnknownAge, policy.InTransition, policy.NotOwned, policy.Self,
	}
	seen := map[policy.Reason]int{}
	forAll(t, func(w world) {
		s := w.anySet()
		for range sandboxes {
			f := w.facts()
			d := s.Evaluate(f, now)
			seen[d.Reason]++
			i := slices.IndexFunc(s.Policies(), func(p policy.Policy) bool { return p.Name == d.Policy })
			limit := d.Limit
			if d.Verdict == policy.Reclaim {
				limit = d.Reason
			}
			named := i >= 0 && slices.Contains(s.Policies()[i].Reasons, limit) && s.Policies()[i].Mode == policy.Enforce && s.Policies()[i].Action == d.Action
			var ok bool
			switch {
			case d.Verdict == policy.Reclaim:
				ok = named && d.Limit == "" && !d.Due.IsZero() && !d.Due.After(now) && d.Next.IsZero()
			case d.Reason == policy.WithinLimits && !d.Due.IsZero():
				ok = named && d.Due.After(now) && d.Next.Equal(d.Due)
			default:
				ok = slices.Contains(kept, d.Reason) && d.Policy == "" && d.Limit == "" && d.Due.IsZero() && d.Action == (providers.StopOptions{})
			}
			if !ok {
				w.Fatalf("%+v of %s", d, show(f))
			}
			for _, shadow := range d.Shadows {
				if shadow.Due.After(now) || shadow.Due.IsZero() {
					w.Fatalf("%+v of %s", d, show(f))
				}
			}
		}
	})
	for _, r := range policy.Reasons() {
		if seen[r] == 0 {
			t.Logf("these worlds do not know %s: %v", r, seen)
		}
	}
	for _, r := range kept {
		if seen[r] == 0 {
			t.Errorf("the worlds do not know %s: %v", r, seen)
		}
	}
}
