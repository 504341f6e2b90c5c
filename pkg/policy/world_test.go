package policy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// world draws policies and sandboxes out of so few words that they often meet.
type world struct{ *rapid.T }

// sandboxes is how many are judged in each world.
const sandboxes = 8

// forAll runs a property over many worlds: a hundred, or as many as the flag
// -rapid.checks says. With -rapid.checks=1300 all properties together judge
// more than 100,000 sandboxes.
func forAll(t *testing.T, property func(w world)) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) { property(world{rt}) })
}

func pick[T any](w world, from ...T) T { return rapid.SampledFrom(from).Draw(w.T, "pick") }

func (w world) oneIn(n int) bool { return rapid.IntRange(1, n).Draw(w.T, "one in") == n }

func (w world) upTo(d time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(d)-1).Draw(w.T, "while"))
}

func (w world) clause() string {
	return pick(w,
		"tags: {env: dev}", "tags: {env: '*'}", "tags: {env: [dev, ''], team: x}", "tags: {team: ''}",
		"tags: {env: dev, owner: {absent: true}}", "tags: {env: {pattern: '[a-z]+'}}",
		"names: ['sbx-.*']", "names: [a, b]", "images: ['python:*', acme/tool]", "images: ['python:3']",
		`when: 'sandbox.name == "sbx-" + tag("number")'`, `when: '"env" in sandbox.tags || sandbox.kind == "process"'`,
		"everything: true", "everything: true, tags: {team: {absent: true}}",
		"everything: true, kinds: [docker]", "everything: true, providers: [dev]", "everything: true, states: [running, paused, exited, starting, created]",
		"tags: {env: dev}, names: ['sbx-.*'], states: [running, paused, exited]")
}

func (w world) entry() string {
	return pick(w, "tags: {env: prod}", "tags: {keep: '*'}", "tags: {owner: {absent: true}}", "names: ['keep-.*']", "kinds: [process]",
		"states: [exited, paused]", "tags: {team: x}, names: ['sbx-.*']", "providers: [local], tags: {env: dev}", "images: ['acme/*']",
		`when: 'tag("team") != "x" && sandbox.state == "running"'`)
}

func (w world) length() string { return pick(w, "1m", "30m", "1h", "2h", "1d", "3d", "1y", "250y") }

func (w world) policy(mode string) string {
	action := pick(w, "stop", "stop", "remove, volumes: true", "remove, volumes: true", "pause")
	match := w.clause()
	if action == "pause" {
		match = "kinds: [docker], tags: {env: '*'}"
	}
	b := "match: {" + match + "}, mode: " + mode + ", action: {type: " + action + "}"
	if w.oneIn(3) {
		b += ", unless: [{" + w.entry() + "}, {" + w.entry() + "}]"
	}
	possible := map[string]string{
		"max_uptime": w.length(), "max_age": w.length(), "max_idle": w.length(),
		"ttl": "{tag: life, max: " + w.length() + "}", "expires": "{tag: until, max: " + w.length() + "}",
		"heartbeat": "{timeout: " + w.length() + ", required: " + pick(w, "true", "false") + "}",
	}
	// Others could never act and are refused.
	if action != "pause" {
		possible["max_paused"] = w.length()
	}
	if strings.HasPrefix(action, "remove") {
		possible["max_stopped"] = w.length()
	}
	var limits []string
	for _, key := range slices.Sorted(maps.Keys(possible)) {
		if w.oneIn(3) {
			limits = append(limits, key+": "+possible[key])
		}
	}
	ruled := w.oneIn(4)
	if len(limits) == 0 && !ruled {
		limits = []string{"max_age: " + possible["max_age"]}
	}
	if limits != nil {
		b += ", limits: {" + strings.Join(limits, ", ") + "}"
	}
	if ruled {
		b += ", tag_rules: {" + pick(w, "require: [env]", "require: [owner], allow: {env: dev}", "forbid: [team, keep]", "allow: {env: {pattern: 'd.*'}, team: [y]}") +
			", grace: " + pick(w, "0s", "10m", "2h") + "}"
	}
	return b
}

func (w world) policies() []string {
	out := make([]string, rapid.IntRange(1, 4).Draw(w.T, "policies"))
	for i := range out {
		out[i] = w.policy(pick(w, "enforce", "enforce", "report"))
	}
	return out
}

