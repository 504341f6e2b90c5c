package simulation_test

import (
	"context"
	"sync"
	"time"

	"github.com/reaperd/reaperd/pkg/scan"
)

// clock is the machine's clocks in a bubble of virtual time. What passes is
// true time, which is also the time since boot; the wall clock is that with an
// offset, which anybody may change.
type clock struct {
	scan.SystemClock // for its timers, which stand still while the machine sleeps

	began   time.Time     // of the bubble
	longest time.Duration // of a single wait

	mu     sync.Mutex
	timers int
	slept  time.Duration
	// offsets are those of the wall clock, each from a moment on.
	offsets []offset
}

type offset struct {
	at time.Duration // in true time
	by time.Duration
}

// epoch is what a true wall clock shows at the start of a story. Bubbles begin
// in the year 2000, before which no time is believed.
var epoch = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)

func newClock(longest time.Duration) *clock {
	return &clock{began: time.Now(), longest: longest, offsets: []offset{{}}}
}

// After gives every timer a few nanoseconds of its own, so that no two of the
// daemon's come at the same instant, in whatever order.
func (c *clock) After(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	c.timers++
	own := time.Duration(c.timers % 1009)
	c.mu.Unlock()
	return c.SystemClock.After(d + own)
}

// LongestWait spares a quiet year its million waits.
func (c *clock) LongestWait() time.Duration { return c.longest }

// Boot is the true time since the start of the story.
func (c *clock) Boot() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.truth()
}

// BootID is that of a machine that is never started again.
func (c *clock) BootID() string { return "story" }

func (c *clock) truth() time.Duration { return time.Since(c.began) + c.slept }

// Now is what the wall clock shows.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shows(c.truth())
}

// wallAt is what the wall clock showed at a true time.
func (c *clock) wallAt(at time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shows(at)
}

func (c *clock) shows(at time.Duration) time.Time {
	for i := len(c.offsets) - 1; i > 0; i-- {
		if c.offsets[i].at <= at {
			return epoch.Add(at + c.offsets[i].by)
		}
	}
	return epoch.Add(at)
}

// wrong is by how much the wall clock is ahead of the truth.
func (c *clock) wrong() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offsets[len(c.offsets)-1].by
}

// adjust steps the wall clock.
func (c *clock) adjust(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.offsets[len(c.offsets)-1].by
	c.offsets = append(c.offsets, offset{c.truth(), last + by})
}

// sleep lets the machine sleep, or be stopped: both clocks go on, no timer does.
func (c *clock) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slept += d
}

// pass lets d pass on the timers; false if ctx ended before.
func pass(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
