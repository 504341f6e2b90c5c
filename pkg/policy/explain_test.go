package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestExplainTellsEverythingThatWentIntoADecision(t *testing.T) {
	s := load(t, `version: 1
protect:
  - {tags: {keep: "*"}, for: 3d}
policies:
  - name: a
    match:
      tags: {env: [prod, dev], empty: ""}
      names: ['sbx-.*']
    unless:
      - kinds: [process]
        states: [paused]
    limits:
      max_uptime: 4h
      ttl: {tag: life, max: 1d}
    tag_rules:
      require: [owner]
  - name: b
    match: {everything: true, providers: [local]}
    limits: {max_age: 1m}
    mode: report
`)
	f := running(func(f *policy.Facts) { f.Tags["keep"], f.Created = "x", ago(4*day) })
	got := s.Explain(f, now)
	want := policy.Trace{
		At: now, Decision: s.Evaluate(f, now),
		Protections: []policy.ProtectionTrace{{
			Source: "p.yaml:3", Until: ago(day),
			Clauses: []policy.ClauseTrace{{Key: "tags.keep", Line: 3, Wants: "any value", Saw: "x", Answer: policy.Yes}},
		}},
		Policies: []policy.PolicyTrace{
			{
				Name: "a", Source: "p.yaml:5", Mode: policy.Enforce, Action: stop, Applies: true,
				Match: []policy.ClauseTrace{
					{Key: "tags.empty", Line: 7, Wants: `""`, Saw: `""`, Answer: policy.Yes},
					{Key: "tags.env", Line: 7, Wants: "prod or dev", Saw: "dev", Answer: policy.Yes},
					{Key: "names", Line: 8, Wants: "sbx-.*", Saw: "sbx-1", Answer: policy.Yes},
				},
				Unless: [][]policy.ClauseTrace{{
					{Key: "kinds", Line: 10, Wants: "process", Saw: "docker", Answer: policy.No},
					{Key: "states", Line: 11, Wants: "paused", Saw: "running", Answer: policy.No},
				}},
				Limits: []policy.LimitTrace{
					{Key: "limits.max_uptime", Line: 13, Reason: policy.MaxUptime, Wants: "at most 4h up", From: "started", Since: ago(time.Hour), Due: ago(-3 * time.Hour)},
					{Key: "limits.ttl", Line: 14, Reason: policy.TTLTag, Wants: "as long as its tag life says, at most 1d", Note: "the tag is absent"},
					{Key: "tag_rules.require", Line: 16, Reason: policy.TagMissing, Wants: "tagged owner within 10m", From: "created", Since: ago(4 * day), Due: ago(4*day - 10*time.Minute)},
				},
			},
			{
				Name: "b", Source: "p.yaml:17", Mode: policy.Report, Action: stop,
				Match: []policy.ClauseTrace{
					{Key: "everything", Line: 18, Wants: "true", Answer: policy.Yes},
					{Key: "providers", Line: 18, Wants: "local", Saw: "dev", Answer: policy.No},
				},
				Limits: []policy.LimitTrace{
					{Key: "limits.max_age", Line: 19, Reason: policy.MaxAge, Wants: "at most 1m old", From: "created", Since: ago(4 * day), Due: ago(4*day - time.Minute)},
				},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	reached := map[string]bool{}
	for _, p := range got.Parts() {
		reached[p.ID] = p.Reached
	}
	wantParts := map[string]bool{
		"p.yaml:3: protect[0].tags.keep": false,
		"p.yaml:5: a":                    true,
		"p.yaml:5: a: match.tags.empty":  true,
		"p.yaml:5: a: match.tags.env":    true,
		"p.yaml:5: a: match.names":       true,
		"p.yaml:5: a: unless[0].kinds":   false,
		"p.yaml:5: a: unless[0].states":  false,
		"p.yaml:5: a: limits.max_uptime": false,
		"p.yaml:5: a: limits.ttl":        false,
		"p.yaml:5: a: tag_rules.require": true,
		"p.yaml:17: b":                   false,
		"p.yaml:17: b: match.everything": true,
		"p.yaml:17: b: match.providers":  false,
		"p.yaml:17: b: limits.max_age":   false,
	}
	if diff := cmp.Diff(wantParts, reached); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExplainSaysWhyALimitHasNoDeadline(t *testing.T) {
	s := load(t, rules(`match: {everything: true}, limits: {max_uptime: 4h, ttl: {tag: life, max: 1d}}, tag_rules: {require: [env]}`))
	for name, tc := range map[string]struct {
		change func(*policy.Facts)
		want   [3]string
	}{
		"running":   {func(*policy.Facts) {}, [3]string{"", "the tag is absent", "the tags are as they shall be"}},
		"created":   {func(f *policy.Facts) { f.State = providers.StateCreated }, [3]string{"not judged in state created", "the tag is absent", "the tags are as they shall be"}},
		"suspended": {func(f *policy.Facts) { f.State = providers.StateSuspended }, [3]string{"not judged in state suspended", "not judged in state suspended", "not judged in state suspended"}},
		"exited":    {func(f *policy.Facts) { f.State, f.Tags["life"] = providers.StateExited, "1h" }, [3]string{"not judged in state exited", "to stop it would change nothing", "the tags are as they shall be"}},
		"no tags":   {func(f *policy.Facts) { f.Tags = nil }, [3]string{"", "the tags cannot be said", "the tags cannot be said"}},
		"no time": {func(f *policy.Facts) {
			f.Started, f.Pulse.FirstSeen, f.Tags["life"] = time.Time{}, time.Time{}, "soon"
		}, [3]string{"no time to count from", "the tag cannot be understood", "the tags are as they shall be"}},
	} {
		var got [3]string
		for i, l := range s.Explain(running(tc.change), now).Policies[0].Limits {
			got[i] = l.Note
			if (l.Note == "") == l.Due.IsZero() {
				t.Errorf("%s: %+v", name, l)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestNoPoliciesExplainNothing(t *testing.T) {
	var s *policy.Set
	if got := s.Explain(running(), now); got.Decision.Reason != policy.Unmatched || len(got.Parts()) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestPartsHaveIDsOfTheirOwn also where all stands on one line.
func TestPartsHaveIDsOfTheirOwn(t *testing.T) {
	s := load(t, `{version: 1, protect: [{names: [a]}, {names: [b]}], policies: [
  {name: x, match: {names: [a]}, unless: [{names: [b]}, {names: [c]}], limits: {max_age: 1d}}, {name: y, match: {names: [a]}, limits: {max_age: 1d}}]}`)
	trace := s.Explain(running(), now)
	seen := map[string]bool{}
	for _, p := range trace.Parts() {
		if seen[p.ID] {
			t.Errorf("%s twice", p.ID)
		}
		seen[p.ID] = true
	}
	if len(seen) != 10 {
		t.Errorf("%v", seen)
	}
}
