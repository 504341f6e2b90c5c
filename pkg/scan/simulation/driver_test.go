package simulation_test

import (
	"container/heap"
	"context"
	"fmt"
	"time"
)

// driver makes a story happen: one thing after the other, each at a moment of
// its own.
type driver struct {
	*world
	dice
	disk *disk
	book *rulebook
	life *life // nil while no daemon runs
	old  []*life

	queue agenda
	turn  int
	sound bool // the disk never fails
	done  bool // the story is told, and all is left to come to rest
}

// agenda is what is going to happen, a heap by when.
type agenda []appointment

type appointment struct {
	at   time.Duration // on the timers, which stand still in sleep
	turn int
	do   func()
}

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].turn < a[j].turn
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *agenda) Push(x any) { *a = append(*a, x.(appointment)) }

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// after has something happen a while from now.
func (d *driver) after(wait time.Duration, do func()) {
	d.turn++
	heap.Push(&d.queue, appointment{d.timer() + wait, d.turn, do})
}

// timer is what has passed on the timers.
func (d *driver) timer() time.Duration { return time.Since(d.clock.began) }

// tell runs one story, inside a bubble, and gives its world.
func tell(seed uint64) *world {
	dc := newDice(seed)
	sc := pick(dc, scales()...)
	w := newWorld(seed, sc)
	d := &driver{world: w, dice: dc, disk: newDisk()}
	names := []string{"east", "west"}
	if d.chance(0.3) {
		names = append(names, "dry")
	}
	for _, name := range names {
		w.add(name, d.someTraits(), name == "dry")
	}
	d.book = newRulebook(dc, sc.unit, names)
	d.sound = d.chance(0.6)
	for _, p := range w.places {
		d.populate(p)
		d.plague(p)
	}
	for n := range 3 {
		d.hold(leaseKey(n))
	}
	d.start()
	d.upheavals()
	d.after(sc.interval+time.Second, d.inspect)
	d.after(sc.span, d.rest)
	d.run()
	return w
}

// run makes things happen until there is nothing left to do.
func (d *driver) run() {
	for len(d.queue) > 0 && d.judge.problem == nil {
		next := d.queue[0]
		if d.wait(next.at - d.timer()) {
			d.restart()
			continue
		}
		heap.Pop(&d.queue)
		next.do()
	}
	if d.life != nil {
		d.life.close()
		d.old = append(d.old, d.life)
	}
	for _, l := range d.old {
		<-l.over
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.judge.problem == nil {
		d.judge.account(d.disk)
	}
}

// wait waits; true if the daemon crashed meanwhile.
func (d *driver) wait(left time.Duration) (crashed bool) {
	if d.life == nil {
		pass(context.Background(), left)
		return false
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-d.life.crashed:
		return true
	case <-t.C:
		return false
	}
}

// start begins a daemon's life.
func (d *driver) start() {
	number := len(d.old) + 1
	d.mu.Lock()
	d.story.tell("daemon %d starts", number)
	d.judge.reloaded(d.book)
	d.mu.Unlock()
	d.life = d.world.start(number, d.book, d.disk)
}

// restart follows a crash: another daemon, at once or after a while.
func (d *driver) restart() {
	d.old = append(d.old, d.life)
	d.life = nil
	d.after(pick(d.dice, time.Millisecond, time.Second, time.Minute, d.between(0, 2*d.scale.interval)), d.start)
}

// inspect looks for what was missed, ever again.
func (d *driver) inspect() {
	d.mu.Lock()
	d.judge.overdue(d.life)
	d.mu.Unlock()
	if !d.done || d.queue.Len() > 0 {
		d.after(d.scale.interval, d.inspect)
	}
}

// rest ends all troubles, waits until everything has to be in order, and ends.
func (d *driver) rest() {
	d.done = true
	d.mu.Lock()
	d.story.tell("all is well from now on")
	if d.life != nil {
		d.life.point = ""
	}
	for _, p := range d.places {
		for i := range p.troubles {
			p.troubles[i].to = min(p.troubles[i].to, d.clock.Boot())
		}
	}
	d.disk.until = 0
	d.mu.Unlock()
	d.after(d.judge.patience()+2*d.scale.interval, func() { d.queue = nil })
}

func (d *driver) String() string { return fmt.Sprintf("seed %d, %s", d.seed, d.scale.name) }
