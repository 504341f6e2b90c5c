package policy_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

var update = flag.Bool("update", false, "write the golden files anew")

// now is the instant at which tests judge.
var now = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

const day = 24 * time.Hour

// stop is the action of a policy that names none.
var stop = providers.StopOptions{Action: providers.ActionStop, Grace: 10 * time.Second}

var known = policy.Known{Kinds: []string{"docker", "process"}, Providers: []string{"dev", "local"}, Pauses: []string{"docker"}}

// load compiles one file and fails the test on a fault.
func load(t testing.TB, text string) *policy.Set {
	t.Helper()
	s, _, err := policy.Load([]policy.File{{Name: "p.yaml", Data: []byte(text)}}, known)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	return s
}

// rules makes a file of policies, each given by what follows its name.
func rules(bodies ...string) string {
	var b strings.Builder
	b.WriteString("version: 1\npolicies:\n")
	for i, body := range bodies {
		b.WriteString("  - {name: p" + string(rune('0'+i)) + ", " + body + "}\n")
	}
	return b.String()
}

// running is a sandbox that started an hour ago, a minute after it was
// created, and was seen at once.
func running(change ...func(*policy.Facts)) *policy.Facts {
	f := &policy.Facts{
		Sandbox: providers.Sandbox{
			Ref: providers.Ref{Provider: "dev", ID: "c0ffee"}, Kind: "docker", Name: "sbx-1", State: providers.StateRunning,
			Tags:    map[string]string{"env": "dev", "empty": ""},
			Created: ago(61 * time.Minute), Started: ago(60 * time.Minute),
		},
		Pulse: policy.Pulse{FirstSeen: ago(59 * time.Minute)},
	}
	for _, c := range change {
		c(f)
	}
	return f
}

func TestPoliciesTellTheirEffectiveValues(t *testing.T) {
	s := load(t, `
version: 1
policies:
  - name: plain
    match: {tags: {env: [dev, ""], team: "*"}}
    limits: {max_uptime: 90m}
  - name: full
    match: {everything: true, kinds: [docker], providers: [dev], names: ['a-.*', b], states: [running, exited]}
    unless: [{tags: {keep: "yes"}}, {kinds: [process], states: [paused]}]
    limits: {max_uptime: 4h, max_age: 2d, ttl: {tag: reaperd.ttl, max: 36h}}
    tag_rules: {require: [owner, team], grace: 0s}
    action: {type: remove, grace: 0s, volumes: true}
    mode: report
  - name: all
    match: {everything: true}
    tag_rules: {require: [owner]}
  - name: rest
    match:
      kinds: [docker]
      tags: {a: {absent: true}, b: {pattern: 'x+'}}
      images: [docker.io/library/python, 'acme/*:*']
      when: 'tag("c") == sandbox.name'
    limits:
      heartbeat: {timeout: 5m, required: true}
      expires: {tag: until, max: 2d}
      max_paused: 7d
      max_stopped: 1h
      max_idle: 30m
    tag_rules: {forbid: [y, z], allow: {env: [dev, ""], team: {pattern: '[a-z]+'}}, grace: 5m}
    action: {type: remove}
  - name: paused
    match: {tags: {env: dev}, kinds: [docker]}
    limits: {heartbeat: {timeout: 5m}}
    action: {type: pause}
`)
	want := []policy.Policy{
		{
			Name: "plain", Source: "p.yaml:4", Mode: policy.Enforce, Reasons: []policy.Reason{policy.MaxUptime},
			Action:  providers.StopOptions{Action: providers.ActionStop, Grace: 10 * time.Second},
			Summary: `tag env=dev or env="", tag team: at most 1h30m up; stop with 10s of grace`,
		},
		{
			Name: "full", Source: "p.yaml:7", Mode: policy.Report,
			Reasons: []policy.Reason{policy.MaxUptime, policy.MaxAge, policy.TTLTag, policy.TagMissing},
			Action:  providers.StopOptions{Action: providers.ActionRemove, Volumes: true},
			Summary: "kind docker, on dev, named a-.* or b, that is running or exited, unless tag keep=yes, unless kind process, that is paused: " +
				"at most 4h up, at most 2d old, as long as its tag reaperd.ttl says, at most 1d12h, tagged owner and team within 0s; " +
				"report only, would remove at once and volumes",
		},
		{
			Name: "all", Source: "p.yaml:14", Mode: policy.Enforce, Reasons: []policy.Reason{policy.TagMissing},
			Action:  providers.StopOptions{Action: providers.ActionStop, Grace: 10 * time.Second},
			Summary: "everything: tagged owner within 10m; stop with 10s of grace",
		},
		{
			Name: "rest", Source: "p.yaml:17", Mode: policy.Enforce,
			Reasons: []policy.Reason{
				policy.MaxIdle, policy.MaxStopped, policy.MaxPaused, policy.ExpiresTag,
				policy.HeartbeatLost, policy.HeartbeatNever, policy.LeaseExpired, policy.LeaseReleased, policy.TagNotAllowed, policy.TagForbidden,
			},
			Action: providers.StopOptions{Action: providers.ActionRemove, Grace: 10 * time.Second},
			Summary: `kind docker, no tag a, tag b like x+, from image python:latest or acme/*:*, when tag("c") == sandbox.name: ` +
				`at most 30m idle, at most 1h stopped, at most 1w paused, until its tag until says, at most 2d, a heartbeat every 5m, required, ` +
				`tagged env only dev or "", team only like [a-z]+ within 5m, not tagged y or z within 5m; remove with 10s of grace`,
		},
		{
			Name: "paused", Source: "p.yaml:31", Mode: policy.Enforce,
			Reasons: []policy.Reason{policy.HeartbeatLost, policy.HeartbeatNever, policy.LeaseExpired, policy.LeaseReleased},
			Action:  providers.StopOptions{Action: providers.ActionPause},
			Summary: "kind docker, tag env=dev: a heartbeat every 5m; pause",
		},
	}
	if diff := cmp.Diff(want, s.Policies()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoPoliciesMatchNothing(t *testing.T) {
	want := policy.Decision{Verdict: policy.Keep, Reason: policy.Unmatched}
	for _, s := range []*policy.Set{nil, {}} {
		if diff := cmp.Diff(want, s.Evaluate(running(), now)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if s.Policies() != nil && len(s.Policies()) != 0 {
			t.Errorf("policies: %v", s.Policies())
		}
	}
}
