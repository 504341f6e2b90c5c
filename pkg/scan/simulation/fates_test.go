package simulation_test

import (
	"fmt"
	"strconv"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// someTraits makes up what a provider is like.
func (d *driver) someTraits() traits {
	t := traits{
		latency: pick(d.dice, 20*time.Millisecond, 300*time.Millisecond, 3*time.Second),
		twice:   pick(d.dice, 0, 0.3), sayless: pick(d.dice, 0, 0.1, 0.4),
		stopping: pick(d.dice, 0, 0, 5*time.Second, 25*time.Second),
		skew:     pick(d.dice, 0, 0, -3*time.Second, 40*time.Second),
		tells:    d.chance(0.4), probes: d.chance(0.4),
	}
	if d.chance(0.4) {
		t.lagNew = d.between(0, d.scale.interval/2)
	}
	if d.chance(0.4) {
		t.lagGone = d.between(0, 2*d.scale.interval)
	}
	return t
}

// populate gives a place its first sandboxes, and keeps more coming.
func (d *driver) populate(p *place) {
	for range d.scale.fleet {
		d.born(p)
	}
	var come func()
	come = func() {
		if d.done {
			return
		}
		gap := 4 * d.scale.unit / time.Duration(d.scale.fleet)
		d.mu.Lock()
		if len(p.boxes) < d.scale.fleet {
			gap /= 4
		}
		d.mu.Unlock()
		d.born(p)
		if d.chance(0.03) { // many at once
			for range d.scale.fleet {
				d.born(p)
			}
		}
		d.after(d.between(0, 2*gap), come)
	}
	d.after(d.scale.interval, come)
}

// born puts a new sandbox into a place, and sees to its life.
func (d *driver) born(p *place) {
	d.mu.Lock()
	b := p.bear(fmt.Sprintf("%s-%d", p.name, p.births+1), d.newborn(p), "")
	d.mu.Unlock()
	d.lead(b)
	if d.chance(0.3) {
		d.beat(b)
	}
}

// newborn makes up a sandbox that comes to be now.
func (d *driver) newborn(p *place) providers.Sandbox {
	now := p.stamp(p.clock.Boot())
	sb := providers.Sandbox{State: providers.StateRunning, Created: now, Started: now, Tags: map[string]string{}}
	if d.chance(0.9) { // else it is tagged late, or never
		sb.Tags[tagTeam] = pick(d.dice, teams...)
	}
	if d.chance(0.8) {
		sb.Tags[tagOwner] = "somebody"
	}
	d.maybe(sb.Tags, 0.1, tagCursed, "yes")
	d.maybe(sb.Tags, 0.1, tagProtect, pick(d.dice, "true", "true", "yes", ""))
	d.maybe(sb.Tags, 0.2, tagEnv, pick(d.dice, "prod", "dev", "production"))
	d.maybe(sb.Tags, 0.3, tagTTL, d.wish())
	d.maybe(sb.Tags, 0.3, tagExpires, d.expiry(now))
	d.maybe(sb.Tags, 0.2, tagLease, pick(d.dice, leaseKey(0), leaseKey(1), leaseKey(2), leaseKey(3), badKey))
	if d.chance(0.02) {
		sb.Tags = nil
	}
	switch {
	case d.chance(0.08):
		sb.State, sb.Started = providers.StateCreated, time.Time{}
	case d.chance(0.05):
		sb.State = providers.StateStarting
	}
	if d.chance(p.traits.sayless) {
		sb.Created = d.garbage(now)
	}
	sb.Extra = runBegan(now)
	if d.chance(p.traits.sayless) {
		sb.Started, sb.Extra = d.garbage(now), nil
	}
	if d.chance(0.03) {
		sb.Owner = "swarm"
	}
	sb.Self = d.chance(0.01)
	return sb
}

func (d *driver) maybe(tags map[string]string, odds float64, key, value string) {
	if d.chance(odds) {
		tags[key] = value
	}
}

func (d *driver) wish() string {
	if d.chance(0.3) {
		return pick(d.dice, nonsense...)
	}
	return pick(d.dice, "90m", "6h", "1d", "1d12h", "2w")
}

func (d *driver) expiry(now time.Time) string {
	at := now.Add(d.between(-d.scale.unit/2, 6*d.scale.unit))
	return pick(d.dice, at.Format(time.RFC3339), strconv.FormatInt(at.Unix(), 10), "tomorrow", "9999999999999", "0")
}

// garbage is a time that says nothing.
func (d *driver) garbage(now time.Time) time.Time {
	return pick(d.dice,
		time.Time{}, time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Unix(0, 0).UTC(),
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), now.Add(d.between(time.Hour, 20*d.scale.unit)),
	)
}