func (w world) protections() []string {
	out := make([]string, rapid.IntRange(0, 2).Draw(w.T, "protections"))
	for i := range out {
		out[i] = w.protection()
	}
	return out
}

func (w world) protection() string {
	return "{" + w.entry() + pick(w, "", ", for: "+w.length()) + "}"
}

func (w world) set(policies, protections []string) *policy.Set {
	text := rules(policies...)
	if len(protections) > 0 {
		text += "protect: [" + strings.Join(protections, ", ") + "]\n"
	}
	s, _, err := policy.Load([]policy.File{{Name: "p.yaml", Data: []byte(text)}}, known)
	if err != nil {
		w.Fatalf("%v\nin\n%s", err, text)
	}
	return s
}

// anySet is a set of which nothing is asked.
func (w world) anySet() *policy.Set { return w.set(w.policies(), w.protections()) }

// time is one that a provider could give, right or wrong, but none that is
// still to come.
func (w world) time() time.Time {
	return pick(w, w.past(), w.past(), w.past(), w.past(), time.Time{}, time.Unix(0, 0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
}

func (w world) past() time.Time { return ago(w.upTo(pick(w, time.Minute, time.Hour, day, 400*day))) }

func (w world) facts() *policy.Facts {
	f := &policy.Facts{
		Sandbox: providers.Sandbox{
			Ref:  providers.Ref{Provider: pick(w, "dev", "dev", "local", ""), ID: "x"},
			Kind: pick(w, "docker", "docker", "process", ""), Name: pick(w, "sbx-1", "sbx-2", "a", "keep-1", ""),
			Image: pick(w, "python:3", "python", "python@sha256:00", "sha256:00", "acme/tool", ""),
			State: pick(w, append(providers.States(), providers.StateRunning, providers.StateRunning, providers.StateExited)...),
			Owner: pick(w, "", "", "", "", "", "", "", "swarm"), Self: w.oneIn(20),
			Created: w.time(), Started: w.time(), Ended: w.time(), PausedSince: w.time(), LastActive: w.time(),
		},
		Pulse: policy.Pulse{
			FirstSeen: w.time(), StateSince: w.time(),
			LastBeat: pick(w, time.Time{}, w.past()), BlindUntil: pick(w, w.past(), w.past(), w.past(), time.Time{}),
		},
	}
	for range rapid.IntRange(0, 2).Draw(w.T, "leases") {
		lease := policy.Lease{Key: "k", Ends: pick(w, w.past(), now.Add(w.upTo(day)), time.Time{}), Released: pick(w, time.Time{}, time.Time{}, w.past())}
		f.Pulse.Leases = append(f.Pulse.Leases, lease)
	}
	if w.oneIn(8) {
		return f
	}
	f.Tags = map[string]string{}
	for _, tag := range []struct {
		key    string
		values []string
	}{
		{"env", []string{"dev", "dev", "prod", ""}}, {"team", []string{"x", ""}}, {"life", []string{"10m", "1h", "9y", "soon", ""}},
		{"owner", []string{"ann"}}, {"keep", []string{"yes"}}, {"number", []string{"1", "2"}}, {"reaperd.lease", []string{"k", "", "a b"}},
		{"until", []string{"2026-03-14T11:50:00Z", "2026-03-14T15:00:00", "2026-03-20T00:00:00+02:00", "1773500400", "2031-01-01T00:00:00Z", "soon"}},
	} {
		if !w.oneIn(3) {
			f.Tags[tag.key] = pick(w, tag.values...)
		}
	}
	return f
}

// end follows Next to the moment at which the sandbox is reclaimed; zero:
// never.
func (w world) end(s *policy.Set, f *policy.Facts) time.Time {
	at := now
	for range 100 {
		d := s.Evaluate(f, at)
		if d.Verdict == policy.Reclaim {
			return at
		}
		if d.Next.IsZero() {
			return time.Time{}
		}
		if !d.Next.After(at) {
			w.Fatalf("next %v is not after %v: %+v", d.Next, at, d)
		}
		at = d.Next
	}
	w.Fatalf("next never comes to an end")
	return at
}

// show gives all that is known of a sandbox, of which %v would show its name.
func show(f *policy.Facts) string { return fmt.Sprintf("%#v", *f) }

// sooner says whether a comes before b, zero being never.
func sooner(a, b time.Time) bool { return !a.IsZero() && (b.IsZero() || a.Before(b)) }
