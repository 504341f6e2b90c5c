package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// expired is a sandbox that any policy with max_age 1m would reclaim.
func expired(name string, tags map[string]string) *policy.Facts {
	return running(func(f *policy.Facts) { f.Name, f.Tags = name, tags })
}

func tags(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

const short = ", limits: {max_age: 1m}"

func reclaims(t *testing.T, body string, f *policy.Facts) bool {
	t.Helper()
	return load(t, rules(body+short)).Evaluate(f, now).Verdict == policy.Reclaim
}

func TestTagsSelectExactly(t *testing.T) {
	absent, empty := tags(), tags("env", "")
	for match, items := range map[string]struct{ hit, miss []map[string]string }{
		`{env: dev}`: {
			hit:  []map[string]string{tags("env", "dev"), tags("env", "dev", "x", "y")},
			miss: []map[string]string{absent, empty, tags("env", "develop"), tags("env", "DEV"), tags("ENV", "dev"), tags("env", " dev"), tags("environment", "dev"), nil},
		},
		`{env: ""}`: {
			hit:  []map[string]string{empty},
			miss: []map[string]string{absent, tags("env", "dev"), tags("env", " "), nil},
		},
		`{env: "*"}`: {
			hit:  []map[string]string{empty, tags("env", "dev"), tags("env", "*")},
			miss: []map[string]string{absent, tags("Env", "dev"), nil},
		},
		`{env: "de*"}`:          {hit: []map[string]string{tags("env", "de*")}, miss: []map[string]string{tags("env", "dev")}},
		`{env: "d.v"}`:          {hit: []map[string]string{tags("env", "d.v")}, miss: []map[string]string{tags("env", "dev")}},
		`{env: [dev, ci, ""]}`:  {hit: []map[string]string{tags("env", "ci"), empty}, miss: []map[string]string{absent, tags("env", "dev,ci"), nil}},
		`{env: dev, team: "*"}`: {hit: []map[string]string{tags("env", "dev", "team", "")}, miss: []map[string]string{tags("env", "dev"), tags("team", "x"), nil}},
		`{env: {pattern: "d[a-z]+"}}`: {
			hit:  []map[string]string{tags("env", "dev"), tags("env", "demo")},
			miss: []map[string]string{absent, empty, tags("env", "dev1"), tags("env", "xdev"), tags("env", "d"), tags("env", "dev\n"), nil},
		},
		`{env: dev, owner: {absent: true}}`: {
			hit:  []map[string]string{tags("env", "dev"), tags("env", "dev", "Owner", "ann")},
			miss: []map[string]string{absent, tags("env", "dev", "owner", "ann"), tags("env", "dev", "owner", ""), nil},
		},
		`{"com.example/a.b": x}`: {hit: []map[string]string{tags("com.example/a.b", "x")}, miss: []map[string]string{tags("com", "x")}},
		// Tags differ by case, unlike the keys of the file.
		`{k: x, other: y}`: {hit: []map[string]string{tags("k", "x", "other", "y", "Other", "z")}, miss: []map[string]string{tags("k", "x", "Other", "y")}},
	} {
		for _, item := range items.hit {
			if !reclaims(t, "match: {tags: "+match+"}", expired("a", item)) {
				t.Errorf("%s does not select %v", match, item)
			}
		}
		for _, item := range items.miss {
			if reclaims(t, "match: {tags: "+match+"}", expired("a", item)) {
				t.Errorf("%s selects %v", match, item)
			}
		}
	}
}

func TestTagValuesMatchAsTheyAreWritten(t *testing.T) {
	for _, value := range []string{"no", "yes", "on", "true", "1.10", "007", "0x1f", "1e5", "12:30", "2026-11-30", "1_000", ".5", "+1", "0o7", "=", "nan"} {
		for _, match := range []string{value, "[other, " + value + "]"} {
			if !reclaims(t, "match: {tags: {v: "+match+"}}", expired("a", tags("v", value))) {
				t.Errorf("%s does not select %q", match, value)
			}
		}
	}
	for _, value := range []string{"null", "~", "*"} {
		if !reclaims(t, "match: {tags: {v: '"+value+"'}}", expired("a", tags("v", value))) {
			t.Errorf("a quoted %s does not select it", value)
		}
	}
	for written, value := range map[string]string{"1.10": "1.1", "007": "7", "0x1f": "31", "1e5": "100000", "12:30": "750", "no": "false", "true": "True"} {
		if reclaims(t, "match: {tags: {v: "+written+"}}", expired("a", tags("v", value))) {
			t.Errorf("%s selects %q", written, value)
		}
	}
}

func TestNamesSelectWholly(t *testing.T) {
	for pattern, items := range map[string]struct{ hit, miss []string }{
		`sbx-.*`:                       {[]string{"sbx-1", "sbx-", "sbx-backup-db"}, []string{"my-sbx-1", "sbx", "SBX-1", "", "sbx-1\nx"}},
		`app`:                          {[]string{"app"}, []string{"app-4k", "my-app", "app\n", "apps", "App"}},
		`app|web`:                      {[]string{"app", "web"}, []string{"app-4k", "my-web", "appweb"}},
		`^app$`:                        {[]string{"app"}, []string{"app-4k", "app\n"}},
		`(?m)^app$`:                    {[]string{"app"}, []string{"app\nx", "x\napp"}},
		`(?i)app`:                      {[]string{"app", "APP"}, []string{"apps"}},
		`praisonai_docker_[0-9a-f]{4}`: {[]string{"praisonai_docker_00af"}, []string{"praisonai_docker_00AF", "praisonai_docker_00af0", "/praisonai_docker_00af"}},
		`a.b`:                          {[]string{"a.b", "axb"}, []string{"ab"}},
		`.*`:                           {[]string{"x"}, []string{""}},
	} {
		body := "match: {names: ['" + pattern + "', never-this]}"
		for _, name := range items.hit {
			if !reclaims(t, body, expired(name, tags())) {
				t.Errorf("%s does not select %q", pattern, name)
			}
		}
		for _, name := range items.miss {
			if reclaims(t, body, expired(name, tags())) {
				t.Errorf("%s selects %q", pattern, name)
			}
		}
	}
}

func TestClausesMustAllHold(t *testing.T) {
	body := "match: {tags: {env: dev}, names: ['sbx-.*'], kinds: [docker, process], providers: [dev], states: [running, paused]}"
	for name, tc := range map[string]struct {
		change func(*policy.Facts)
		want   bool
	}{
		"all":            {func(*policy.Facts) {}, true},
		"other kind":     {func(f *policy.Facts) { f.Kind = "process" }, true},
		"other state":    {func(f *policy.Facts) { f.State = providers.StatePaused }, true},
		"wrong tag":      {func(f *policy.Facts) { f.Tags["env"] = "prod" }, false},
		"wrong name":     {func(f *policy.Facts) { f.Name = "x" }, false},
		"wrong kind":     {func(f *policy.Facts) { f.Kind = "e2b" }, false},
		"wrong provider": {func(f *policy.Facts) { f.Provider = "local" }, false},
		"wrong state":    {func(f *policy.Facts) { f.State = providers.StateStarting }, false},
	} {
		if got := reclaims(t, body, running(tc.change)); got != tc.want {
			t.Errorf("%s: reclaimed %v", name, got)
		}
	}
	if !reclaims(t, "match: {everything: true}", running()) {
		t.Error("everything does not select everything")
	}
	if reclaims(t, "match: {everything: true, kinds: [process]}", running()) {
		t.Error("everything undoes the clause beside it")
	}
}

// TestWhatCannotBeSaidKeeps gives every clause a sandbox that lacks what the
// clause reads: it does not hit in match, and does in unless and protect.
func TestWhatCannotBeSaidKeeps(t *testing.T) {
	for clause, tc := range map[string]struct {
		hide   func(*policy.Facts)
		reason policy.Reason // of a sandbox matched by this clause only
	}{
		"tags: {env: dev}":          {func(f *policy.Facts) { f.Tags = nil }, policy.Unmatched},
		"tags: {env: '*'}":          {func(f *policy.Facts) { f.Tags = nil }, policy.Unmatched},
		"tags: {env: [prod, dev]}":  {func(f *policy.Facts) { f.Tags = nil }, policy.Unmatched},
		"names: ['sbx-.*']":         {func(f *policy.Facts) { f.Name = "" }, policy.Unmatched},
		"names: ['.*']":             {func(f *policy.Facts) { f.Name = "" }, policy.Unmatched},
		"kinds: [docker]":           {func(f *policy.Facts) { f.Kind = "" }, policy.Unmatched},
		"providers: [dev]":          {func(f *policy.Facts) { f.Provider = "" }, policy.Unmatched},
		"states: [running]":         {func(f *policy.Facts) { f.State = providers.StateUnknown }, policy.InTransition},
		"states: [running, paused]": {func(f *policy.Facts) { f.State = "" }, policy.InTransition},
	} {
		plain, hidden := running(), running(tc.hide)
		match := "match: {everything: true, " + clause + "}" + short
		if d := load(t, rules(match)).Evaluate(plain, now); d.Verdict != policy.Reclaim {
			t.Errorf("match %s does not hit what it names: %+v", clause, d)
		}
		if d := load(t, rules(match)).Evaluate(hidden, now); d.Verdict != policy.Keep || d.Reason != tc.reason {
			t.Errorf("match %s hits what it cannot see: %+v", clause, d)
		}
		if reclaims(t, "match: {everything: true}, unless: [{"+clause+"}]", hidden) {
			t.Errorf("unless %s does not spare what it cannot see", clause)
		}
		protected := load(t, rules("match: {everything: true}"+short)+"protect: [{"+clause+"}]\n")
		if d := protected.Evaluate(hidden, now); d.Verdict != policy.Keep || tc.reason == policy.Unmatched && d.Reason != policy.Protected {
			t.Errorf("protect %s does not keep what it cannot see: %+v", clause, d)
		}
	}
	// What surely fails decides, whatever cannot be said beside it.
	f := running(func(f *policy.Facts) { f.Tags = nil })
	if !reclaims(t, "match: {everything: true}, unless: [{tags: {keep: '*'}, kinds: [process]}]", f) {
		t.Error("unless spares a sandbox of another kind")
	}
}

func TestUnlessIsAnAlternativeOfConjunctions(t *testing.T) {
	body := "match: {everything: true}, unless: [{tags: {env: prod}}, {names: ['keep-.*'], states: [running]}]"
	for name, tc := range map[string]struct {
		change func(*policy.Facts)
		want   bool
	}{
		"neither":             {func(*policy.Facts) {}, true},
		"first":               {func(f *policy.Facts) { f.Tags["env"] = "prod" }, false},
		"second":              {func(f *policy.Facts) { f.Name = "keep-1" }, false},
		"half of the second":  {func(f *policy.Facts) { f.Name, f.State = "keep-1", providers.StatePaused }, true},
		"both":                {func(f *policy.Facts) { f.Name, f.Tags["env"] = "keep-1", "prod" }, false},
		"a tag that it lacks": {func(f *policy.Facts) { f.Tags = tags() }, true},
	} {
		if got := reclaims(t, body, running(tc.change)); got != tc.want {
			t.Errorf("%s: reclaimed %v", name, got)
		}
	}
}

// TestAnAbsentTagSelectsWhereItIsSaidAloud: in match it needs company or
// everything: true, in unless and protect it stands for itself.
func TestAnAbsentTagSelectsWhereItIsSaidAloud(t *testing.T) {
	all := load(t, rules("match: {everything: true, tags: {owner: {absent: true}}}"+short))
	sparing := load(t, rules("match: {everything: true}, unless: [{tags: {owner: {absent: true}}}]"+short))
	protecting := load(t, rules("match: {everything: true}"+short)+"protect: [{tags: {owner: {absent: true}}}]\n")
	for name, tc := range map[string]struct {
		tags                            map[string]string
		selected, spared, protectedFrom bool
	}{
		"absent":     {tags(), true, true, true},
		"there":      {tags("owner", ""), false, false, false},
		"cannot say": {nil, false, true, true},
	} {
		f := expired("a", tc.tags)
		if got := all.Evaluate(f, now).Verdict == policy.Reclaim; got != tc.selected {
			t.Errorf("%s: match selects it: %v", name, got)
		}
		if got := sparing.Evaluate(f, now).Verdict == policy.Keep; got != tc.spared {
			t.Errorf("%s: unless spares it: %v", name, got)
		}
		if got := protecting.Evaluate(f, now).Reason == policy.Protected; got != tc.protectedFrom {
			t.Errorf("%s: protect keeps it: %v", name, got)
		}
	}
}

// TestPoliciesLeadByManyTags: each policy decides by its own tag, also where
// there are more of them than are looked up once.
func TestPoliciesLeadByManyTags(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\npolicies:\n")
	const n = 80
	for i := range n {
		fmt.Fprintf(&b, "  - {name: p%d, match: {tags: {k%d: [x, y]}}, limits: {max_age: 1m}}\n", i, i%(n/2))
	}
	s := load(t, b.String())
	for i := range n / 2 {
		d := s.Evaluate(expired("a", tags(fmt.Sprintf("k%d", i), "y", "other", "x")), now)
		if d.Verdict != policy.Reclaim || d.Policy != fmt.Sprintf("p%d", i) {
			t.Errorf("k%d: %+v", i, d)
		}
		for _, miss := range []map[string]string{nil, tags(), tags(fmt.Sprintf("k%d", i), "z"), tags("other", "x")} {
			if d := s.Evaluate(expired("a", miss), now); d.Reason != policy.Unmatched {
				t.Errorf("%v: %+v", miss, d)
			}
		}
	}
}
