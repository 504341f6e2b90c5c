package policy

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/strictyaml"
)

// tagRules say which tags a sandbox must and must not carry once Grace is over.
type tagRules struct {
	Require []tagKey       `yaml:"require" doc:"The keys of tags that it must have, with any value."`
	Allow   allowances     `yaml:"allow" doc:"By key, the values that a tag may have. One that is not there is no violation."`
	Forbid  []tagKey       `yaml:"forbid" doc:"The keys of tags that it must not have."`
	Grace   *time.Duration `yaml:"grace,zero" doc:"How long after its creation it may still be without them (10m if left out)."`
}

// CheckYAML implements strictyaml.Checker.
func (t *tagRules) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	refuseEmpty(d, n)
	if len(n.Content) > 0 && onlyKeys(n, "grace") { // an empty one is reported by the policy
		d.Faultf(n, "has no rule: give it require, allow or forbid")
	}
	for i, key := range t.Forbid {
		for _, required := range t.Require {
			if key == required && key != "" {
				d.In(".forbid"+index(i), func() { d.Faultf(valueOf(n, "forbid").Content[i], "is required as well: nothing could satisfy both") })
			}
		}
	}
}

// allowances are the values that tags may have, by key.
type allowances []tagClause

// DecodeYAML implements strictyaml.Unmarshaler.
func (a *allowances) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	d.Decode(n, (*tagClauses)(a))
	for _, c := range *a {
		d.In("."+c.key, func() {
			switch {
			case c.want.any:
				d.Faultf(valueOf(n, c.key), `"*" allows every value, so that nothing could violate it: remove the key`)
			case c.want.absent:
				d.Faultf(valueOf(n, c.key), "a tag that shall be absent is one to forbid: write it under forbid")
			}
		})
	}
}

// kept says why the sandbox does not violate the rule that gives this reason,
// or "" if it does.
func (t *tagRules) kept(rule Reason, tags map[string]string) string {
	if tags == nil {
		return tagsUnsaid
	}
	if t.violates(rule, tags) {
		return ""
	}
	return tagsInRule
}

func (t *tagRules) violates(rule Reason, tags map[string]string) bool {
	switch rule {
	case TagMissing:
		for _, key := range t.Require {
			if _, present := tags[string(key)]; !present {
				return true
			}
		}
	case TagNotAllowed:
		for i := range t.Allow {
			value, present := tags[t.Allow[i].key]
			if present && !t.Allow[i].want.admit(value, present) {
				return true
			}
		}
	case TagForbidden:
		for _, key := range t.Forbid {
			if _, present := tags[string(key)]; present {
				return true
			}
		}
	}
	return false
}

func (t *tagRules) grace() time.Duration {
	if t.Grace == nil {
		return defaultTagGrace
	}
	return *t.Grace
}
