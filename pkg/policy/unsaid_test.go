package policy_test

import (
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// overdue has overstepped every limit there is.
func overdue(state providers.State) *policy.Facts {
	return running(func(f *policy.Facts) {
		f.State, f.Image = state, "python:3"
		f.Tags["life"], f.Tags["until"], f.Tags["n"] = "1m", "2026-03-14T11:30:00Z", "sbx-1"
		f.LastActive, f.Ended, f.PausedSince = ago(time.Hour), ago(time.Hour), ago(time.Hour)
		f.Pulse.StateSince, f.Pulse.LastBeat, f.Pulse.BlindUntil = ago(time.Hour), ago(50*time.Minute), ago(55*time.Minute)
	})
}

var everyLimit = map[policy.Reason]string{
	policy.MaxUptime: "limits: {max_uptime: 1m}", policy.MaxAge: "limits: {max_age: 1m}", policy.MaxIdle: "limits: {max_idle: 1m}",
	policy.MaxStopped: "limits: {max_stopped: 1m}", policy.MaxPaused: "limits: {max_paused: 1m}",
	policy.TTLTag: "limits: {ttl: {tag: life, max: 1d}}", policy.ExpiresTag: "limits: {expires: {tag: until, max: 1d}}",
	policy.HeartbeatLost: "limits: {heartbeat: {timeout: 1m}}",
	policy.TagMissing:    "tag_rules: {require: [absent], grace: 0s}", policy.TagNotAllowed: "tag_rules: {allow: {n: x}, grace: 0s}",
	policy.TagForbidden: "tag_rules: {forbid: [n], grace: 0s}",
}

// TestWhatIsUnsaidKeepsUnderEveryLimit: for every clause whose input the provider did not
// give, under every limit and in every state, in match, unless and protect.
func TestWhatIsUnsaidKeepsUnderEveryLimit(t *testing.T) {
	noTags := func(f *policy.Facts) { f.Tags = nil }
	for _, clause := range []struct {
		hit, miss string // on overdue
		unsay     func(f *policy.Facts)
	}{
		{"tags: {env: dev}", "tags: {env: prod}", noTags},
		{"tags: {env: [dev, x]}", "tags: {env: [x]}", noTags},
		{"tags: {env: '*'}", "tags: {absent: '*'}", noTags},
		{"tags: {env: {pattern: 'd.*'}}", "tags: {env: {pattern: 'p.*'}}", noTags},
		{"tags: {n: sbx-1, absent: {absent: true}}", "tags: {n: sbx-1, env: {absent: true}}", noTags},
		{"names: ['sbx-.*']", "names: [x]", func(f *policy.Facts) { f.Name = "" }},
		{"images: ['python:*']", "images: ['ruby:*']", func(f *policy.Facts) { f.Image = "" }},
		{"images: ['python:3']", "images: ['python:2']", func(f *policy.Facts) { f.Image = "python@sha256:00" }},
		{"images: [python, 'python:3']", "images: [ruby]", func(f *policy.Facts) { f.Image = "sha256:00" }},
		{"names: ['.*'], kinds: [docker]", "names: ['.*'], kinds: [process]", func(f *policy.Facts) { f.Kind = "" }},
		{"names: ['.*'], providers: [dev]", "names: ['.*'], providers: [local]", func(f *policy.Facts) { f.Provider = "" }},
		{`when: 'tag("n") == sandbox.name'`, `when: 'tag("n") == sandbox.id'`, noTags},
		{`when: 'sandbox.name != "x"'`, `when: 'sandbox.name == "x"'`, func(f *policy.Facts) { f.Name = "" }},
		{`when: 'sandbox.tags.n != "x"'`, `when: 'sandbox.tags.n == "x"'`, func(f *policy.Facts) { f.Tags = tags("env", "dev") }},
	} {
		for reason, limit := range everyLimit {
			tail := ", " + limit + ", action: {type: remove}"
			match := load(t, rules("match: {"+clause.hit+"}"+tail))
			unless := load(t, rules("match: {everything: true}, unless: [{"+clause.miss+"}]"+tail))
			protect := load(t, rules("match: {everything: true}"+tail)+"protect: [{"+clause.miss+"}]\n")
			reclaimed := false
			for _, state := range providers.States() {
				f := overdue(state)
				is := match.Evaluate(f, now)
				for _, s := range []*policy.Set{unless, protect} {
					if d := s.Evaluate(f, now); d.Verdict != is.Verdict || d.Reason != is.Reason || d.Unsaid {
						t.Errorf("%s against %s, %s in %s: %+v, %+v", clause.hit, clause.miss, limit, state, is, d)
					}
				}
				reclaimed = reclaimed || is.Reason == reason
				clause.unsay(f)
				for where, s := range map[string]*policy.Set{"match": match, "unless": unless, "protect": protect} {
					d := s.Evaluate(f, now)
					judged := d.Reason != policy.InTransition
					if d.Verdict != policy.Keep || d.Unsaid != judged {
						t.Errorf("%s in %s, unsaid, %s in %s: %+v", clause.hit, where, limit, state, d)
					}
					if where == "protect" && judged && d.Reason != policy.Protected || where != "protect" && judged && d.Reason != policy.Unmatched {
						t.Errorf("%s in %s, unsaid, %s in %s: reason %s", clause.hit, where, limit, state, d.Reason)
					}
				}
			}
			if !reclaimed {
				t.Errorf("%s: %s reclaims in no state", clause.hit, limit)
			}
		}
	}
}

// TestRulesOnTagsThatAreNotTold: neither wishes nor rules are read into
// tags that the provider did not tell.
func TestRulesOnTagsThatAreNotTold(t *testing.T) {
	for reason, limit := range everyLimit {
		s := load(t, rules("match: {everything: true}, "+limit+", action: {type: remove}"))
		f := overdue(providers.StateRunning)
		f.Tags = nil
		d := s.Evaluate(f, now)
		reads := reason == policy.TTLTag || reason == policy.ExpiresTag || reason == policy.TagMissing || reason == policy.TagNotAllowed || reason == policy.TagForbidden
		if d.Unsaid != reads || reads && d.Verdict != policy.Keep {
			t.Errorf("%s: %+v", limit, d)
		}
	}
}

// TestUnsaidIsToldOnlyWhereItMayMatter: not of a policy that another clause
// rules out, nor where a surely hitting entry spares anyway.
func TestUnsaidIsToldOnlyWhereItMayMatter(t *testing.T) {
	for body, want := range map[string]bool{
		"match: {tags: {env: dev}}" + short:                                                           true,
		"match: {tags: {env: dev}, names: [x]}" + short:                                               false,
		"match: {tags: {env: dev}}, mode: report" + short:                                             true,
		"match: {names: ['sbx-.*']}, unless: [{tags: {env: prod}}]" + short:                           true,
		"match: {names: ['sbx-.*']}, unless: [{tags: {env: prod}}, {kinds: [docker]}]" + short:        false,
		"match: {names: ['sbx-.*']}, unless: [{tags: {env: prod}, kinds: [process]}]" + short:         false,
		"match: {names: [x]}, unless: [{tags: {env: prod}}]" + short:                                  false,
		"match: {names: ['sbx-.*']}, limits: {max_age: 1m, heartbeat: {timeout: 1m}}":                 true,
		"match: {names: ['sbx-.*']}, limits: {max_age: 1m, heartbeat: {timeout: 1m, required: true}}": false,
	} {
		f := running(func(f *policy.Facts) { f.Tags, f.Pulse.BlindUntil = nil, ago(time.Hour) })
		if d := load(t, rules(body)).Evaluate(f, now); d.Unsaid != want {
			t.Errorf("%s: %+v", body, d)
		}
	}
}
