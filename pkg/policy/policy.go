package policy

import (
	"github.com/reaperd/reaperd/pkg/providers"
)

// Set is the compiled policies of all files. The zero value and nil have none:
// everything is unmatched. It is never changed once loaded, so that any number
// of goroutines may evaluate it.
type Set struct {
	protections []protection
	policies    []rule
	leads       leads
}

// Policy is one policy with its effective values.
type Policy struct {
	Name    string
	Source  string // file:line
	Mode    Mode
	Reasons []Reason // those it can give
	Action  providers.StopOptions
	Summary string // one plain line: what it matches, its limits, its action
}

// Policies gives the policies in the order of the files.
func (s *Set) Policies() []Policy {
	if s == nil {
		return nil
	}
	out := make([]Policy, len(s.policies))
	for i := range s.policies {
		out[i] = s.policies[i].describe()
	}
	return out
}
