// Package lease has the rules of leases: somebody's claim, under a key, that
// the sandboxes which name it are in use. It does no I/O and reads no clock;
// who keeps leases over a restart, and who hears heartbeats, is others' to do.
package lease

import (
	"errors"
	"time"
)

// Lease is a claim that ends one TTL after it was last renewed. Its times are
// reaperd's own; a zero one has not come.
type Lease struct {
	Key string
	TTL time.Duration
	// Created is when it was made, or made anew after it was let go of.
	Created time.Time
	Renewed time.Time // the last heartbeat
	// Released is when its holder let go of it: what it covers is due at once.
	Released time.Time
	// Forgotten is when it was taken out of the judging: it then neither keeps
	// nor ends what names it.
	Forgotten time.Time
	By        string // who renewed, released or forgot it last
	// Origin is of what the times are, as the lease is kept.
	Origin Origin
}

// move moves its times.
func (l *Lease) move(by time.Duration) {
	for _, t := range []*time.Time{&l.Created, &l.Renewed, &l.Released, &l.Forgotten} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
}

// State is how a lease stands at one instant.
type State string

// Every lease is in exactly one of these.
const (
	Live      State = "live"
	Expired   State = "expired"
	Released  State = "released"
	Forgotten State = "forgotten"
)

// States gives all states.
func States() []State { return []State{Live, Expired, Released, Forgotten} }

var (
	// ErrKey says that a key cannot name a lease.
	ErrKey = errors.New("a lease's key is 1 to 64 of A-Z, a-z, 0-9, dot, underscore and hyphen")
	// ErrTTL says that a lease was asked for that would end when it begins.
	ErrTTL = errors.New("a lease's ttl has to be more than zero")
	// ErrUnknown says that there is no such lease, or that it was forgotten.
	ErrUnknown = errors.New("there is no such lease")
	// ErrFull says that there are too many leases for a new one. Those that
	// exist can still be renewed.
	ErrFull = errors.New("there are too many leases for a new one: somebody makes keys without end")
)

// Ends is when it ends, or ended, unless it is renewed.
func (l Lease) Ends() time.Time { return l.Renewed.Add(l.TTL) }

// State says how the lease stands at now.
func (l Lease) State(now time.Time) State {
	switch {
	case !l.Forgotten.IsZero():
		return Forgotten
	case !l.Released.IsZero():
		return Released
	case now.Before(l.Ends()):
		return Live
	default:
		return Expired
	}
}

// over gives since when the lease covers nothing more; one that is live gives
// a time in the future.
func (l Lease) over() time.Time {
	switch {
	case !l.Forgotten.IsZero():
		return l.Forgotten
	case !l.Released.IsZero():
		return l.Released
	default:
		return l.Ends()
	}
}

// changed gives when somebody last did something about it.
func (l Lease) changed() time.Time {
	last := l.Renewed
	for _, t := range []time.Time{l.Released, l.Forgotten} {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// pull brings times that lie in the future back to now, and says whether there
// were any. They are left from before a clock was set back, and without it a
// lease that nobody renews would live on for as long as the step was.
func (l *Lease) pull(now time.Time) bool {
	pulled := false
	for _, t := range []*time.Time{&l.Created, &l.Renewed, &l.Released, &l.Forgotten} {
		if t.After(now) {
			*t, pulled = now, true
		}
	}
	return pulled
}
