package policy

import (
	"slices"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// Facts is all that a decision is made of: the sandbox as its provider showed
// it, and what reaperd itself remembers of it.
type Facts struct {
	providers.Sandbox
	Pulse Pulse
}

// Pulse is what reaperd itself remembers of a sandbox.
type Pulse struct {
	// FirstSeen is when reaperd first saw it; zero: not known.
	FirstSeen time.Time
}

// No sandbox is older than the first of these, and none will be made after the
// second. What lies outside is a zero in somebody's units (year 1, 1970),
// milliseconds read as seconds, or a vendor's word for never (year 9999).
var (
	firstPlausible = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	lastPlausible  = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)
)

func plausible(t time.Time) bool {
	return !t.Before(firstPlausible) && t.Before(lastPlausible)
}

// origin finds what limits count from, and notes on the way what it could not
// believe.
type origin struct {
	now, firstSeen time.Time
	// unbelieved: a time of the provider's could not be used.
	unbelieved bool
	// blind: nor could first seen, so that there was nothing to count from.
	blind bool
	// turn is the earliest time that is not believed only because it lies in
	// the future: when it comes, a verdict can change. Zero: none.
	turn time.Time
	// unclear are the keys of tags that could not be understood.
	unclear []string
}

// malformed notes a tag that cannot be understood.
func (o *origin) malformed(key string) {
	if !slices.Contains(o.unclear, key) {
		o.unclear = append(o.unclear, key)
	}
}

// from gives the provider's time t if it can be believed, else first seen, and
// says which: name or "first seen". Neither can: zero and "".
func (o *origin) from(t time.Time, name string) (time.Time, string) {
	if plausible(t) {
		if !t.After(o.now) {
			return t, name
		}
		o.turn = earlier(o.turn, t)
	}
	o.unbelieved = true
	if plausible(o.firstSeen) {
		return o.firstSeen, "first seen"
	}
	o.blind = true
	return time.Time{}, ""
}

// earlier gives the earlier of two times, of which a zero one counts as never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
