package policy

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/strictyaml"
)

// tagRules say which tags a sandbox must carry once Grace is over.
type tagRules struct {
	Require []tagKey       `yaml:"require"`
	Grace   *time.Duration `yaml:"grace,zero"`
}

// CheckYAML implements strictyaml.Checker.
func (t *tagRules) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	refuseEmpty(d, n)
	if len(n.Content) > 0 { // an empty one is reported by the policy
		require(d, n, "require")
	}
}

// kept says why the sandbox does not violate the rules, or "" if it does.
func (t *tagRules) kept(tags map[string]string) string {
	if tags == nil {
		return tagsUnsaid
	}
	for _, key := range t.Require {
		if _, present := tags[string(key)]; !present {
			return ""
		}
	}
	return tagsInRule
}

func (t *tagRules) grace() time.Duration {
	if t.Grace == nil {
		return defaultTagGrace
	}
	return *t.Grace
}
