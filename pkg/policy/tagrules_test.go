package policy_test

import (
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
)

func TestTagRules(t *testing.T) {
	for rule, cases := range map[string]map[policy.Reason][]map[string]string{
		"require: [owner, team]": {
			policy.TagMissing:   {tags(), tags("owner", "ann"), tags("Owner", "ann", "TEAM", "x")},
			policy.WithinLimits: {tags("owner", "ann", "team", "x"), tags("owner", "", "team", ""), nil},
		},
		"allow: {env: [dev, ci], team: {pattern: '[a-z]+-[0-9]+'}, ok: ''}": {
			policy.TagNotAllowed: {tags("env", "prod"), tags("env", ""), tags("env", "DEV"), tags("env", "dev", "team", "x"), tags("team", "a-1 "), tags("team", "xa-1x"), tags("ok", "x")},
			policy.WithinLimits:  {tags(), tags("env", "dev"), tags("env", "ci", "team", "abc-12", "ok", ""), tags("Env", "prod"), nil},
		},
		"allow: {env: dev}": {
			policy.TagNotAllowed: {tags("env", "ci")},
			policy.WithinLimits:  {tags("env", "dev"), nil},
		},
		"forbid: [reaperd.immortal, other]": {
			policy.TagForbidden: {tags("reaperd.immortal", ""), tags("other", "x")},
			policy.WithinLimits: {tags(), tags("reaperd", "immortal"), nil},
		},
		// Equal deadlines: missing before not allowed before forbidden.
		"require: [owner], allow: {env: dev}, forbid: [env]": {
			policy.TagMissing:    {tags("env", "prod")},
			policy.TagNotAllowed: {tags("env", "prod", "owner", "")},
			policy.TagForbidden:  {tags("env", "dev", "owner", "")},
			policy.WithinLimits:  {tags("owner", ""), nil},
		},
	} {
		s := load(t, rules("match: {everything: true}, tag_rules: {"+rule+", grace: 5m}"))
		for want, all := range cases {
			for _, has := range all {
				f := running(func(f *policy.Facts) { f.Tags = has })
				d := s.Evaluate(f, now)
				if d.Reason != want || (d.Verdict == policy.Reclaim) != (want != policy.WithinLimits) {
					t.Errorf("%s, tags %v: %+v", rule, has, d)
				}
				if want == policy.WithinLimits {
					continue
				}
				f.Created = ago(time.Minute)
				if d = s.Evaluate(f, now); d.Verdict != policy.Keep || d.Limit != want || !d.Due.Equal(ago(-4*time.Minute)) {
					t.Errorf("%s, tags %v, which it may still change: %+v", rule, has, d)
				}
			}
		}
	}
}
