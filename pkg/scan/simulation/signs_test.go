package simulation_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// badKey can name no lease.
const badKey = "not a key!"

// tenancy is the truth of one lease: what its holder did, and when.
type tenancy struct {
	key     string
	ttl     time.Duration
	renewed []time.Duration // every time that the daemon took it
	// released is when the holder let go of it; never: not since it was last
	// renewed.
	released time.Duration
}

// tenant is how a lease stands at now, as it was known by heard; nil if it was
// never made.
func (o *oracle) tenant(key string, heard, now time.Duration) *tenure {
	t := o.leases[key]
	if t == nil {
		return nil
	}
	if t.released != never && t.released <= heard {
		return &tenure{released: o.stamp(t.released, now)}
	}
	for _, renewed := range slices.Backward(t.renewed) {
		if renewed <= heard {
			return &tenure{ends: o.stamp(renewed, now).Add(t.ttl)}
		}
	}
	return nil
}

// lastBeat is the last heartbeat that was heard by a moment.
func (b *box) lastBeat(by time.Duration) time.Duration {
	for _, beat := range slices.Backward(b.beats) {
		if beat <= by {
			return beat
		}
	}
	return never
}

// hold has somebody hold a lease: renew it, be silent for a while, let go.
func (d *driver) hold(key string) {
	t := &tenancy{key: key, ttl: whole(d.scale.unit / 5), released: never}
	d.leases[key] = t
	pause := d.scale.unit / 12
	var again func()
	again = func() {
		if d.done {
			return
		}
		next := pause
		switch l := d.life; {
		case l == nil:
		case d.chance(0.01):
			d.story.tell("lease %s is released", key)
			_, err := l.loop.Heartbeats().Release(key, "somebody")
			d.mu.Lock()
			if err == nil && !l.dead && t.released == never { // to let go again changes nothing
				t.released = d.clock.Boot()
			}
			d.mu.Unlock()
			next = d.between(0, 3*d.scale.unit)
		case d.chance(0.02):
			d.story.tell("whoever holds lease %s falls silent", key)
			next = d.between(0, 3*d.scale.unit)
		default:
			_, _, err := l.loop.Heartbeats().Renew(key, t.ttl, "somebody")
			d.mu.Lock()
			if err == nil && !l.dead {
				t.renewed, t.released = append(t.renewed, d.clock.Boot()), never
			}
			d.mu.Unlock()
		}
		d.after(d.between(next/2, next), again)
	}
	d.after(d.between(0, pause), again)
}

// beat has a sandbox send heartbeats, and fall silent now and then.
func (d *driver) beat(b *box) {
	pause := d.scale.unit / 10
	var again func()
	again = func() {
		if d.done || !b.lives() {
			return
		}
		next := pause
		if d.chance(0.04) {
			b.tell("falls silent")
			next = d.between(0, 4*d.scale.unit)
		}
		d.pulse(b)
		d.after(d.between(next/2, next), again)
	}
	d.after(d.between(0, pause), again)
}

// pulse sends one heartbeat.
func (d *driver) pulse(b *box) {
	l := d.life
	d.mu.Lock()
	runs := b.sandbox.State == providers.StateRunning
	if runs && l != nil {
		b.tried = d.clock.Boot()
	}
	d.mu.Unlock()
	if l == nil || !runs {
		return
	}
	_, err := l.loop.Heartbeats().Beat(providers.Ref{Provider: b.place.name, ID: b.id}, "sim")
	d.mu.Lock()
	defer d.mu.Unlock()
	// Before this one was seen, the daemon takes it for the one before it.
	if err == nil && !l.dead && b.seenBy == l {
		b.beats = append(b.beats, d.clock.Boot())
		if len(b.beats)%20 == 1 {
			b.tell("beats, the %d. time", len(b.beats))
		}
	}
}

func leaseKey(n int) string { return fmt.Sprintf("lease-%d", n) }
