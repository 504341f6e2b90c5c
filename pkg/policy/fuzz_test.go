package policy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
)

// FuzzLoad looks for a file that makes the loader panic, that loads although
// the schema refuses it, or that loads and then judges by ignorance: what is
// wholly unknown must be kept.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", packsDir + "/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("%s: %d seeds, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(rules("match: {tags: {a: '*', b: [x, ''], c: {absent: true}}, names: ['a.*'], images: ['a:*']}, unless: [{states: [paused]}], limits: {ttl: {tag: a, max: 1d}}, mode: report",
		"match: {everything: true, when: 'tag(\"a\") == sandbox.name'}, tag_rules: {require: [a], allow: {b: {pattern: x}}, grace: 0s}, action: {type: remove, grace: 0s, volumes: true}")))
	schema := compiledSchema(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, warnings, err := policy.Load([]policy.File{{Name: "p.yaml", Data: data}}, known)
		if err != nil {
			if s != nil || !strings.HasPrefix(err.Error(), "p.yaml:") {
				t.Errorf("set %v, error %q", s, err)
			}
			return
		}
		for _, w := range warnings {
			if !strings.HasPrefix(w, "p.yaml:") {
				t.Errorf("warning %q", w)
			}
		}
		if v, ok := asJSON(data); ok {
			if err := schema.Validate(v); err != nil {
				t.Errorf("it loads, and the schema says %v", err)
			}
		}
		for _, p := range s.Policies() {
			if p.Name == "" || len(p.Reasons) == 0 || p.Summary == "" || p.Action.Action == "" {
				t.Errorf("a policy that says nothing: %+v", p)
			}
		}
		if d := s.Evaluate(&policy.Facts{}, now); d.Verdict != policy.Keep {
			t.Errorf("what is wholly unknown is reclaimed: %+v", d)
		}
		for _, facts := range []*policy.Facts{running(), overdue("running"), overdue("exited")} {
			trace := s.Explain(facts, now)
			trace.Parts()
		}
	})
}

// FuzzWishes holds whatever stands in a tag against the promise of the limits
// that read it: no deadline before the sandbox came to be, none after max, and
// what cannot be understood has none and is told.
func FuzzWishes(f *testing.F) {
	for _, seed := range []string{
		"", "1d", "0s", "90m", "2h30m", "-1h", "soon", "9999999w", "1d1d", "1w 2d", "2026-03-14T15:00:00Z", "2026-03-14t15:00:00.5+02:00", "2026-03-14T15:00:00-0500",
		"1773500400", "-1", "0", "99999999999999999999", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z", "k", "a/b",
	} {
		f.Add(seed)
	}
	limits := map[policy.Reason]*policy.Set{
		policy.TTLTag:         load(f, rules("match: {everything: true}, limits: {ttl: {tag: wish, max: 2d}}")),
		policy.ExpiresTag:     load(f, rules("match: {everything: true}, limits: {expires: {tag: wish, max: 2d}}")),
		policy.HeartbeatNever: load(f, rules("match: {everything: true}, limits: {heartbeat: {timeout: 2d}}")),
	}
	f.Fuzz(func(t *testing.T, text string) {
		for reason, s := range limits {
			facts := running(func(f *policy.Facts) {
				f.Tags["wish"], f.Tags[policy.LeaseTag], f.Pulse.BlindUntil = text, text, f.Started
			})
			facts.Pulse.FirstSeen = facts.Created
			d := s.Evaluate(facts, now)
			if (len(d.Malformed) > 0) != d.Due.IsZero() || d.Unsaid || d.UnknownAge {
				t.Fatalf("%s, %q: %+v", reason, text, d)
			}
			if d.Due.IsZero() {
				if d.Verdict != policy.Keep {
					t.Fatalf("%s, %q: %+v", reason, text, d)
				}
				continue
			}
			if d.Due.Before(facts.Created) || d.Due.After(facts.Started.Add(2*day)) || !slices.Contains([]policy.Reason{d.Reason, d.Limit}, reason) {
				t.Fatalf("%s, %q: %+v", reason, text, d)
			}
		}
		// Wherever reaperd runs, a text means the same.
		was := time.Local
		time.Local = time.FixedZone("elsewhere", 9*3600)
		there := limits[policy.ExpiresTag].Evaluate(running(func(f *policy.Facts) { f.Tags["wish"] = text }), now)
		time.Local = was
		if here := limits[policy.ExpiresTag].Evaluate(running(func(f *policy.Facts) { f.Tags["wish"] = text }), now); !here.Due.Equal(there.Due) {
			t.Fatalf("%q: %v here, %v there", text, here.Due, there.Due)
		}
	})
}
