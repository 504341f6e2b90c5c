package policy

import (
	"fmt"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// Trace is a decision with everything that went into it: every protection and
// every policy, whether or not it had a say.
type Trace struct {
	At          time.Time // the instant that was judged
	Decision    Decision
	Protections []ProtectionTrace // in the order of the files
	Policies    []PolicyTrace     // in the order of the files
}

// ProtectionTrace is what one entry of protect says.
type ProtectionTrace struct {
	Source  string // file:line
	Clauses []ClauseTrace
	// Keeps says that it keeps the sandbox at this instant. So does one of
	// which a clause cannot say whether it holds.
	Keeps bool
	// Until is the end of a bounded protection, past or not; zero: it has none,
	// or does not hit.
	Until time.Time
}

// PolicyTrace is what one policy says.
type PolicyTrace struct { //nolint:revive // a trace alone is that of the whole decision
	Name, Source string // Source is file:line
	Mode         Mode
	Action       providers.StopOptions
	// Applies says that all of Match hold and no entry of Unless may.
	Applies bool
	Match   []ClauseTrace
	Unless  [][]ClauseTrace // each entry with its clauses
	// Limits are its limits and tag rules, in the order in which equal
	// deadlines are decided. They are worked out also where the policy does not
	// apply.
	Limits []LimitTrace
}

// ClauseTrace is one clause: what it asks for, and what it found.
type ClauseTrace struct {
	Key    string // tags.env, names, …
	Line   int    // in the file
	Wants  string // dev or ci
	Saw    string // prod; "" if there was nothing to see
	Answer Answer
}

// Answer is what a clause says of a sandbox.
type Answer string

// The three answers. What cannot be said does not hold in match, and does in
// unless and protect.
const (
	Yes       Answer = "yes"
	No        Answer = "no"
	CannotSay Answer = "cannot say"
)

// LimitTrace is one limit or tag rule and its deadline.
type LimitTrace struct {
	Key    string // limits.max_uptime, tag_rules.require, …
	Line   int    // in the file
	Reason Reason // that it gives, or would
	Wants  string // at most 4h up
	// From names what Since is: started, created, first seen, …; "" if the
	// limit counts from nothing.
	From  string
	Since time.Time
	// Due is the deadline; zero: there is none, and Note says why.
	Due  time.Time
	Note string
}

// Part is a policy, a clause or a limit, for whoever wants to know which of
// them a set of cases reached.
type Part struct {
	// ID is its own and the same in every trace of a set: the source and name
	// of a policy, or the source and number of a protection, and the path of
	// keys within it.
	ID   string
	Line int
	// Reached says that this case put the part to use: the policy applies, the
	// clause of a match says yes, the entry of an unless or protect spares, the
	// limit is overstepped where its policy applies.
	Reached bool
}

// Parts gives every part of the set with whether this trace reached it.
func (t *Trace) Parts() []Part {
	var parts []Part
	add := func(reached bool, line int, format string, args ...any) {
		parts = append(parts, Part{ID: fmt.Sprintf(format, args...), Line: line, Reached: reached})
	}
	for i := range t.Protections {
		p := &t.Protections[i]
		for _, c := range p.Clauses {
			add(p.Keeps, c.Line, "%s: protect[%d].%s", p.Source, i, c.Key)
		}
	}
	for i := range t.Policies {
		p := &t.Policies[i]
		id := p.Source + ": " + p.Name
		add(p.Applies, 0, "%s", id)
		for _, c := range p.Match {
			add(c.Answer == Yes, c.Line, "%s: match.%s", id, c.Key)
		}
		for j, entry := range p.Unless {
			spares := leastOf(entry) != No
			for _, c := range entry {
				add(spares, c.Line, "%s: unless[%d].%s", id, j, c.Key)
			}
		}
		for _, l := range p.Limits {
			add(p.Applies && !l.Due.IsZero() && !l.Due.After(t.At), l.Line, "%s: %s", id, l.Key)
		}
	}
	return parts
}

// leastOf gives the weakest answer of a selector's clauses.
func leastOf(clauses []ClauseTrace) Answer {
	least := Yes
	for _, c := range clauses {
		switch c.Answer {
		case No:
			return No
		case CannotSay:
			least = CannotSay
		}
	}
	return least
}
