package simulation_test

import (
	"fmt"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// oracle says what the daemon may do and what it must have done. It knows the
// truth, and shares no code with what it judges.
type oracle struct {
	*world
	books  []bookmark
	sleeps []offset // when the machine slept, and for how long
	// upset is when something last happened that any provider's reclaims may
	// be late for: a daemon's start, a clock's step, other policies.
	upset time.Duration
	// diskIll says that the state failed at some time of the story.
	diskIll bool
	firsts  map[*place][]first
	problem *problem
	checked figures
}

// bookmark is the policies from a moment on.
type bookmark struct {
	at time.Duration
	*rulebook
}

// first is the first time that a life told a sandbox to stop.
type first struct {
	at time.Duration
	*box
	fresh bool // it had not been due for as long as the brake holds
}

// problem is what the daemon did wrong.
type problem struct {
	*box
	what string
}

// figures are how much was checked.
type figures struct{ stops, missed, prompt, lists, lives, born, reclaimed int }

func newOracle(w *world) *oracle { return &oracle{world: w, firsts: map[*place][]first{}} }

func (o *oracle) wrong(b *box, format string, args ...any) {
	if o.problem != nil {
		return // what came of it is no news
	}
	o.problem = &problem{b, fmt.Sprintf(format, args...)}
	if b != nil {
		b.tell("WRONG: %s", o.problem.what)
	}
}

func (o *oracle) reloaded(book *rulebook) {
	o.upset = o.clock.Boot()
	o.books = append(o.books, bookmark{o.upset, book})
}

// looking is how old what the daemon knows of a sandbox may be when it tells it
// to stop: an answer that takes as long as it may, and an intent that does.
const looking = callTimeout + 5*time.Second

// recently is the moment since when that much has passed on the timers.
func (o *oracle) recently(now, d time.Duration) time.Duration {
	from := now - d
	for i := len(o.sleeps) - 1; i >= 0 && o.sleeps[i].at >= from; i-- {
		from -= o.sleeps[i].by
	}
	return from
}

// arrival judges a stop that reached a provider. The world is locked.
func (o *oracle) arrival(l *life, b *box, action string) {
	o.checked.stops++
	now := o.clock.Boot()
	listed, ok := l.lists[b.place.name]
	switch {
	case b.place.dry:
		o.wrong(b, "told to %s in a dry run", action)
	case !ok || listed != nil:
		o.wrong(b, "told to %s while the provider could not be listed", action)
	}
	if sick := l.ailment(b.place).since; sick != never && l.looks[b.place.name+"/"+b.id] > sick {
		o.wrong(b, "told to %s on a provider that is not fit since %s", action, clockText(sick))
	}
	if why := o.keeps(l, b, action, now); why != "" {
		o.wrong(b, "told to %s, and is to be kept: %s", action, why)
	}
	l.stopped[b]++
	if l.stopped[b] == 1 {
		o.brake(l, b, now)
		o.prompt(l, b, now)
	}
}

// keeps says why the sandbox may not be told to do this; "" if it may. It may
// if that was right at any moment that the daemon may have seen last.
func (o *oracle) keeps(l *life, b *box, action string, now time.Duration) string {
	since := o.recently(now, looking)
	for i, book := range o.books {
		if i+1 < len(o.books) && o.books[i+1].at < since {
			continue
		}
		if o.dueWithin(l, book.rulebook, b, since, now, action) {
			return ""
		}
	}
	return fmt.Sprintf("it is %s at %s", show(b.sandbox), o.clock.wallAt(now))
}

// dueWithin says whether the sandbox was due for the action at any moment
// between two; for any action if that is "".
func (o *oracle) dueWithin(l *life, book *rulebook, b *box, from, to time.Duration, action string) bool {
	for i, v := range b.versions {
		ends := to
		if i+1 < len(b.versions) {
			ends = min(to, b.versions[i+1].at)
		}
		begins := max(from, v.at)
		if begins > ends {
			continue
		}
		for _, at := range []time.Duration{begins, ends} {
			wall, leap := o.clock.wallAt(at), o.leap(l, at)
			for _, heard := range []time.Duration{from, at} { // heartbeats and releases that were on their way
				k := o.lenient(l, b, v.Sandbox, heard, at)
				claims := book.due(v.Sandbox, wall, k)
				k.run = time.Time{} // of which the daemon may not know
				for _, c := range append(claims, book.due(v.Sandbox, wall, k)...) {
					if (action == "" || c.rule.action == action) && (c.released || !c.since.After(wall.Add(-leap))) {
						return true
					}
				}
			}
		}
	}
	return false
}

// lenient is the earliest that the daemon can have come to know of it by heard.
// What it stamped itself is true to within what it bears of a wrong clock.
func (o *oracle) lenient(l *life, b *box, sb providers.Sandbox, heard, now time.Duration) basis {
	k := basis{
		first: o.stamp(b.shown.first, now), beat: o.stamp(b.lastBeat(heard), now), lease: o.tenant(sb.Tags[tagLease], heard, now),
		slack: 3*o.scale.tick + maxSkew,
	}
	if b.shown.state == sb.State {
		k.since = o.stamp(b.shown.since, now)
	}
	if len(l.outages) == 0 || l.deaf > heard { // it was judged when it still heard
		k.heard = o.stamp(o.listening(l), now)
	}
	if sb.Restarts > 0 {
		// Of one that its owner and then its engine started between two looks
		// nobody can say that it is not the run before.
		k.run = b.stamp(b.born)
	}
	k.ahead, _ = l.measured(b.place)
	k.skewed = k.ahead.Abs() > maxSkew
	return k
}

// stamp is what the wall clock would have shown at a true time, were it always
// as wrong as it is now; zero for never.
func (o *oracle) stamp(at, now time.Duration) time.Time {
	if at == never {
		return time.Time{}
	}
	return o.clock.wallAt(now).Add(at - now)
}

// listening is since when the daemon hears without a break: its own start, the
// end of a sleep, of an outage of its state.
func (o *oracle) listening(l *life) time.Duration {
	heard := l.heard
	for _, s := range o.sleeps {
		if s.by > 3*o.scale.tick {
			heard = max(heard, s.at)
		}
	}
	return heard
}

// leap is by how much the wall clock is ahead of what it showed before it was
// last set, if that was in the quarter of an hour before and seen by this
// daemon: what only that makes due is held. There and back again is none.
func (o *oracle) leap(l *life, now time.Duration) time.Duration {
	last := 0
	for i, off := range o.clock.offsets {
		if off.at <= now {
			last = i
		}
	}
	set := o.clock.offsets[last]
	if last == 0 || set.at <= now-15*time.Minute || set.at <= l.began+time.Second {
		return 0
	}
	before := o.clock.offsets[last-1].by
	for i := last - 1; i > 0 && o.clock.offsets[i].at > now-time.Hour; i-- {
		before = max(before, o.clock.offsets[i-1].by)
	}
	if by := set.by - before; by > maxSkew {
		return by
	}
	return 0
}

// brake checks that not too many go at once that were not due for a while.
func (o *oracle) brake(l *life, b *box, now time.Duration) {
	opts := o.scale.brake
	before := now - opts.Confirm
	fresh := l.began > before || !o.dueAt(l, b, before)
	for _, c := range l.book.due(b.sandbox, o.clock.wallAt(now), o.lenient(l, b, b.sandbox, o.recently(now, looking), now)) {
		fresh = fresh && !c.released // which no brake holds
	}
	o.firsts[b.place] = append(o.firsts[b.place], first{now, b, fresh})
	if o.upset > now-opts.Window && o.stepped(now-opts.Window) {
		return // the daemon's window is not this one
	}
	since, n := max(now-opts.Window+opts.Window/4, l.began), 0
	for _, f := range o.firsts[b.place] {
		if f.fresh && f.at > since {
			n++
		}
	}
	ran := 0
	for _, other := range b.place.all {
		if other.alive || other.died > now-opts.Window-2*o.scale.interval-b.traits.lagGone {
			ran++
		}
	}
	if most := max(opts.MinCount, int(opts.MaxFraction*float64(ran))); fresh && n > most {
		o.wrong(b, "is the %d. to go in a while that was not due for long, of %d", n, ran)
	}
}

// dueAt says whether the sandbox was due at all at a moment.
func (o *oracle) dueAt(l *life, b *box, at time.Duration) bool {
	for i := len(o.books) - 1; i >= 0; i-- {
		if o.books[i].at <= at {
			return o.dueWithin(l, o.books[i].rulebook, b, at, at, "")
		}
	}
	return false
}

// stepped says whether the wall clock was stepped, or slept, since.
func (o *oracle) stepped(since time.Duration) bool {
	last := o.clock.offsets[len(o.clock.offsets)-1].at
	return last > since || len(o.sleeps) > 0 && o.sleeps[len(o.sleeps)-1].at > since
}

// listed takes notice of a list that reached the daemon.
func (o *oracle) listed(c *line, all []providers.Sandbox, err error) {
	o.checked.lists++
	name := c.place.name
	before, known := c.life.lists[name]
	c.life.lists[name] = err
	if err != nil {
		if !known || before == nil {
			o.story.tell("%s cannot be listed: %v", name, err)
		}
		return
	}
	if !known || before != nil {
		o.story.tell("%s is listed", name)
	}
	here := make(map[*box]bool, len(all))
	for _, sb := range all {
		b := c.incarnation(sb.ID, sb.Revision)
		if here[b] {
			continue
		}
		here[b] = true
		b.see(c.life, sb)
		if b.last != string(sb.State) {
			b.last = string(sb.State)
			b.tell("listed as %s", sb.State)
		}
	}
	for _, b := range c.recent {
		if !here[b] && b.last != "" {
			b.last = ""
			b.tell("not in the list")
		}
	}
}
