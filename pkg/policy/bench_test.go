package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reaperd/reaperd/pkg/policy"
)

// twentyTagPolicies differ by key or by value; one of them hits a running().
func twentyTagPolicies(t testing.TB) *policy.Set {
	var b strings.Builder
	b.WriteString("version: 1\npolicies:\n")
	for i := range 20 {
		key, value := fmt.Sprintf("team-%d", i%10), fmt.Sprintf("value-%d", i)
		if i == 13 {
			key, value = "env", "dev"
		}
		fmt.Fprintf(&b, "  - {name: p%d, match: {tags: {%s: %s}}, limits: {max_uptime: 4h, max_age: 2d}}\n", i, key, value)
	}
	return load(t, b.String())
}

func taggedLikeACompany() *policy.Facts {
	return running(func(f *policy.Facts) {
		f.Tags = map[string]string{"env": "dev", "owner": "ann", "project": "x", "team-3": "other", "com.example.build": "1", "version": "1.2"}
	})
}

func BenchmarkEvaluate(b *testing.B) { evaluate(b, twentyTagPolicies(b)) }

// evaluate measures a set of which the policy p13 hits.
func evaluate(b *testing.B, s *policy.Set) {
	f := taggedLikeACompany()
	if d := s.Evaluate(f, now); d.Reason != policy.WithinLimits || d.Policy != "p13" {
		b.Fatalf("%+v", d)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		s.Evaluate(f, now)
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "evaluations/s")
}

func BenchmarkLoad1000(b *testing.B) {
	var text strings.Builder
	text.WriteString("version: 1\npolicies:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "  - name: p%d\n    match: {tags: {team: t%d}, names: ['sbx-%d-[0-9a-f]{12}'], when: 'sandbox.name == \"sbx-%d-\" + tag(\"id\")'}\n    limits: {max_uptime: 4h}\n", i, i, i, i)
	}
	files := []policy.File{{Name: "p.yaml", Data: []byte(text.String())}}
	for b.Loop() {
		if _, _, err := policy.Load(files, known); err != nil {
			b.Fatal(err)
		}
	}
}

func TestKeepingAllocatesNothing(t *testing.T) {
	s := twentyTagPolicies(t)
	protected := load(t, "version: 1\nprotect: [{tags: {env: dev}}]\n")
	ttl := load(t, rules(`match: {tags: {env: dev}}, limits: {ttl: {tag: life, max: 1d}}`))
	unmatched := taggedLikeACompany()
	unmatched.Tags = map[string]string{}
	wishing := running(func(f *policy.Facts) { f.Tags["life"] = "2h30m" })
	for name, tc := range map[string]struct {
		set    *policy.Set
		facts  *policy.Facts
		reason policy.Reason
	}{
		"within limits": {s, taggedLikeACompany(), policy.WithinLimits},
		"unmatched":     {s, unmatched, policy.Unmatched},
		"protected":     {protected, running(), policy.Protected},
		"ttl":           {ttl, wishing, policy.WithinLimits},
	} {
		var d policy.Decision
		if got := testing.AllocsPerRun(100, func() { d = tc.set.Evaluate(tc.facts, now) }); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
		if d.Reason != tc.reason {
			t.Errorf("%s: reason %s", name, d.Reason)
		}
	}
}

// celPolicies are twenty, each with an expression; one of them hits. In
// practice tags decide first.
func celPolicies(b testing.TB, expression string, tags bool) *policy.Set {
	var text strings.Builder
	text.WriteString("version: 1\npolicies:\n")
	for i := range 20 {
		value := fmt.Sprintf("value-%d", i)
		if i == 13 {
			value = "dev"
		}
		match := "when: '" + fmt.Sprintf(expression, value) + "'"
		if tags {
			match += ", tags: {env: " + value + "}"
		}
		fmt.Fprintf(&text, "  - {name: p%d, match: {%s}, limits: {max_uptime: 4h, max_age: 2d}}\n", i, match)
	}
	return load(b, text.String())
}

func BenchmarkEvaluateCEL(b *testing.B) {
	const comparison, conjunction = `tag("env") == "%s"`, `sandbox.name.startsWith("sbx-") && tag("env") == "%s"`
	for _, bc := range []struct {
		name, expression string
		tags             bool
	}{
		{"after tags", conjunction, true},
		{"alone", comparison, false},
		{"alone, two conditions", conjunction, false},
	} {
		b.Run(bc.name, func(b *testing.B) { evaluate(b, celPolicies(b, bc.expression, bc.tags)) })
	}
}
