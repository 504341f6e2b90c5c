package policy

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/strictyaml"
)

// tagClauses are what is asked of tags, by key. All must hold.
type tagClauses []tagClause

type tagClause struct {
	key  string
	want values
}

// values are what is asked of one tag: that it is not there, that it is there
// at all, that its value fits a pattern, or that it is exactly one of these.
type values struct {
	absent, any bool
	pattern     *pattern
	of          []string
}

// admit says whether the tag is as it is wanted.
func (v *values) admit(value string, present bool) bool {
	switch {
	case v.absent:
		return !present
	case !present:
		return false
	case v.any:
		return true
	case v.pattern != nil:
		return v.pattern.re.MatchString(value)
	}
	return slices.Contains(v.of, value)
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (t *tagClauses) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	var byKey map[string]values
	d.Decode(n, &byKey)
	for key, want := range sorted(byKey) {
		if strings.TrimSpace(key) == "" {
			d.Faultf(n, "the key of a tag is empty")
		}
		*t = append(*t, tagClause{key: key, want: want})
	}
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (v *values) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		var written valueForm
		d.Decode(n, &written)
		*v = values{absent: written.Absent, pattern: written.Pattern}
	case yaml.SequenceNode:
		d.Decode(n, &v.of)
		if len(n.Content) == 0 {
			d.Faultf(n, "is empty: give it a value, or \"*\" for any")
		}
		for i, c := range n.Content {
			if c.Kind == yaml.ScalarNode && c.Value == "*" {
				d.In(index(i), func() { d.Faultf(c, `"*" means any value and stands alone, not in a list`) })
			}
		}
	default:
		if t, ok := d.Text(n); ok {
			*v = values{of: []string{t}}
			if t == "*" {
				*v = values{any: true}
			}
		}
	}
}

// valueForm is what can be asked of a tag beside its values.
type valueForm struct {
	Absent  bool     `yaml:"absent" doc:"The tag is not there."`
	Pattern *pattern `yaml:"pattern" doc:"The tag is there and this regular expression matches its whole value."`
}

// CheckYAML implements strictyaml.Checker.
func (v *valueForm) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	if len(n.Content) != 2 && onlyKeys(n, "absent", "pattern") {
		d.Faultf(n, "want one of absent: true and pattern, or a value, a list of values, or \"*\" for any")
	}
	onlyTrue(d, n, "absent", v.Absent)
}

// String says what is wanted of a tag: dev or ci.
func (v values) String() string {
	switch {
	case v.absent:
		return "absent"
	case v.any:
		return "any value"
	case v.pattern != nil:
		return "like " + v.pattern.text
	}
	texts := make([]string, len(v.of))
	for i, text := range v.of {
		texts[i] = quoted(text)
	}
	return strings.Join(texts, " or ")
}

// String says what is wanted of which tag: tag env=dev or env=ci.
func (c tagClause) String() string {
	switch {
	case c.want.absent:
		return "no tag " + c.key
	case c.want.any:
		return "tag " + c.key
	case c.want.pattern != nil:
		return "tag " + c.key + " like " + c.want.pattern.text
	}
	alternatives := make([]string, len(c.want.of))
	for i, value := range c.want.of {
		alternatives[i] = c.key + "=" + quoted(value)
	}
	return "tag " + strings.Join(alternatives, " or ")
}

// quoted makes an empty value visible.
func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " ,") {
		return `"` + s + `"`
	}
	return s
}
