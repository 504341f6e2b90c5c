package simulation_test

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// patience is for how long all has to be well until a violator must be gone:
// a list that shows it, the brake, the longest pause between two tries, the
// time after a clock's step in which nothing is done, and the stops of others.
func (o *oracle) patience() time.Duration {
	return 2*o.scale.interval + o.scale.brake.Confirm + 15*time.Minute + 15*time.Minute + 15*time.Minute
}

// strict is the latest that the daemon can count from.
func (o *oracle) strict(l *life, b *box, disk *disk) basis {
	sb, now := b.sandbox, o.clock.Boot()
	k := basis{heard: o.stamp(o.upset+2*o.scale.tick, now), lease: o.tenant(sb.Tags[tagLease], now, now)}
	if b.kept.first != never {
		k.first = o.stamp(b.kept.first, now)
		if sb.Restarts > 0 { // it knows of a run what it saw of it
			k.run = b.kept.began
		}
	}
	if b.kept.state == sb.State {
		k.since = o.stamp(max(b.kept.since, b.entered()), now)
	}
	if len(b.beats) > 0 {
		k.beat = o.stamp(b.tried, now)
	}
	if kept, known := disk.leases[sb.Tags[tagLease]]; k.lease != nil && !k.lease.released.IsZero() && (!known || kept.Released.IsZero()) {
		// That it was let go of may have been forgotten in a crash.
		k.lease = &tenure{ends: o.clock.wallAt(now)}
	}
	k.ahead, _ = l.measured(b.place)
	k.skewed = k.ahead.Abs() > maxSkew
	return k
}

// overdue looks for violators that should be gone. The world is locked.
func (o *oracle) overdue(l *life) {
	if l == nil || l.dead {
		return
	}
	now := o.clock.Boot()
	then := now - o.patience()
	if o.upset > then {
		return
	}
	for _, p := range o.places {
		if p.dry || p.troubledUntil() > then {
			continue
		}
		for _, b := range p.recent {
			if !b.alive || b.settled() > then || b.deafUntil > then {
				continue
			}
			known := o.strict(l, b, l.disk)
			if known.skewed {
				continue // what its clock holds hides what else is due
			}
			o.checked.missed++
			// A time in the future may have come true meanwhile, and count anew.
			if len(l.book.due(b.sandbox, o.clock.wallAt(now), known)) == 0 {
				continue
			}
			for _, c := range l.book.due(b.sandbox, o.clock.wallAt(then), known) {
				o.wrong(b, "should be gone: by %s it is due since %s, and all is well since %s",
					c.rule.name, c.since.Format("01-02 15:04:05"), clockText(max(o.upset, p.troubledUntil(), b.settled(), b.deafUntil)))
				break
			}
		}
	}
}

// punctual is how late a stop may be when nothing at all is in its way.
const punctual = 2 * time.Minute

// prompt checks that a single violator goes at its deadline, not at the next
// list, and that no brake holds it.
func (o *oracle) prompt(l *life, b *box, now time.Duration) {
	if b.sandbox.Tags[tagProtect] == "true" {
		return // it was due when its protection ended
	}
	claims := o.books[len(o.books)-1].due(b.sandbox, o.clock.wallAt(now), o.strict(l, b, l.disk))
	var late time.Duration
	for _, c := range claims {
		if late = max(late, o.clock.wallAt(now).Sub(c.since)); !c.stamped {
			return
		}
	}
	due := now - late
	calm := due - o.patience()
	if len(claims) == 0 || max(o.upset, b.place.troubledUntil(), b.settled(), b.deafUntil) > calm {
		return
	}
	others := 0
	for _, f := range o.firsts[b.place] {
		if f.at > due-o.scale.brake.Window-o.scale.brake.Confirm {
			others++
		}
	}
	if others > o.scale.brake.MinCount {
		return
	}
	o.checked.prompt++
	if late > punctual {
		o.wrong(b, "goes %s late, with nothing in the way", late)
	}
}

// ended takes account of a life that is over: what it counted is what it wrote.
func (o *oracle) ended(l *life, inOrder bool) {
	o.checked.lives++
	o.upset = o.clock.Boot()
	if !inOrder || o.diskIll || l.reloaded {
		return
	}
	if counted, wrote := l.counted("reclaimed"), l.resolved["reclaimed"]; counted != wrote {
		o.wrong(nil, "daemon %d counted %d as reclaimed, and wrote %d", l.number, counted, wrote)
	}
}

// counted sums reclaims_total of an outcome.
func (l *life) counted(outcome string) int {
	n := 0.0
	each(l.reg, "reaperd_reclaims_total", func(labels map[string]string, value float64) {
		if labels["outcome"] == outcome {
			n += value
		}
	})
	return int(n)
}

// each gives the samples of one family of counters and gauges.
func each(reg *prometheus.Registry, name string, f func(labels map[string]string, value float64)) {
	families, err := reg.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			f(labels, m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
}

// account checks the history once all is over: nothing is open, and every end
// stands in it once.
func (o *oracle) account(d *disk) {
	reclaimed := map[*box]int{}
	for _, e := range slices.Concat(d.pruned, d.history) {
		b := o.place(e.Provider).incarnation(e.SandboxID, e.Revision)
		if e.Ended.IsZero() {
			o.wrong(b, "its intent %d was never resolved", e.ID)
		}
		if e.Outcome == "reclaimed" {
			reclaimed[b]++
		}
	}
	for _, p := range o.places {
		for _, b := range p.all {
			o.checked.born++
			o.checked.reclaimed += reclaimed[b]
			switch {
			case reclaimed[b] > b.ends:
				o.wrong(b, "stands %d times as reclaimed in history, and ended %d times", reclaimed[b], b.ends)
			case reclaimed[b] == 0 && b.ours > 0 && !o.diskIll: // two actions may be one reclaim
				o.wrong(b, "was reclaimed %d times, and history knows of none", b.ours)
			}
		}
	}
}
