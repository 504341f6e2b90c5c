package scan

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/lease"
)

// The clock guard's measures.
const (
	// defaultTick is how often the guard looks at the clocks by itself.
	defaultTick = time.Second
	// lateTicks is after how many of them without a look reaperd was not
	// there: the machine slept, or reaperd was stopped or starved.
	lateTicks = 3
	// stepHold is for how long what a step of the wall clock made due is held.
	stepHold = 15 * time.Minute
	// smallestMove is how far the wall clock has to be set for our own stamps to
	// follow it; what is less may be the time between two readings.
	smallestMove = time.Second
)

// moment is one look at the clocks and what the guard makes of it.
type moment struct {
	now time.Time
	// heard is since when heartbeats could be heard without a break; zero:
	// they can not.
	heard time.Time
	// step is by how much the wall clock was set forward not long ago, and
	// held until when that is distrusted.
	step time.Duration
	held time.Time
	// origin moves when the wall clock is set: what reaperd stamped itself moves
	// along, and is as long ago as it is.
	origin lease.Origin
	// ahead is by how much the provider's clock is ahead of ours.
	ahead time.Duration
	// skewed says that this is too much for the provider's times to be used.
	skewed bool
}

// stepped says whether a deadline is due only because the clock was set.
func (m moment) stepped(due time.Time) bool {
	return m.step > 0 && due.After(m.now.Add(-m.step))
}

// guard watches the wall clock against the boot clock. A wall clock that was
// set makes ages wrong, and a break in which reaperd did not run made it deaf
// to heartbeats: both look the same to a limit, and neither may kill.
//
// It looks by itself every tick, and whoever judges looks first, so that no
// judgement is made by a clock that nobody has looked at since it was set.
type guard struct {
	clock   Clock
	tick    time.Duration
	log     *zap.Logger
	metrics *Metrics

	mu        sync.Mutex
	maxSkew   time.Duration
	listening bool
	outages   map[string]bool // uses of the memory that fail
	heard     time.Time
	watching  bool // it looks by itself, so that a long time between two looks is a break
	breaks    int  // how often it could not hear for a while

	looked   bool      // since it watches
	wall     time.Time // at the last look
	boot     time.Duration
	origin   time.Time              // what the wall clock showed at boot, as it is believed
	zero     time.Time              // what it showed at boot, as our own stamps are of
	onMove   func(by time.Duration) // called with the lock held
	step     time.Duration
	stepEnds time.Duration // by the boot clock
}

func newGuard(clock Clock, tick time.Duration, log *zap.Logger, metrics *Metrics) *guard {
	if tick == 0 {
		tick = defaultTick
	}
	return &guard{clock: clock, tick: tick, log: log.Named("clock"), metrics: metrics, outages: map[string]bool{}, onMove: func(time.Duration) {}}
}

// adjust changes how far the wall clock may be set before that is distrusted.
func (g *guard) adjust(maxSkew time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.maxSkew = maxSkew
}

// tolerance is how far a clock may be from the right time.
func (g *guard) tolerance() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.maxSkew
}

// listen says whether heartbeats can be heard from now on.
func (g *guard) listen(yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if yes && !g.listening {
		g.heard = g.clock.Now()
		g.breaks++
	}
	g.listening = yes
}

// outage notes whether a use of the memory works. While one that keeps
// heartbeats does not, a restart would forget them: reaperd counts as deaf.
func (g *guard) outage(op string, failing bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.outages[op] == failing {
		return
	}
	if failing {
		g.outages[op] = true
		return
	}
	delete(g.outages, op)
	g.heard = g.clock.Now()
	g.breaks++ // who was judged meanwhile was judged without heartbeats
}

// look looks at the clocks.
func (g *guard) look() moment {
	g.mu.Lock()
	defer g.mu.Unlock()
	wall, boot := g.clock.Now(), g.clock.Boot()
	if !g.looked {
		g.looked, g.origin, g.zero = true, wall.Add(-boot), wall.Add(-boot)
	} else {
		g.notice(wall, boot)
	}
	g.wall, g.boot = wall, boot
	m := moment{now: wall, origin: lease.Origin{Boot: g.clock.BootID(), Zero: g.zero}}
	if g.listening && len(g.outages) == 0 {
		m.heard = g.heard
		if m.heard.After(wall) { // stamped by a clock that had run ahead
			g.heard, m.heard = wall, wall
		}
	}
	g.metrics.hears(!m.heard.IsZero())
	if boot < g.stepEnds {
		m.step, m.held = g.step, wall.Add(g.stepEnds-boot)
	}
	return m
}

// notice compares with the last look.
func (g *guard) notice(wall time.Time, boot time.Duration) {
	if by := wall.Add(-boot).Sub(g.zero); by.Abs() >= smallestMove {
		g.zero = wall.Add(-boot)
		g.heard = g.heard.Add(by)
		g.onMove(by)
	}
	if step := wall.Add(-boot).Sub(g.origin); step.Abs() > g.maxSkew {
		g.origin = wall.Add(-boot)
		if boot < g.stepEnds {
			step += g.step // there and back again is no step
		}
		g.step, g.stepEnds = step, boot+stepHold
		g.metrics.clockSteps.Inc()
		g.log.Warn("the wall clock was set: what that makes due is held",
			zap.Duration("by", step), zap.Duration("for", stepHold))
	}
	gap := max(wall.Sub(g.wall), boot-g.boot)
	if g.watching && gap > lateTicks*g.tick {
		g.heard = wall
		g.breaks++
		g.metrics.blindness.Inc()
		g.log.Warn("reaperd was not there for a while: whoever sends heartbeats has a full timeout again",
			zap.Duration("while", gap))
	}
}

// steppedWithin says whether the wall clock was set not longer ago than that.
func (g *guard) steppedWithin(d time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stepEnds != 0 && g.boot < g.stepEnds-stepHold+d
}

// interruptions is how often heartbeats could not be heard for a while.
func (g *guard) interruptions() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.breaks
}

// watch looks every tick until ctx ends, and calls back after each break.
func (g *guard) watch(ctx context.Context, back func()) {
	g.look()
	g.mu.Lock()
	g.watching = true
	g.mu.Unlock()
	for seen := g.interruptions(); wait(ctx, g.clock, g.tick, rousers{}) == elapsed; {
		g.look()
		if n := g.interruptions(); n != seen {
			seen = n
			back()
		}
	}
}
