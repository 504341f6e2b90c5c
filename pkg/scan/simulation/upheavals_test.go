package simulation_test

import "time"

// longestTrouble bounds what costs most to tell: tries that fail.
const longestTrouble = 8 * time.Hour

// plague brings trouble over a place from time to time.
func (d *driver) plague(p *place) {
	calm := d.judge.patience()
	var strike func()
	strike = func() {
		if d.done {
			return
		}
		long := d.between(time.Second, min(6*d.scale.interval, longestTrouble))
		if d.chance(0.2) {
			long = d.between(time.Second, min(3*d.scale.unit, longestTrouble))
		}
		d.mu.Lock()
		now := d.clock.Boot()
		t := trouble{pick(d.dice, allTroubles...), now, now + long, pick(d.dice, 1, 1, 0.5, 0.1)}
		p.troubles = append(p.troubles, t)
		right := p.traits.skew
		if t.what == clockWrong {
			p.traits.skew += pick[time.Duration](d.dice, 1, -1) * d.between(0, pick(d.dice, 2*maxSkew, 5*time.Hour))
		}
		d.story.tell("%s: %s (odds %g) until %s", p.name, t.what, t.odds, clockText(t.to))
		d.mu.Unlock()
		d.after(long, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			p.traits.skew = right
			if t.what == clockWrong { // at last: what slept meanwhile was late to mend it
				d.judge.upset = d.clock.Boot()
			}
			d.story.tell("%s: %s no more", p.name, t.what)
		})
		d.after(long+d.between(0, 2*calm+d.scale.span/12), strike)
	}
	d.after(d.between(0, d.scale.span/12), strike)
}

// upheavals are what happens to the daemon and its machine.
func (d *driver) upheavals() {
	for _, u := range []struct {
		often int // in a story
		do    func()
	}{
		{6, d.stepClock}, {2, d.suspend}, {5, d.crash}, {3, d.end}, {4, d.reload}, {2, d.spoilDisk},
	} {
		var again func()
		again = func() {
			if d.done {
				return
			}
			u.do()
			d.after(d.between(0, 2*d.scale.span/time.Duration(u.often)), again)
		}
		d.after(d.between(0, 2*d.scale.span/time.Duration(u.often)), again)
	}
}

// stepClock sets the wall clock wrong, or right.
func (d *driver) stepClock() {
	d.mu.Lock()
	defer d.mu.Unlock()
	wrong := d.clock.wrong()
	by := -wrong
	if wrong == 0 || d.chance(0.1) {
		by = pick(d.dice, 5*time.Second, 2*time.Minute, 20*time.Minute, 3*time.Hour, 26*time.Hour, 40*24*time.Hour)
		by += d.between(0, by)
		if d.chance(0.5) {
			by = -by
		}
	}
	d.clock.adjust(by)
	d.judge.upset = d.clock.Boot()
	d.story.tell("the wall clock is stepped by %s, and is now wrong by %s", by, d.clock.wrong())
	if d.clock.wrong() != 0 { // a wrong clock costs much to tell
		d.after(d.between(time.Second, min(2*d.scale.unit, longestTrouble)), func() {
			if d.clock.wrong() != 0 && !d.done {
				d.stepClock()
			}
		})
	}
}

// suspend puts the machine to sleep. What sleeps is the daemon's machine: the
// sandboxes run on.
func (d *driver) suspend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	long := pick(d.dice, 10*time.Second, 5*time.Minute, 3*time.Hour, 30*time.Hour)
	long += d.between(0, long)
	d.story.tell("the machine sleeps for %s", long)
	d.clock.sleep(long)
	d.judge.sleeps = append(d.judge.sleeps, offset{d.clock.Boot(), long})
	d.judge.upset = d.clock.Boot()
}

// The steps at which a daemon can be made to crash.
var crashPoints = []string{
	"before list", "before get", "before stop", "after stop", "before begin", "after begin", "before end", "after end",
	"before save", "after save", "before load", "after load",
}

// crash plans the daemon's end at one of its steps.
func (d *driver) crash() {
	if d.life == nil {
		return
	}
	if d.chance(0.2) {
		d.mu.Lock()
		d.life.crash("killed")
		d.mu.Unlock()
		return
	}
	d.life.plan(pick(d.dice, crashPoints...), 1+d.IntN(3))
}

// end ends the daemon in order, and starts another.
func (d *driver) end() {
	if d.life == nil {
		return
	}
	d.life.close()
	d.restart()
}

// reload gives the daemon other policies: new ones, or mistyped ones that are
// mended after a while.
func (d *driver) reload() {
	if d.book.mistyped {
		return
	}
	was := d.book
	d.book = newRulebook(d.dice, d.scale.unit, []string{d.places[0].name, d.places[1].name})
	if d.chance(0.5) {
		d.book = was.mistype()
		d.after(pick(d.dice, d.between(time.Second, 50*time.Second), d.between(time.Second, d.scale.unit)), func() {
			d.book = was
			d.tellReload()
		})
	}
	d.tellReload()
}

func (d *driver) tellReload() {
	if d.life == nil {
		return
	}
	d.mu.Lock()
	d.story.tell("reload%s", map[bool]string{true: ", with limits mistyped"}[d.book.mistyped])
	d.mu.Unlock()
	d.life.reload(d.book)
}

// spoilDisk makes the state fail for a while.
func (d *driver) spoilDisk() {
	if d.sound {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.disk.until = d.clock.Boot() + d.between(time.Second, 4*d.scale.interval)
	d.disk.failing, d.disk.hanging = pick(d.dice, 1, 0.5, 0.1), pick(d.dice, 0, 0, 0.3)
	d.judge.upset, d.judge.diskIll = d.disk.until, true
	d.story.tell("the disk fails (odds %g, hangs %g) until %s", d.disk.failing, d.disk.hanging, clockText(d.disk.until))
}
