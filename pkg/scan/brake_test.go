package scan_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

var defaultBrake = scan.BrakeOptions{Window: 10 * time.Minute, MinCount: 20, MaxFraction: 0.5, Confirm: time.Minute}

// late puts n sandboxes that have been due for an hour.
func (r *rig) late(n int, prefix string) {
	for i := range n {
		r.mem.Put(r.due(fmt.Sprintf("%s-%03d", prefix, i), -time.Hour))
	}
}

func (r *rig) count() int {
	r.t.Helper()
	all, err := r.mem.List(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return len(all)
}

func TestTooManyAtOnceAreHeldAndGoWhenTheyStillAreDue(t *testing.T) {
	bubble(t, setup{brake: defaultBrake, schedule: "@every 1h"}, func(t *testing.T, r *rig) {
		r.late(100, "late")
		defer r.run()()
		pass(59 * time.Second)
		synctest.Wait()
		equal(t, "left", r.count(), 50) // half of all that ran
		r.want(50, "held_sandboxes")
		r.want(50, "leaked_sandboxes")
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 50, scan.OutcomeHeld: 50})
		equal(t, "lines", r.lines("some that are due are held, and go if they still are due then"), 1)
		pass(time.Second)
		synctest.Wait()
		equal(t, "left", r.count(), 0)
		r.want(0, "held_sandboxes")
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 100, scan.OutcomeHeld: 50})
	})
}

// The mistake is mended while they are held: a limit of 4h was meant as 40h, the
// clock was put right, the tags came back.
func TestHeldOnesThatAreDueNoMoreStay(t *testing.T) {
	bubble(t, setup{brake: defaultBrake}, func(t *testing.T, r *rig) {
		r.late(60, "late")
		defer r.run()()
		pass(10 * time.Second)
		synctest.Wait()
		equal(t, "left", r.count(), 30)
		all, err := r.mem.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, sb := range all {
			r.mem.Put(r.up(sb.ID, time.Hour))
		}
		pass(10 * time.Minute)
		synctest.Wait()
		equal(t, "left", r.count(), 30)
		r.want(0, "held_sandboxes")
		r.want(0, "leaked_sandboxes")
	})
}

func TestAFewAreNeverHeld(t *testing.T) {
	bubble(t, setup{brake: defaultBrake}, func(t *testing.T, r *rig) {
		r.late(20, "late")
		r.once()
		equal(t, "left", r.count(), 0)
		r.want(0, "held_sandboxes")
	})
}

// Half of all that ran when it began, not half of ever fewer.
func TestTheFractionIsOfAllThatRan(t *testing.T) {
	bubble(t, setup{brake: defaultBrake}, func(t *testing.T, r *rig) {
		for i := range 50 {
			r.mem.Put(r.up(fmt.Sprintf("young-%d", i), 0))
		}
		r.late(40, "late")
		r.once()
		equal(t, "left", r.count(), 50)
		r.late(5, "more")
		r.once()
		equal(t, "left", r.count(), 50)
		r.want(0, "held_sandboxes")
	})
}

// What trickles in is not many at once: the window moves on.
func TestTheWindowMovesOn(t *testing.T) {
	bubble(t, setup{brake: defaultBrake}, func(t *testing.T, r *rig) {
		defer r.run()()
		for i := range 10 {
			r.late(19, fmt.Sprintf("wave-%d", i))
			pass(11 * time.Minute)
		}
		synctest.Wait()
		equal(t, "left", r.count(), 0)
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 190})
	})
}

func TestTriesAtTheSameOneCountOnceForTheBrake(t *testing.T) {
	bubble(t, setup{brake: scan.BrakeOptions{Window: time.Hour, MinCount: 2, Confirm: time.Hour}}, func(t *testing.T, r *rig) {
		r.mem.Inject(fake.Faults{Stop: func(context.Context, string) error { return providers.ErrUnavailable }})
		r.late(1, "late")
		defer r.run()()
		pass(5 * time.Minute)
		r.mem.Inject(fake.Faults{})
		r.late(2, "late")
		pass(15 * time.Minute)
		synctest.Wait()
		equal(t, "left", r.count(), 0)
	})
}

func TestAnOrderIsNotHeld(t *testing.T) {
	bubble(t, setup{brake: scan.BrakeOptions{Window: time.Hour, MinCount: 1, Confirm: time.Hour}}, func(t *testing.T, r *rig) {
		r.late(5, "late")
		r.once()
		equal(t, "left", r.count(), 4)
		var items []policy.Item
		for _, rep := range r.loop.Look(t.Context()) {
			items = append(items, rep.Plan.Items...)
		}
		r.loop.Order(t.Context(), map[string][]policy.Item{"mem": items}, func(scan.Result) {})
		equal(t, "left", r.count(), 0)
	})
}

// Whoever sets the clock neither jams the brake nor loosens it.
func TestTheBrakeGoesByTheTimeThatPasses(t *testing.T) {
	for _, by := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		bubble(t, setup{brake: scan.BrakeOptions{Window: 30 * time.Minute, MinCount: 1, Confirm: time.Hour}}, func(t *testing.T, r *rig) {
			r.late(1, "first")
			r.once()
			r.clock.adjust(by)
			pass(16 * time.Minute) // what the step makes due is held
			r.late(1, "second")
			r.once()
			equal(t, "left within the window", r.count(), 1)
			pass(15 * time.Minute)
			r.once()
			equal(t, "left after it", r.count(), 0)
		})
	}
}

func TestAClockThatWasWrongHoldsNobodyForLong(t *testing.T) {
	bubble(t, setup{brake: scan.BrakeOptions{Window: 10 * time.Minute, MinCount: 1, Confirm: time.Minute}}, func(t *testing.T, r *rig) {
		r.clock.adjust(24 * time.Hour)
		r.late(2, "late")
		defer r.run()()
		pass(10 * time.Second)
		r.clock.adjust(-24 * time.Hour)
		r.late(2, "late")
		pass(5 * time.Minute)
		synctest.Wait()
		equal(t, "left", r.count(), 0)
	})
}

// Between two lists the inventory goes on showing what went: it must not count
// twice for how many ran.
func TestTheFractionIsTheSameBetweenLists(t *testing.T) {
	bubble(t, setup{brake: defaultBrake, schedule: "@every 1h"}, func(t *testing.T, r *rig) {
		for i := range 100 {
			r.mem.Put(r.due(fmt.Sprintf("sb-%03d", i), time.Duration(i+1)*time.Second/10))
		}
		defer r.run()()
		pass(20 * time.Second)
		synctest.Wait()
		equal(t, "left", r.count(), 50)
		r.want(50, "held_sandboxes")
	})
}

// What has ended already is none of those that run.
func TestTheFractionIsOfThoseThatRan(t *testing.T) {
	bubble(t, setup{brake: defaultBrake, policies: stoppedAnHour}, func(t *testing.T, r *rig) {
		for i := range 60 {
			r.mem.Put(r.up(fmt.Sprintf("young-%02d", i), 0))
			r.mem.Put(r.up(fmt.Sprintf("ended-%02d", i), 5*time.Hour, in(providers.StateExited), func(sb *providers.Sandbox) { sb.Ended = sb.Started.Add(time.Hour) }))
		}
		r.once()
		equal(t, "left", r.count(), 90)
		r.once()
		equal(t, "left", r.count(), 90)
	})
}

const stoppedAnHour = `
version: 1
policies:
  - name: lying-around
    match: {tags: {env: dev}}
    limits: {max_stopped: 1h}
    action: {type: remove}
`
