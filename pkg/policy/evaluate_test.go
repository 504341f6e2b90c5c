package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestTheFirstThatKeepsIsTheReason(t *testing.T) {
	s := load(t, rules("match: {tags: {env: dev}}"+short)+"protect: [{names: ['keep-.*']}]\n")
	f := running()
	f.Self, f.Owner, f.State, f.Name, f.Tags = true, "swarm", providers.StateChanging, "keep-1", tags()
	for _, step := range []struct {
		want policy.Reason
		next func()
	}{
		{policy.Self, func() { f.Self = false }},
		{policy.NotOwned, func() { f.Owner = "" }},
		{policy.InTransition, func() { f.State = providers.StateUnknown }},
		{policy.InTransition, func() { f.State = "" }},
		{policy.InTransition, func() { f.State = providers.StateRunning }},
		{policy.Protected, func() { f.Tags = tags("env", "dev") }},
		{policy.Protected, func() { f.Name, f.Tags = "sbx-1", tags() }},
		{policy.Unmatched, func() { f.Tags, f.Created = tags("env", "dev"), now }},
		{policy.WithinLimits, func() { f.Created, f.Pulse.FirstSeen = time.Time{}, time.Time{} }},
		{policy.UnknownAge, nil},
	} {
		d := s.Evaluate(f, now)
		if d.Reason != step.want || d.Verdict != policy.Keep {
			t.Fatalf("want %s, got %+v", step.want, d)
		}
		if step.want != policy.WithinLimits && (d.Policy != "" || !d.Due.IsZero() || d.Limit != "" || d.Action != (providers.StopOptions{})) {
			t.Errorf("%s names what will not be done: %+v", step.want, d)
		}
		if step.next != nil {
			step.next()
		}
	}
}

func TestTheEarliestDeadlineDecides(t *testing.T) {
	remove := providers.StopOptions{Action: providers.ActionRemove, Volumes: true}
	s := load(t, rules(
		"match: {tags: {env: dev}}, limits: {max_age: 3h}",
		"match: {names: ['sbx-.*']}, limits: {max_uptime: 2h, max_age: 5h}, action: {type: remove, grace: 0s, volumes: true}",
		"match: {everything: true}, limits: {max_age: 1m}, mode: report",
		"match: {tags: {env: prod}}, limits: {max_age: 1m}",
	))
	f := running()
	due := f.Started.Add(2 * time.Hour)
	shadow := []policy.Shadow{{Policy: "p2", Reason: policy.MaxAge, Due: f.Created.Add(time.Minute)}}
	before := policy.Decision{
		Verdict: policy.Keep, Policy: "p1", Reason: policy.WithinLimits, Limit: policy.MaxUptime,
		Due: due, Next: due, Action: remove, Shadows: shadow,
	}
	if diff := cmp.Diff(before, s.Evaluate(f, due.Add(-1))); diff != "" {
		t.Errorf("before it is due (-want +got):\n%s", diff)
	}
	after := policy.Decision{Verdict: policy.Reclaim, Policy: "p1", Reason: policy.MaxUptime, Due: due, Action: remove, Shadows: shadow}
	for _, later := range []time.Duration{0, time.Hour, 1000 * time.Hour} {
		if diff := cmp.Diff(after, s.Evaluate(f, due.Add(later))); diff != "" {
			t.Errorf("%s after it fell due (-want +got):\n%s", later, diff)
		}
	}
}