// lead has things happen to a sandbox for as long as it is there.
func (d *driver) lead(b *box) {
	tempo := pick(d.dice, d.scale.unit/3, 2*d.scale.unit, 6*d.scale.unit, 12*d.scale.unit)
	var step func()
	step = func() {
		d.mu.Lock()
		reborn := (*box)(nil)
		if b.alive && !d.done {
			reborn = d.happen(b)
		}
		d.mu.Unlock()
		if reborn != nil {
			d.lead(reborn)
		}
		if b.lives() && !d.done {
			d.after(d.between(time.Second, 2*tempo), step)
		}
	}
	d.after(d.between(time.Second, 2*tempo), step)
}

// happen has one thing happen to a sandbox. If its id is used anew at once, it
// gives the one that has it. The world is locked.
func (d *driver) happen(b *box) *box {
	now := b.stamp(b.clock.Boot())
	state := b.sandbox.State
	up := state == providers.StateRunning || state == providers.StatePaused
	switch n := d.IntN(100); {
	case n < 12 && state == providers.StateRunning:
		d.restartBox(b, now)
	case n < 20 && up:
		b.end("stopped by its owner")
	case n < 35 && !up && state != providers.StateChanging:
		d.restartBox(b, now)
	case n < 42 && state == providers.StateRunning:
		b.freeze("paused by its owner", pick(d.dice, providers.StatePaused, providers.StatePaused, providers.StateSuspended))
	case n < 55 && (state == providers.StatePaused || state == providers.StateSuspended):
		b.change("resumed", func(sb *providers.Sandbox) { sb.State, sb.PausedSince = providers.StateRunning, time.Time{} })
	case n < 64:
		b.retag(tagTeam, pick(d.dice, teams...), d.chance(0.8))
	case n < 70:
		b.retag(tagProtect, pick(d.dice, "true", "true", "yes"), d.chance(0.6))
	case n < 74:
		b.retag(tagOwner, "somebody", d.chance(0.6))
	case n < 78:
		b.retag(tagEnv, pick(d.dice, "prod", "dev"), d.chance(0.6))
	case n < 82:
		b.retag(pick(d.dice, tagTTL, tagExpires), pick(d.dice, d.wish(), d.expiry(now)), d.chance(0.7))
	case n < 86:
		d.forAWhile(b, "goes over", func(sb *providers.Sandbox) { sb.State = providers.StateChanging })
	case n < 90:
		d.forAWhile(b, "cannot be read", func(sb *providers.Sandbox) { sb.State = providers.StateUnknown })
	case n < 92:
		d.forAWhile(b, "its tags cannot be read", func(sb *providers.Sandbox) { sb.Tags = nil })
	case n < 94:
		b.deafUntil = b.clock.Boot() + d.between(0, min(d.scale.unit, longestTrouble))
		b.tell("is deaf to stops until %s", clockText(b.deafUntil))
	case n < 96:
		b.die("removed by its owner")
		return b.place.bear(b.id, d.newborn(b.place), "with a used id")
	case n < 98:
		b.die("removed by its owner")
	default:
		d.crashLoop(b)
	}
	return nil
}

// restartBox starts a sandbox anew. The world is locked.
func (d *driver) restartBox(b *box, now time.Time) {
	b.change("started", func(sb *providers.Sandbox) {
		sb.State, sb.Started, sb.Ended, sb.PausedSince = providers.StateRunning, now, time.Time{}, time.Time{}
		sb.Restarts, sb.Extra = 0, runBegan(now)
		if d.chance(b.traits.sayless) {
			sb.Started, sb.Extra = d.garbage(now), nil
		}
	})
}

// runBegan notes the start of a run where only the oracle looks.
func runBegan(now time.Time) map[string]string {
	return map[string]string{tagRun: now.Format(time.RFC3339Nano)}
}

// forAWhile changes what a sandbox is, and changes it back, unless something
// else happens to it. The world is locked.
func (d *driver) forAWhile(b *box, why string, f func(sb *providers.Sandbox)) {
	before := b.sandbox
	b.change(why, f)
	changes := len(b.versions)
	d.after(d.between(time.Second, d.scale.unit), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if b.alive && len(b.versions) == changes {
			b.change("is as before", func(sb *providers.Sandbox) { *sb = before })
		}
	})
}

// crashLoop has the engine start a sandbox ever again. The world is locked.
func (d *driver) crashLoop(b *box) {
	if b.sandbox.State != providers.StateRunning || b.looping {
		return
	}
	b.looping = true
	pause := d.between(d.scale.interval/3, 3*d.scale.interval)
	until := d.timer() + d.between(0, 5*d.scale.unit)
	var again func()
	again = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !b.alive || !b.looping || b.sandbox.State != providers.StateRunning || d.done || d.timer() > until {
			b.looping = false
			return
		}
		b.change("crashed and was started by its engine", func(sb *providers.Sandbox) {
			sb.Started = b.stamp(b.clock.Boot())
			if sb.Restarts++; sb.Extra == nil { // what the provider first tells of the run
				sb.Extra = runBegan(sb.Started)
			}
		})
		d.after(d.between(pause/2, pause), again)
	}
	d.after(pause, again)
}
