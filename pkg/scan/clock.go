package scan

import (
	"context"
	"time"
)

// Clock tells the wall time and waits. It is the only way in which this
// package learns of time, and this the only file that reads the machine's.
type Clock interface {
	// Now is the wall time, without a monotonic reading: two readings differ
	// by what the wall clock did in between, sleep of the machine included.
	Now() time.Time
	// Boot is the time since some instant in the past, sleep of the machine
	// included: it goes on evenly whatever is done to the wall clock.
	Boot() time.Duration
	// BootID names what Boot counts from: two processes in which it is the same
	// count from the same instant. "": nobody can say.
	BootID() string
	// After gives a channel that receives once d has passed, and a function
	// that gives up the wait.
	After(d time.Duration) (<-chan time.Time, func())
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now is the machine's wall time.
func (SystemClock) Now() time.Time { return time.Now().Round(0) }

// Boot is the time since the machine started.
func (SystemClock) Boot() time.Duration { return sinceBoot() }

// BootID names the machine's run.
func (SystemClock) BootID() string { return bootID() }

// After waits on the machine's monotonic clock.
func (SystemClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// longestWait bounds a single wait, because timers stand still while the
// machine sleeps: after each the wall clock is read again.
const longestWait = 30 * time.Second

// restless is a Clock that says itself how long a single wait on it may be:
// one that runs through a year in a second, say.
type restless interface{ LongestWait() time.Duration }

func longest(c Clock) time.Duration {
	if r, ok := c.(restless); ok {
		return r.LongestWait()
	}
	return longestWait
}

// wake is what ended a wait.
type wake int

const (
	ended   wake = iota // the context
	elapsed             // the time
	poked               // somebody who wants a scan
	stirred             // somebody who knows of a change
	landed              // a reclaim that is over
)

// waitUntil waits for the wall clock to reach at. A wall clock that is set
// back meanwhile makes it wait no more than late longer than it seemed at
// first.
func waitUntil(ctx context.Context, c Clock, at time.Time, late time.Duration, rouse rousers) wake {
	most := at.Sub(c.Now()) + late
	for {
		left := min(at.Sub(c.Now()), most)
		if left <= 0 {
			if ctx.Err() != nil {
				return ended
			}
			return elapsed
		}
		step := min(left, longest(c))
		if w := wait(ctx, c, step, rouse); w != elapsed {
			return w
		}
		most -= step
	}
}

// rousers end a wait early. A nil channel does not.
type rousers struct{ poke, stir, land <-chan struct{} }

// wait waits for d, or for what comes first.
func wait(ctx context.Context, c Clock, d time.Duration, rouse rousers) wake {
	passed, giveUp := c.After(d)
	defer giveUp()
	select {
	case <-ctx.Done():
		return ended
	case <-rouse.poke:
		return poked
	case <-rouse.stir:
		return stirred
	case <-rouse.land:
		return landed
	case <-passed:
		return elapsed
	}
}