func TestEqualDeadlinesRemoveBeforeStopThenInFileOrder(t *testing.T) {
	const (
		stops   = "match: {everything: true}, limits: {max_age: 1m}"
		removes = stops + ", action: {type: remove}"
		pauses  = "match: {everything: true, kinds: [docker]}, limits: {max_age: 1m}, action: {type: pause}"
	)
	for name, tc := range map[string]struct {
		bodies []string
		want   string
	}{
		"two stops":             {[]string{stops, stops}, "p0"},
		"pause before stop":     {[]string{pauses, stops}, "p1"},
		"pause before remove":   {[]string{pauses, removes}, "p1"},
		"pause, stop, remove":   {[]string{pauses, stops, removes}, "p2"},
		"two pauses":            {[]string{pauses, pauses}, "p0"},
		"two removes":           {[]string{removes, removes}, "p0"},
		"stop, remove":          {[]string{stops, removes}, "p1"},
		"remove, stop":          {[]string{removes, stops}, "p0"},
		"stop, remove, remove":  {[]string{stops, removes, removes}, "p1"},
		"an earlier stop first": {[]string{removes, "match: {everything: true}, limits: {max_age: 59s}"}, "p1"},
	} {
		if d := load(t, rules(tc.bodies...)).Evaluate(running(), now); d.Policy != tc.want {
			t.Errorf("%s: %s decides", name, d.Policy)
		}
	}
	// Within one policy: in the order in which the limits are documented.
	one := load(t, rules("match: {everything: true}, limits: {ttl: {tag: life, max: 2h}, max_age: 2h, max_uptime: 2h}, tag_rules: {require: [owner], grace: 2h}"))
	f := running(func(f *policy.Facts) { f.Tags["life"], f.Started = "3h", f.Created })
	if d := one.Evaluate(f, now); d.Limit != policy.MaxUptime {
		t.Errorf("%+v", d)
	}
}

func TestASatisfiedActionHidesNothing(t *testing.T) {
	s := load(t, rules(
		"match: {everything: true}, limits: {max_age: 1m, ttl: {tag: life, max: 1d}}",
		"match: {everything: true}, limits: {max_age: 3h}, action: {type: remove}",
	))
	f := running(func(f *policy.Facts) { f.State, f.Tags["life"] = providers.StateExited, "soon" })
	if d := s.Evaluate(f, now); d.Policy != "p1" || d.Reason != policy.WithinLimits || d.Malformed != nil {
		t.Errorf("%+v", d)
	}
	alone := load(t, rules("match: {everything: true}, limits: {max_age: 1m}"))
	want := policy.Decision{Verdict: policy.Keep, Reason: policy.WithinLimits}
	if diff := cmp.Diff(want, alone.Evaluate(f, now)); diff != "" {
		t.Errorf("nothing left to do (-want +got):\n%s", diff)
	}
}

func TestReportModeIsJudgedApart(t *testing.T) {
	const reports = ", mode: report"
	all := "match: {everything: true}"
	f := running()
	for name, tc := range map[string]struct {
		file    string
		shadows int
	}{
		"due":           {rules(all + short + reports), 1},
		"not due":       {rules(all + ", limits: {max_age: 1d}" + reports), 0},
		"two":           {rules(all+short+reports, all+", limits: {max_age: 1d}"+reports, all+", limits: {max_uptime: 60m}"+reports), 2},
		"protected":     {rules(all+short+reports) + "protect: [{tags: {env: dev}}]\n", 0},
		"protected yet": {rules(all+short+reports) + "protect: [{tags: {env: dev}, for: 2h}]\n", 0},
		"spared":        {rules(all + short + reports + ", unless: [{tags: {env: dev}}]"), 0},
	} {
		d := load(t, tc.file).Evaluate(f, now)
		if len(d.Shadows) != tc.shadows || d.Verdict != policy.Keep || !d.Due.IsZero() || !d.Next.IsZero() {
			t.Errorf("%s: %+v", name, d)
		}
	}
	expired := load(t, rules(all+short+reports)+"protect: [{tags: {env: dev}, for: 30m}]\n").Evaluate(f, now)
	if len(expired.Shadows) != 1 || !expired.Shadows[0].Due.Equal(f.Created.Add(30*time.Minute)) {
		t.Errorf("after a protection: %+v", expired)
	}
}

