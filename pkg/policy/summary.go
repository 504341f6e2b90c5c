package policy

import (
	"strings"

	"github.com/reaperd/reaperd/internal/duration"
)

// describe gives the policy with its effective values.
func (r *rule) describe() Policy {
	p := Policy{Name: r.Name, Source: r.source, Mode: r.Mode, Action: r.options, Summary: r.summary()}
	for _, w := range r.written() {
		p.Reasons = append(p.Reasons, w.reason)
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
	if o.Grace == 0 {
		b.WriteString(" at once")
	} else {
		b.WriteString(" with " + duration.Format(o.Grace) + " of grace")
	}
	if o.Volumes {
		b.WriteString(" and volumes")
	}
	return b.String()
}

func (r *rule) limitsSummary() []string {
	var out []string
	if l := r.Limits; l != nil {
		if l.MaxUptime > 0 {
			out = append(out, "at most "+duration.Format(l.MaxUptime)+" up")
		}
		if l.MaxAge > 0 {
			out = append(out, "at most "+duration.Format(l.MaxAge)+" old")
		}
		if l.TTL != nil {
			out = append(out, "as long as its tag "+l.TTL.Tag+" says, at most "+duration.Format(l.TTL.Max))
		}
	}
	if t := r.TagRules; t != nil {
		keys := make([]string, len(t.Require))
		for i, k := range t.Require {
			keys[i] = string(k)
		}
		out = append(out, "tagged "+strings.Join(keys, " and ")+" within "+duration.Format(t.grace()))
	}
	return out
}

// summary says in words what the selector selects.
func (s *selector) summary() string {
	var parts []string
	add := func(what string, n int, text func(int) string) {
		if n == 0 {
			return
		}
		texts := make([]string, n)
		for i := range texts {
			texts[i] = text(i)
		}
		parts = append(parts, what+" "+strings.Join(texts, " or "))
	}
	add("kind", len(s.Kinds), func(i int) string { return s.Kinds[i].text })
	add("on", len(s.Providers), func(i int) string { return s.Providers[i].text })
	for _, t := range s.Tags {
		if t.want.any {
			parts = append(parts, "tag "+t.key)
			continue
		}
		add("tag", len(t.want.of), func(i int) string { return t.key + "=" + quoted(t.want.of[i]) })
	}
	add("named", len(s.Names), func(i int) string { return s.Names[i].text })
	add("that is", len(s.States), func(i int) string { return string(s.States[i]) })
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, ", ")
}

// quoted makes an empty value visible.
func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " ,") {
		return `"` + s + `"`
	}
	return s
}
