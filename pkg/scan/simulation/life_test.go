package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/scan"
)

// errDead is what a daemon that crashed gets from everybody. Its goroutines
// run on until they notice; nothing that they do has an effect.
var errDead = errors.New("the daemon is dead")

// life is one daemon, from its start to its end or crash.
type life struct {
	*world
	number int
	began  time.Duration
	book   *rulebook
	disk   *disk
	// reloaded: what it counted of policies that are gone is gone too.
	reloaded bool
	reg      *prometheus.Registry
	loop     *scan.Loop
	end      context.CancelFunc
	over     chan struct{} // closed when the loop has ended

	dead bool
	// A crash is planned at the left-th time that the daemon comes to point.
	point string
	left  int
	// crashed is told when it comes.
	crashed chan struct{}

	lists   map[string]error // by place, how the last list ended
	stopped map[*box]int     // how often each was told to stop
	// resolved is what it wrote as outcomes into the history.
	resolved map[string]int
	// outages are the uses of the disk that fail, heard is when it last began to
	// hear heartbeats again.
	outages map[string]bool
	deaf    time.Duration // when the first of them began to
	heard   time.Duration
	looks   map[string]time.Duration // by place and id, when it last began to look
	ailing  map[string]*ailment      // by place
	// unprobed are those whose last probe was refused: their lists stand in.
	unprobed map[*place]bool
	ahead    map[string]time.Duration // by place, its clock's, as last measured
}

// maxSkew is how far the daemon lets a clock be wrong.
const maxSkew = 5 * time.Minute

// start begins a new daemon over the memory.
func (w *world) start(number int, book *rulebook, disk *disk) *life {
	l := &life{
		world: w, number: number, began: w.clock.Boot(), book: book, disk: disk, reg: prometheus.NewRegistry(), over: make(chan struct{}),
		crashed: make(chan struct{}, 1), lists: map[string]error{}, stopped: map[*box]int{}, resolved: map[string]int{},
		outages: map[string]bool{}, heard: w.clock.Boot(), looks: map[string]time.Duration{}, ailing: map[string]*ailment{},
		ahead: map[string]time.Duration{}, unprobed: map[*place]bool{},
	}
	set := l.settings(book)
	l.loop = scan.New(scan.Options{
		Settings: set, Clock: w.clock, Tick: w.scale.tick, Steady: true, Log: l.logger(), Memory: &memory{disk, l},
		Metrics: scan.NewMetrics(l.reg, w.clock, set.Targets, set.Policies),
	})
	l.loop.Hear(true)
	var ctx context.Context
	ctx, l.end = context.WithCancel(context.Background())
	go func() {
		defer close(l.over)
		l.loop.Run(ctx)
	}()
	return l
}

func (l *life) settings(book *rulebook) scan.Settings {
	set, _, err := policy.Load([]policy.File{{Name: "sim.yaml", Data: []byte(book.yaml())}}, policy.Known{})
	if err != nil {
		panic(fmt.Sprintf("%v in\n%s", err, book.yaml()))
	}
	settings := scan.Settings{Policies: set, Attempts: 4, Brake: l.scale.brake, History: 20 * l.scale.span,
		MaxSkew: maxSkew, MaxTTL: 100 * l.scale.unit}
	for _, p := range l.places {
		schedule, err := scan.ParseSchedule("@every "+written(l.scale.interval), time.UTC)
		if err != nil {
			panic(err)
		}
		settings.Targets = append(settings.Targets, scan.Target{
			Name: p.name, Kind: simKind, Provider: l.provider(p), Settings: p.name, DryRun: p.dry, Schedule: schedule,
			// All at once, since those that wait for a turn come in no certain order.
			Timeout: callTimeout, Parallel: 100,
		})
	}
	return settings
}

// reload gives the daemon other policies.
func (l *life) reload(book *rulebook) {
	set := l.settings(book)
	l.mu.Lock()
	l.book, l.reloaded = book, true
	l.judge.reloaded(book)
	l.mu.Unlock()
	l.loop.Reload(set)
}

// plan plans a crash at a step.
func (l *life) plan(point string, left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.point, l.left = point, left
}

// dies says whether the daemon comes to its planned end at this step. The
// world is locked.
func (l *life) dies(point string) bool {
	if l.dead || l.point != point {
		return false
	}
	if l.left--; l.left > 0 {
		return false
	}
	l.crash(point)
	return true
}

// crash ends the daemon at once. The world is locked.
func (l *life) crash(why string) {
	if l.dead {
		return
	}
	l.dead = true
	l.story.tell("the daemon crashes (%s)", why)
	l.judge.ended(l, false)
	l.end()
	l.crashed <- struct{}{}
}

// close ends the daemon in order, and waits for it.
func (l *life) close() {
	l.end()
	<-l.over
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return // it crashed while it ended
	}
	l.dead = true
	l.story.tell("the daemon ended")
	l.judge.ended(l, true)
}
