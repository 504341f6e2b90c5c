package policy

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Explain judges as Evaluate does, and tells everything that went into it.
func (s *Set) Explain(f *Facts, now time.Time) Trace {
	t := Trace{At: now, Decision: s.Evaluate(f, now)}
	if s == nil {
		return t
	}
	now = now.Round(0)
	for i := range s.protections {
		t.Protections = append(t.Protections, s.protections[i].explain(f, now))
	}
	for i := range s.policies {
		t.Policies = append(t.Policies, s.policies[i].explain(f, now))
	}
	return t
}

func (p *protection) explain(f *Facts, now time.Time) ProtectionTrace {
	alone := Set{protections: []protection{*p}}
	g := alone.protection(f, &lookups{}, now)
	return ProtectionTrace{Source: p.source, Clauses: p.selector.explain(f, p.at), Keeps: g.keeps(), Until: g.until}
}

func (r *rule) explain(f *Facts, now time.Time) PolicyTrace {
	t := PolicyTrace{
		Name: r.Name, Source: r.source, Mode: r.Mode, Action: r.options,
		Applies: r.applies(f, &lookups{}) == yes, Match: r.Match.explain(f, valueOf(r.at, "match")),
	}
	for i := range r.Unless {
		t.Unless = append(t.Unless, r.Unless[i].selector.explain(f, r.Unless[i].at))
	}
	o := origin{now: now, firstSeen: f.Pulse.FirstSeen, state: setOf(f.State)}
	for i := range r.limits {
		l := &r.limits[i]
		v := l.judge(f, &o)
		if r.satisfied&o.state != 0 && v.none == "" {
			v = ruling{none: "to " + string(r.options.Action) + " it would change nothing"}
		}
		lt := LimitTrace{Key: l.key, Line: l.at.Line, Reason: l.reason, Wants: l.String(), From: v.from, Since: v.since, Due: v.due, Note: v.none}
		if v.reason != "" {
			lt.Reason = v.reason
		}
		if v.none == notJudged {
			lt.Note = "not judged in state " + string(f.State)
		}
		t.Limits = append(t.Limits, lt)
	}
	return t
}

// explain gives the answer of each clause by itself. at is where the selector
// stands.
func (s *selector) explain(f *Facts, at *yaml.Node) []ClauseTrace {
	var out []ClauseTrace
	add := func(n *yaml.Node, key, wants, saw string, a answer) {
		out = append(out, ClauseTrace{Key: key, Line: n.Line, Wants: wants, Saw: saw, Answer: a.word()})
	}
	if s.Everything {
		add(valueOf(at, "everything"), "everything", "true", "", yes)
	}
	for i := range s.Tags {
		c := &s.Tags[i]
		one := selector{Tags: tagClauses{*c}}
		saw, present := f.Tags[c.key]
		if present {
			saw = quoted(saw)
		}
		add(valueOf(valueOf(at, "tags"), c.key), "tags."+c.key, c.want.String(), saw, one.ask(f, nil))
	}
	if len(s.Names) > 0 {
		add(valueOf(at, "names"), "names", orList(s.Names), f.Name, s.askName(f.Name))
	}
	if len(s.Images) > 0 {
		saw := familiar(f.Image).String()
		if saw == "" {
			saw = f.Image
		}
		add(valueOf(at, "images"), "images", orList(s.Images), saw, s.askImage(f.Image))
	}
	if len(s.Kinds) > 0 {
		add(valueOf(at, "kinds"), "kinds", orList(s.Kinds), f.Kind, oneOf(s.Kinds, f.Kind))
	}
	if len(s.Providers) > 0 {
		add(valueOf(at, "providers"), "providers", orList(s.Providers), f.Provider, oneOf(s.Providers, f.Provider))
	}
	if len(s.States) > 0 {
		add(valueOf(at, "states"), "states", orList(s.States), string(f.State), answerOf(slices.Contains(s.States, stateWord(f.State))))
	}
	if s.When != nil {
		add(s.When.at, "when", s.When.text, "", s.When.ask(f, &lookups{}))
	}
	return out
}

func (a answer) word() Answer {
	switch a {
	case yes:
		return Yes
	case no:
		return No
	default:
		return CannotSay
	}
}
