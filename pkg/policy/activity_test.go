package policy_test

import (
	"testing"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestActivityIsReadWhereALimitJudgesByIt(t *testing.T) {
	set, _, err := policy.Load([]policy.File{{Name: "p.yaml", Data: []byte(`
version: 1
policies:
  - {name: a, match: {tags: {env: dev}}, unless: [{names: [keep]}], limits: {max_age: 1d, max_idle: 30m}}
  - {name: b, match: {tags: {env: prod}}, limits: {max_age: 1d}}
  - {name: c, match: {tags: {env: shadow}}, limits: {max_idle: 1h}, mode: report}
`)}}, policy.Known{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*providers.Sandbox)
		want   bool
	}{
		"limited":          {func(*providers.Sandbox) {}, true},
		"in a shadow":      {func(sb *providers.Sandbox) { sb.Tags["env"] = "shadow" }, true},
		"by no such limit": {func(sb *providers.Sandbox) { sb.Tags["env"] = "prod" }, false},
		"unmatched":        {func(sb *providers.Sandbox) { sb.Tags["env"] = "qa" }, false},
		"spared":           {func(sb *providers.Sandbox) { sb.Name = "keep" }, false},
		"tags not told":    {func(sb *providers.Sandbox) { sb.Tags = nil }, false},
		"paused":           {func(sb *providers.Sandbox) { sb.State = providers.StatePaused }, false},
		"reaperd itself":   {func(sb *providers.Sandbox) { sb.Self = true }, false},
		"a controller's":   {func(sb *providers.Sandbox) { sb.Owner = "swarm" }, false},
	} {
		f := policy.Facts{Sandbox: providers.Sandbox{
			Ref: providers.Ref{Provider: "dev", ID: "x"}, Kind: "docker", Name: "n", State: providers.StateRunning,
			Tags: map[string]string{"env": "dev"},
		}}
		tc.change(&f.Sandbox)
		if got := set.ReadsActivity(&f); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	var none *policy.Set
	if none.ReadsActivity(&policy.Facts{Sandbox: providers.Sandbox{State: providers.StateRunning}}) {
		t.Error("no policies read it")
	}
}
