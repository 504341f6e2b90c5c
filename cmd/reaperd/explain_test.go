package main

import (
	"path/filepath"
	"strings"
	"testing"
)

const explained = `version: 1
protect:
  - {tags: {debug: "*"}, for: 3d}
policies:
  - name: agents
    match: {tags: {team: agents}, names: ['build-[0-9]+']}
    unless: [{tags: {env: prod}}]
    limits:
      max_uptime: 4h
      ttl: {tag: reaperd.ttl, max: 1d}
  - name: others
    match: {tags: {team: other}}
    limits: {max_age: 1d}
`

// one sandbox of a recording of 2026-01-02, created and started that many
// hours before.
func recordedAt(name, tags, created string) string {
	return `{"version":1,"at":"2026-01-02T00:00:00Z","errors":[],"facts":[{"provider":"dev","kind":"docker","id":"1",` +
		`"name":"` + name + `","state":"running","tags":` + tags + `,"created":"` + created + `","started":"` + created + `","pulse":{"first_seen":"` + created + `"}}]}`
}

func TestExplain(t *testing.T) {
	for name, tc := range map[string]struct {
		name, tags, created string
		says                []string
	}{
		"one that is due": {
			"build-1", `{"team":"agents"}`, "2026-01-01T19:00:00Z", []string{
				"  It is due since 2026-01-01 23:00:00 UTC (1h00m ago): the policy agents says max_uptime, and the action is stop.\n",
				"p.yaml:5 applies\n  match tags.team  wants agents        found agents   yes\n  match names      wants build-[0-9]+  found build-1  yes\n",
				"  unless[0] tags.env  wants prod  found nothing  no\n",
				"due 2026-01-01 23:00:00 UTC (1h00m ago), counted from started\n",
				"policy others at ", "does not apply\n  match tags.team  wants other  found agents  no\n",
			},
		},
		"one within its limits": {
			"build-1", `{"team":"agents","reaperd.ttl":"90"}`, "2026-01-01T21:00:00Z", []string{
				"  It lives until 2026-01-02 01:00:00 UTC (in 1h00m): then the policy agents says max_uptime, and the action is stop.\n",
				"limits.ttl", "the tag cannot be understood\n",
			},
		},
		"one that is protected for a while": {
			"build-1", `{"team":"agents","debug":"yes"}`, "2026-01-01T00:00:00Z", []string{
				"  It lives: protected. That can change at 2026-01-04 00:00:00 UTC (in 2d00h).\n",
				"keeps it until 2026-01-04 00:00:00 UTC (in 2d00h)\n",
			},
		},
		"one that nothing matches": {
			"build-1", `{}`, "2026-01-01T00:00:00Z", []string{"  It lives: unmatched. Time alone will not change that.\n", "tags        none\n"},
		},
		"one whose tags are not told": {
			"build-1", `null`, "2026-01-01T00:00:00Z", []string{"tags        not told by the provider\n", "found nothing  cannot say\n"},
		},
		"one with a name from hell": {
			"build-1\x1b[31m", `{"team":"agents"}`, "2026-01-01T19:00:00Z", []string{"build-1�[31m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts := strings.ReplaceAll(recordedAt(tc.name, tc.tags, tc.created), "\x1b", "\\u001b")
			dir := write(t, "p.yaml", explained, "facts.json", facts)
			got := reaperd(t, nil, "explain", "1", "--policies", filepath.Join(dir, "p.yaml"), "--facts", filepath.Join(dir, "facts.json"))
			if got.code != exitClean {
				t.Errorf("exit %d, %s", got.code, got.errors)
			}
			for _, want := range tc.says {
				if !strings.Contains(got.out, want) {
					t.Errorf("it does not say %q:\n%s", want, got.out)
				}
			}
			if strings.Contains(got.out, "\x1b") {
				t.Errorf("an escape sequence gets through: %q", got.out)
			}
		})
	}
}

func TestExplainOfWhatThereIsNot(t *testing.T) {
	dir := write(t, "p.yaml", explained, "facts.json", recordedAt("build-1", "{}", "2026-01-01T00:00:00Z"))
	got := reaperd(t, nil, "explain", "nope", "--policies", filepath.Join(dir, "p.yaml"), "--facts", filepath.Join(dir, "facts.json"))
	if got.code != exitTrouble || !strings.Contains(got.out, "No sandbox with ID 'nope'. See: reaperd ps\n") {
		t.Errorf("%+v", got)
	}
}

func TestCheckOfFiles(t *testing.T) {
	dir := write(t, "good.yaml", explained, "bad.yaml", "version: 1\npolicies:\n  - name: x\n    match: {tag: {a: b}}\n    limits: {max_uptim: 4h}\n")
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	got := reaperd(t, nil, "check", good)
	if got.code != exitClean || !strings.Contains(got.out, "2 policies:\n  agents (enforce, "+good+":5): ") {
		t.Errorf("%+v", got)
	}
	got = reaperd(t, nil, "check", good, bad)
	for _, want := range []string{
		bad + `:4:13: policies[0].match: unknown key "tag": did you mean "tags"?`,
		bad + `:5:14: policies[0].limits: unknown key "max_uptim": did you mean "max_uptime"?`,
	} {
		if got.code != exitTrouble || !strings.Contains(got.errors, want) {
			t.Errorf("exit %d, want 1 and %q:\n%s", got.code, want, got.errors)
		}
	}
	if got := reaperd(t, nil, "check", "--schema", "polices"); got.code != exitUsage || !strings.Contains(got.errors, `did you mean "policies"?`) {
		t.Errorf("%+v", got)
	}
}