func TestBoundedProtection(t *testing.T) {
	const policies = "match: {everything: true}, limits: {max_age: 2h}"
	f := running()
	at := func(age time.Duration) time.Time { return f.Created.Add(age) }
	for name, tc := range map[string]struct {
		protect string
		age     time.Duration
		want    policy.Decision
	}{
		"over before the limit": {
			"{everything: true, for: 1h}", 90 * time.Minute,
			policy.Decision{Verdict: policy.Keep, Policy: "p0", Reason: policy.WithinLimits, Limit: policy.MaxAge, Action: stop, Due: at(2 * time.Hour), Next: at(2 * time.Hour)},
		},
		"holds, the limit is later": {
			"{everything: true, for: 1h}", 30 * time.Minute,
			policy.Decision{Verdict: policy.Keep, Reason: policy.Protected, Next: at(2 * time.Hour)},
		},
		"holds past the limit": {
			"{everything: true, for: 3h}", 150 * time.Minute,
			policy.Decision{Verdict: policy.Keep, Reason: policy.Protected, Next: at(3 * time.Hour)},
		},
		"ends, and then it falls due": {
			"{everything: true, for: 3h}", 3 * time.Hour,
			policy.Decision{Verdict: policy.Reclaim, Policy: "p0", Reason: policy.MaxAge, Action: stop, Due: at(3 * time.Hour)},
		},
		"the longest of several counts": {
			"{everything: true, for: 3h}, {tags: {env: dev}, for: 4h}, {tags: {env: prod}, for: 9h}", 3 * time.Hour,
			policy.Decision{Verdict: policy.Keep, Reason: policy.Protected, Next: at(4 * time.Hour)},
		},
		"an unbounded one beside it": {
			"{everything: true, for: 3h}, {tags: {env: dev}}", 5 * time.Hour,
			policy.Decision{Verdict: policy.Keep, Reason: policy.Protected},
		},
	} {
		d := load(t, rules(policies)+"protect: ["+tc.protect+"]\n").Evaluate(f, at(tc.age))
		if diff := cmp.Diff(tc.want, d); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	s := load(t, rules(policies)+"protect: [{everything: true, for: 3h}]\n")
	ageless := running(func(f *policy.Facts) { f.Created = time.Time{} })
	if d := s.Evaluate(ageless, ageless.Pulse.FirstSeen.Add(3*time.Hour-1)); d.Reason != policy.Protected {
		t.Errorf("without an age it counts from first seen: %+v", d)
	}
	if d := s.Evaluate(ageless, ageless.Pulse.FirstSeen.Add(3*time.Hour)); d.Verdict != policy.Reclaim {
		t.Errorf("without an age it counts from first seen: %+v", d)
	}
	ageless.Pulse.FirstSeen = time.Time{}
	if d := s.Evaluate(ageless, now); d.Reason != policy.Protected || !d.UnknownAge {
		t.Errorf("an age that cannot be told is not over: %+v", d)
	}
	hidden := running(func(f *policy.Facts) { f.Tags = nil })
	for protect, want := range map[string]policy.Reason{
		"{tags: {keep: yes}}":          policy.Unmatched,
		"{tags: {keep: yes}, for: 3h}": policy.Unmatched,
		"{everything: true, for: 3h}":  policy.Protected,
		"{everything: true, for: 1m}":  policy.Unmatched,
	} {
		d := load(t, rules("match: {tags: {env: dev}}"+short)+"protect: ["+protect+"]\n").Evaluate(hidden, now)
		if d.Reason != want || d.Verdict != policy.Keep {
			t.Errorf("%s of what may be protected and no policy matches: %+v", protect, d)
		}
	}
	unmatched := load(t, "version: 1\nprotect: [{everything: true, for: 3h}]\n").Evaluate(f, now)
	if unmatched.Reason != policy.Protected || !unmatched.Next.IsZero() {
		t.Errorf("nothing will ever take it: %+v", unmatched)
	}
}

// A time in the future is not believed until it has come: that moment can
// change the verdict, and so is the next to look at.
func TestATimeInTheFutureIsJudgedAnewWhenItComes(t *testing.T) {
	s := load(t, rules("match: {everything: true}, limits: {max_age: 2h}"))
	f := running(func(f *policy.Facts) { f.Created = now.Add(30 * time.Minute) })
	if d := s.Evaluate(f, now); !d.Next.Equal(f.Created) || !d.Due.Equal(f.Pulse.FirstSeen.Add(2*time.Hour)) {
		t.Errorf("%+v", d)
	}
	if d := s.Evaluate(f, f.Created); d.UnknownAge || !d.Due.Equal(f.Created.Add(2*time.Hour)) {
		t.Errorf("%+v", d)
	}
}

func TestAProtectionBoundByATimeInTheFuture(t *testing.T) {
	policies := rules("match: {everything: true}, limits: {max_uptime: 1m}")
	f := running(func(f *policy.Facts) { f.Created, f.Pulse.FirstSeen = now.Add(time.Hour), now.Add(2*time.Hour) })
	bounded := load(t, policies+"protect: [{everything: true, for: 30m}]\n")
	if d := bounded.Evaluate(f, now); d.Reason != policy.Protected || !d.Next.Equal(f.Created) {
		t.Errorf("until creation can be believed: %+v", d)
	}
	if d := bounded.Evaluate(f, f.Created.Add(30*time.Minute)); d.Verdict != policy.Reclaim {
		t.Errorf("once it can: %+v", d)
	}
	unbounded := load(t, policies+"protect: [{tags: {env: dev}}, {everything: true, for: 30m}]\n")
	if d := unbounded.Evaluate(f, now); d.Reason != policy.Protected || !d.Next.IsZero() {
		t.Errorf("beside an unbounded one: %+v", d)
	}
}

func TestUnknownAgeIsToldWhoeverAsked(t *testing.T) {
	f := running(func(f *policy.Facts) { f.Created = time.Time{} })
	for body, want := range map[string]bool{
		rules("match: {everything: true}, limits: {max_age: 1d}"):                 true,
		rules("match: {everything: true}, limits: {max_age: 1d}, mode: report"):   true,
		"version: 1\nprotect: [{everything: true, for: 1d}]\n":                    true,
		"version: 1\nprotect: [{everything: true}]\n":                             false,
		rules("match: {everything: true}, limits: {max_uptime: 1d}"):              false,
		rules("match: {everything: true}, limits: {ttl: {tag: absent, max: 1d}}"): false,
		rules("match: {tags: {env: prod}}, limits: {max_age: 1d}"):                false,
	} {
		if d := load(t, body).Evaluate(f, now); d.UnknownAge != want {
			t.Errorf("%s: %+v", body, d)
		}
	}
}

func TestPlanKeepsTheOrderAndReclaimsTheLongestOverdueFirst(t *testing.T) {
	s := load(t, rules("match: {tags: {env: dev}}, limits: {max_age: 30m}"))
	var facts []policy.Facts
	for i, age := range []time.Duration{40 * time.Minute, 10 * time.Minute, 2 * day, 35 * time.Minute, 2 * day} {
		facts = append(facts, *running(func(f *policy.Facts) { f.ID, f.Created = string(rune('a'+i)), ago(age) }))
	}
	p := policy.NewPlan(s, facts, now)
	order := func(items []policy.Item) (ids string) {
		for _, item := range items {
			ids += item.Facts.ID
		}
		return ids
	}
	if got := order(p.Items); got != "abcde" || !p.At.Equal(now) {
		t.Errorf("items %s at %s", got, p.At)
	}
	if got := order(p.Reclaim()); got != "cead" {
		t.Errorf("reclaim %s", got)
	}
	if empty := policy.NewPlan(s, nil, now); len(empty.Items) != 0 || len(empty.Reclaim()) != 0 {
		t.Errorf("%+v", empty)
	}
}

// TestALadderOfPauseAndRemove: what is paused satisfies the policy that pauses,
// which hides the other no longer.
func TestALadderOfPauseAndRemove(t *testing.T) {
	s := load(t, rules(
		"match: {everything: true, kinds: [docker]}, limits: {max_uptime: 30m}, action: {type: pause}",
		"match: {everything: true}, limits: {max_paused: 7d}, action: {type: remove}",
	))
	f := running()
	d := s.Evaluate(f, now)
	if d.Verdict != policy.Reclaim || d.Policy != "p0" || d.Action != (providers.StopOptions{Action: providers.ActionPause}) {
		t.Errorf("running: %+v", d)
	}
	f.State, f.PausedSince = providers.StatePaused, now
	if d = s.Evaluate(f, now); d.Verdict != policy.Keep || d.Policy != "p1" || !d.Due.Equal(now.Add(7*day)) {
		t.Errorf("paused: %+v", d)
	}
	if d = s.Evaluate(f, now.Add(7*day)); d.Verdict != policy.Reclaim || d.Reason != policy.MaxPaused || d.Action.Action != providers.ActionRemove {
		t.Errorf("paused for a week: %+v", d)
	}
}
