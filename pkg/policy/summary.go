package policy

import (
	"fmt"
	"strings"

	"github.com/reaperd/reaperd/internal/duration"
	"github.com/reaperd/reaperd/pkg/providers"
)

// describe gives the policy with its effective values.
func (r *rule) describe() Policy {
	p := Policy{Name: r.Name, Source: r.source, Mode: r.Mode, Action: r.options, Summary: r.summary()}
	for i := range r.limits {
		p.Reasons = append(p.Reasons, r.limits[i].reasons()...)
	}
	return p
}

func (r *rule) summary() string {
	var b strings.Builder
	b.WriteString(r.Match.summary())
	for i := range r.Unless {
		b.WriteString(", unless " + r.Unless[i].summary())
	}
	b.WriteString(": " + strings.Join(r.limitsSummary(), ", "))
	o := r.options
	if r.Mode == Report {
		b.WriteString("; report only, would " + string(o.Action))
	} else {
		b.WriteString("; " + string(o.Action))
	}
	switch {
	case o.Action == providers.ActionPause:
	case o.Grace == 0:
		b.WriteString(" at once")
	default:
		b.WriteString(" with " + duration.Format(o.Grace) + " of grace")
	}
	if o.Volumes {
		b.WriteString(" and volumes")
	}
	if n := r.Action.Logs; n > 0 {
		fmt.Fprintf(&b, ", keeping %d lines of its output", n)
	}
	return b.String()
}

func (r *rule) limitsSummary() []string {
	var out []string
	for i := range r.limits {
		out = append(out, r.limits[i].String())
	}
	return out
}

// summary says in words what the selector selects.
func (s *selector) summary() string {
	var parts []string
	add := func(what, alternatives string) {
		if alternatives != "" {
			parts = append(parts, what+" "+alternatives)
		}
	}
	add("kind", orList(s.Kinds))
	add("on", orList(s.Providers))
	for _, t := range s.Tags {
		parts = append(parts, t.String())
	}
	add("named", orList(s.Names))
	add("from image", orList(s.Images))
	add("that is", orList(s.States))
	if s.When != nil {
		add("when", s.When.text)
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, ", ")
}

func (w word) String() string      { return w.text }
func (p pattern) String() string   { return p.text }
func (s stateWord) String() string { return string(s) }
func (k tagKey) String() string    { return string(k) }

func orList[T fmt.Stringer](alternatives []T) string { return join(alternatives, " or ") }

func join[T fmt.Stringer](items []T, with string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.String()
	}
	return strings.Join(texts, with)
}
