package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestExpressions(t *testing.T) {
	unsaid := func(f *policy.Facts) { f.Tags, f.Name, f.Image = nil, "", "" }
	id := func(f *policy.Facts) { f.Image = "sha256:00" }
	for expression, tc := range map[string]struct {
		change func(*policy.Facts)
		want   policy.Answer
	}{
		`sandbox.name == "sbx-1"`:                                {nil, policy.Yes},
		`sandbox.name == "praisonai_" + tag("instance_id")`:      {func(f *policy.Facts) { f.Name, f.Tags["instance_id"] = "praisonai_docker_00af", "docker_00af" }, policy.Yes},
		`sandbox.name == "sbx-" + tag("instance_id")`:            {nil, policy.No},
		`sandbox.id == "c0ffee" && sandbox.kind == "docker"`:     {nil, policy.Yes},
		`sandbox.provider == "dev"`:                              {nil, policy.Yes},
		`sandbox.state in ["running", "paused"]`:                 {nil, policy.Yes},
		`sandbox.state == "paused"`:                              {nil, policy.No},
		`sandbox.image == "python:latest"`:                       {func(f *policy.Facts) { f.Image = "docker.io/library/python" }, policy.Yes},
		`sandbox.image == "python:3"`:                            {id, policy.CannotSay},
		`tag("env") == "dev"`:                                    {nil, policy.Yes},
		`tag("absent") == ""`:                                    {nil, policy.Yes},
		`tag("empty") == ""`:                                     {nil, policy.Yes},
		`"empty" in sandbox.tags && !("absent" in sandbox.tags)`: {nil, policy.Yes},
		`has(sandbox.tags.env)`:                                  {nil, policy.Yes},
		`has(sandbox.tags.absent)`:                               {nil, policy.No},
		`sandbox.tags["env"] == "dev"`:                           {nil, policy.Yes},
		`sandbox.tags.absent == "dev"`:                           {nil, policy.CannotSay},
		`sandbox.tags["absent"] != "dev"`:                        {nil, policy.CannotSay},
		`size(sandbox.tags) == 2`:                                {nil, policy.Yes},
		`sandbox.tags.exists(k, k.startsWith("e"))`:              {nil, policy.Yes},
		`sandbox.tags.all(k, sandbox.tags[k] != "")`:             {nil, policy.No},
		`sandbox.name.matches("^sbx-[0-9]$")`:                    {nil, policy.Yes},
		`sandbox.name.endsWith("-2") || tag("env") == "dev"`:     {nil, policy.Yes},
		`int(tag("n")) > 3`:                                      {func(f *policy.Facts) { f.Tags["n"] = "4" }, policy.Yes},
		`int(tag("many")) > 3`:                                   {func(f *policy.Facts) { f.Tags["many"] = "four" }, policy.CannotSay},
		`(tag("env") == "dev" ? "sbx-1" : "x") == sandbox.name`:  {nil, policy.Yes},
		// What the provider did not say, nobody can say anything of, not even
		// that it is something else.
		`sandbox.name != "keep"`:                     {unsaid, policy.CannotSay},
		`sandbox.image != "keep"`:                    {unsaid, policy.CannotSay},
		`!sandbox.name.startsWith("keep")`:           {unsaid, policy.CannotSay},
		`tag("env") != "prod"`:                       {unsaid, policy.CannotSay},
		`!("env" in sandbox.tags)`:                   {unsaid, policy.CannotSay},
		`!has(sandbox.tags.env)`:                     {unsaid, policy.CannotSay},
		`size(sandbox.tags) == 0`:                    {unsaid, policy.CannotSay},
		`!sandbox.tags.exists(k, true)`:              {unsaid, policy.CannotSay},
		`has(sandbox.tags) && has(sandbox.name)`:     {unsaid, policy.Yes}, // asks for the field, and that there always is
		`sandbox.name == "a" || tag("env") == "dev"`: {unsaid, policy.CannotSay},
		`sandbox.name == "a" || sandbox.kind != ""`:  {unsaid, policy.Yes}, // whatever the name is
		`sandbox.name == "a" && sandbox.kind == "x"`: {unsaid, policy.No},
		`sandbox == sandbox && tag("env") == "x"`:    {unsaid, policy.CannotSay},
	} {
		quoted := strings.ReplaceAll(expression, "'", "''")
		f := running()
		if tc.change != nil {
			f = running(tc.change)
		}
		matching := load(t, rules("match: {when: '"+quoted+"'}"+short))
		if got := matching.Explain(f, now).Policies[0].Match[0]; got.Answer != tc.want || got.Key != "when" || got.Wants != expression {
			t.Errorf("%s: %+v", expression, got)
		}
		if got := matching.Evaluate(f, now).Verdict == policy.Reclaim; got != (tc.want == policy.Yes) {
			t.Errorf("%s in match: %v", expression, got)
		}
		sparing := load(t, rules("match: {everything: true}, unless: [{when: '"+quoted+"'}]"+short))
		if got := sparing.Evaluate(f, now).Verdict == policy.Keep; got != (tc.want != policy.No) {
			t.Errorf("%s in unless: %v", expression, got)
		}
		protecting := load(t, rules("match: {everything: true}"+short)+"protect: [{when: '"+quoted+"'}]\n")
		if got := protecting.Evaluate(f, now).Reason == policy.Protected; got != (tc.want != policy.No) {
			t.Errorf("%s in protect: %v", expression, got)
		}
	}
}

