package policy

import "slices"

// ReadsActivity says whether a policy limits the idleness of the sandbox, so
// that somebody has to find out when it was last active: to ask for it may cost
// something, and of a sandbox for which it says no nothing depends on it.
func (s *Set) ReadsActivity(f *Facts) bool {
	if s == nil || f.Self || f.Owner != "" || setOf(f.State)&runningState == 0 {
		return false
	}
	var looked lookups
	for i := range s.policies {
		r := &s.policies[i]
		if slices.ContainsFunc(r.limits, func(l limit) bool { return l.reason == MaxIdle }) && r.applies(f, &looked) == yes {
			return true
		}
	}
	return false
}
