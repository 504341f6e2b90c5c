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

// Pulse is what reaperd itself remembers of a sandbox. Its times are reaperd's
// own; whoever keeps it sees to it that none lies in the future. Zero: not
// known, and whatever needs it has no deadline.
type Pulse struct {
	// FirstSeen is when reaperd first saw it.
	FirstSeen time.Time `json:"first_seen,omitzero"`
	// StateSince is when reaperd first saw it in the state in which it now is.
	StateSince time.Time `json:"state_since,omitzero"`
	// LastBeat is the last heartbeat for the sandbox itself, none before its
	// present revision. What renews a lease shows in the end of that.
	LastBeat time.Time `json:"last_beat,omitzero"`
	// BlindUntil is when reaperd last began to hear heartbeats again: its
	// start, the end of an outage of its store, or of a pause in its own
	// clock. While it is zero nothing listens, and no heartbeat limit judges.
	BlindUntil time.Time `json:"blind_until,omitzero"`
	// Leases are all that cover it, by its tag or by adoption, also those that
	// are over.
	Leases []Lease `json:"leases,omitempty"`
}

// Lease is somebody's claim that a sandbox is in use.
type Lease struct {
	Key string `json:"key"`
	// Ends is when it ends unless it is renewed; zero: never, as far as can be
	// told.
	Ends time.Time `json:"ends,omitzero"`
	// Released is when its holder let go of it; zero: not yet.
	Released time.Time `json:"released,omitzero"`
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
	state          stateSet // the one that holds
	heartbeats     bool     // no other limits are looked at
	// unbelieved: a time of the provider's could not be used.
	unbelieved bool
	// blind: nor could first seen, so that there was nothing to count from.
	blind bool
	// turn is the earliest time that is not believed only because it lies in
	// the future: when it comes, a verdict can change. Zero: none.
	turn time.Time
	// unsaid: the tags that a limit reads were not told.
	unsaid bool
	// unclear are the keys of tags that could not be understood.
	unclear []string
}

// malformed notes a tag that cannot be understood.
func (o *origin) malformed(key string) {
	if !slices.Contains(o.unclear, key) {
		o.unclear = append(o.unclear, key)
	}
}

// believes says whether the provider's time t can be so.
func (o *origin) believes(t time.Time) bool {
	if !plausible(t) {
		return false
	}
	if t.After(o.now) {
		o.turn = earlier(o.turn, t)
		return false
	}
	return true
}

// from gives the provider's time t if it can be believed, else first seen, and
// says which: name or "first seen". Neither can: zero and "".
func (o *origin) from(t time.Time, name string) (time.Time, string) {
	if o.believes(t) {
		return t, name
	}
	o.unbelieved = true
	if plausible(o.firstSeen) {
		return o.firstSeen, "first seen"
	}
	o.blind = true
	return time.Time{}, ""
}

// fromState is from for the time at which the present state began, of which
// reaperd itself may know more than the provider tells.
func (o *origin) fromState(t time.Time, name string, stateSince time.Time) (time.Time, string) {
	if !o.believes(t) && plausible(stateSince) {
		o.unbelieved = o.unbelieved || !t.IsZero()
		return stateSince, "in this state"
	}
	return o.from(t, name)
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
