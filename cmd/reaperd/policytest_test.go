package main

import (
	"path/filepath"
	"strings"
	"testing"
)

const ladder = `version: 1
protect:
  - tags: {keep: "*"}
policies:
  - name: stop-after-4h
    match: {tags: {env: dev}}
    unless: [{names: ['web-.*']}]
    limits: {max_uptime: 4h}
  - name: shadow
    match: {tags: {env: dev}}
    limits: {max_uptime: 1h}
    mode: report
`

func policyTests(t *testing.T, cases string, flags ...string) said {
	t.Helper()
	dir := write(t, "p.yaml", ladder, "t.yaml", "version: 1\npolicies: [p.yaml]\ncases:\n"+cases)
	return reaperd(t, nil, append([]string{"policy", "test", filepath.Join(dir, "t.yaml")}, flags...)...)
}

func TestPolicyTestsThatHold(t *testing.T) {
	got := policyTests(t, `
  - name: it is stopped after four hours, by the clock and not before
    sandbox: {tags: {env: dev}}
    steps:
      - {at: 59m, expect: {verdict: keep, reason: within_limits, policy: stop-after-4h, due: 4h, shadows: []}}
      - {at: 3h59m59s, expect: {verdict: keep, shadows: [shadow]}}
      - {at: 4h, expect: {verdict: reclaim, reason: max_uptime, policy: stop-after-4h, action: stop, due: 4h}}
      - {at: 5h, sandbox: {state: exited, ended: 5h}, expect: {verdict: keep, reason: within_limits, policy: "", due: unknown}}
  - name: its tags are not told
    sandbox: {tags: unknown}
    steps: [{at: 9d, expect: {verdict: keep, reason: unmatched}}]
  - name: without a start it counts from first seen
    sandbox: {tags: {env: dev}, started: unknown}
    pulse: {first_seen: 1h}
    steps:
      - {at: 4h59m, expect: {verdict: keep}}
      - {at: 5h, expect: {verdict: reclaim, due: 5h}}
  - name: kept by its tag, and taken once that is gone
    sandbox: {tags: {env: dev, keep: please}}
    steps:
      - {at: 5h, expect: {verdict: keep, reason: protected}}
      - {at: 6h, sandbox: {tags: {env: dev}}, expect: {verdict: reclaim}}
  - name: left alone by its name
    sandbox: {name: web-1, tags: {env: dev}}
    steps: [{at: 5h, expect: {verdict: keep, reason: unmatched}}]
`, "--coverage")
	want := "5 cases, 0 failed\n8 of 8 policies, clauses and limits reached\n"
	if got.code != exitClean || got.out != want {
		t.Errorf("exit %d, %s\n%s\nwant\n%s", got.code, got.errors, got.out, want)
	}
}

func TestPolicyTestsThatDiffer(t *testing.T) {
	got := policyTests(t, `
  - name: wrong in every way
    sandbox: {tags: {env: dev}}
    steps:
      - at: 4h
        expect: {verdict: keep, reason: protected, policy: other, action: remove, due: unknown, shadows: []}
`, "--coverage")
	want := `:8: wrong in every way: at 4h:
    verdict  want keep                     got reclaim
    reason   want protected                got max_uptime
    policy   want other                    got stop-after-4h
    action   want remove                   got stop
    due      want unknown                  got 4h
    shadows  want none                     got shadow
1 case, 1 failed
6 of 8 policies, clauses and limits reached
`
	if got.code != exitTrouble || !strings.Contains(got.out, want) {
		t.Errorf("exit %d\n%s\nwant\n%s", got.code, got.out, want)
	}
	for _, missed := range []string{"never: ", "protect[0].tags.keep (line 3)", "unless[0].names (line 7)"} {
		if !strings.Contains(got.out, missed) {
			t.Errorf("it does not name %q:\n%s", missed, got.out)
		}
	}
}

func TestPolicyTestsThatCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct{ cases, says string }{
		"no cases":       {"  []\n", "cases: is empty"},
		"unknown key":    {"  - {name: x, sandbx: {}, steps: [{at: 0s, expect: {verdict: keep}}]}\n", `unknown key "sandbx": did you mean "sandbox"?`},
		"no verdict":     {"  - {name: x, steps: [{at: 0s, expect: {reason: protected}}]}\n", "verdict is missing"},
		"odd verdict":    {"  - {name: x, steps: [{at: 0s, expect: {verdict: kill}}]}\n", `want keep or reclaim, found "kill"`},
		"odd state":      {"  - {name: x, sandbox: {state: runing}, steps: [{at: 0s, expect: {verdict: keep}}]}\n", `unknown state "runing": did you mean "running"?`},
		"bare number":    {"  - {name: x, steps: [{at: 5, expect: {verdict: keep}}]}\n", `"5" has no unit`},
		"back in time":   {"  - {name: x, steps: [{at: 2h, expect: {verdict: keep}}, {at: 1h, expect: {verdict: keep}}]}\n", "have to follow each other in time"},
		"no steps":       {"  - {name: x, steps: []}\n", "cases[0].steps: is empty"},
		"unknown reason": {"  - {name: x, steps: [{at: 0s, expect: {verdict: keep, reason: protcted}}]}\n", `unknown reason "protcted": did you mean "protected"?`},
	} {
		t.Run(name, func(t *testing.T) {
			got := policyTests(t, tc.cases)
			if got.code != exitTrouble || !strings.Contains(got.errors+got.out, tc.says) {
				t.Errorf("exit %d, %s%s; want 1 and %q", got.code, got.errors, got.out, tc.says)
			}
		})
	}
}

// Every shipped policy is tested, to the last clause.
func TestShippedPoliciesAreTestedWhole(t *testing.T) {
	tests, err := filepath.Glob("../../configs/policies/tests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := filepath.Glob("../../configs/policies/*.yaml")
	if err != nil || len(shipped) == 0 {
		t.Fatalf("%v, %v", shipped, err)
	}
	under := map[string]bool{}
	for _, path := range tests {
		f, err := readTests(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range f.files {
			under[filepath.Clean(file)] = true
		}
	}
	for _, path := range shipped {
		if !under[filepath.Clean(path)] {
			t.Errorf("no test names %s", path)
		}
	}
	got := reaperd(t, nil, append([]string{"policy", "test", "--coverage"}, tests...)...)
	if got.code != exitClean || strings.Contains(got.out, "never: ") || !strings.Contains(got.out, ", 0 failed\n") {
		t.Errorf("exit %d, %s\n%s", got.code, got.errors, got.out)
	}
}