// TestAnExpressionThatCostsTooMuchCannotSay nests loops over the tags of a
// sandbox, of which an attacker may have made many.
func TestAnExpressionThatCostsTooMuchCannotSay(t *testing.T) {
	s := load(t, rules(`match: {when: 'sandbox.tags.all(a, sandbox.tags.all(b, sandbox.tags.all(c, a + b + c != "x")))'}`+short))
	few, many := tags(), tags()
	for i := range 3000 {
		if i < 5 {
			few[fmt.Sprint(i)] = ""
		}
		many[fmt.Sprint(i)] = ""
	}
	for _, tc := range []struct {
		tags map[string]string
		want policy.Answer
	}{{few, policy.Yes}, {many, policy.CannotSay}} {
		f := expired("a", tc.tags)
		if got := s.Explain(f, now).Policies[0].Match[0].Answer; got != tc.want {
			t.Errorf("%d tags: %s", len(tc.tags), got)
		}
	}
}

// TestExpressionsAreAskedByMany: a set serves any number of goroutines.
func TestExpressionsAreAskedByMany(t *testing.T) {
	s := load(t, rules(`match: {when: 'sandbox.tags.exists(k, sandbox.tags[k] == "dev") && tag("n") == sandbox.name'}`+short))
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for range 200 {
				hit := running(func(f *policy.Facts) { f.Name, f.Tags["n"] = fmt.Sprint("n", i), fmt.Sprint("n", i) })
				miss := running(func(f *policy.Facts) { f.Name, f.Tags["n"] = fmt.Sprint("n", i), "n" })
				if s.Evaluate(hit, now).Verdict != policy.Reclaim || s.Evaluate(miss, now).Verdict != policy.Keep {
					t.Fatal("sandboxes are mixed up")
				}
			}
		})
	}
}

func TestAnExpressionSelectsByItself(t *testing.T) {
	s := load(t, rules(`match: {when: 'tag("env") == "dev"', states: [running]}, limits: {max_uptime: 1m}`))
	f := running()
	if d := s.Evaluate(f, now); d.Verdict != policy.Reclaim {
		t.Errorf("%+v", d)
	}
	f.State = providers.StatePaused
	if d := s.Evaluate(f, now); d.Reason != policy.Unmatched {
		t.Errorf("paused: %+v", d)
	}
	if got := s.Policies()[0].Summary; !strings.HasPrefix(got, `that is running, when tag("env") == "dev": `) {
		t.Error(got)
	}
}
