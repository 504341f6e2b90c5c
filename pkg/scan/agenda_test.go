package scan_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

// due gives a sandbox that falls due after d.
func (r *rig) due(id string, d time.Duration) providers.Sandbox { return r.up(id, 4*time.Hour-d) }

func TestWhatFallsDueBetweenListsGoesAtThatInstant(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		began := r.clock.Now()
		r.mem.Put(r.due("a", 7*time.Second))
		r.mem.Put(r.due("b", 11*time.Second))
		r.mem.Put(r.up("young", 0))
		defer r.run()()
		pass(12 * time.Second)
		synctest.Wait()
		equal(t, "left", ids(t, r.mem), "young")
		equal(t, "lists", r.mem.Calls("list"), 2) // the loop's one, and this test's
		equal(t, "reports", r.at, []time.Time{began, began.Add(7 * time.Second), began.Add(11 * time.Second)})
		r.want(2, "reclaims_total", "outcome=reclaimed")
		r.want(0, "reclaim_lateness_seconds")
		r.want(1, "sandboxes", "state=running")
		r.want(0, "leaked_sandboxes")
		r.want(1, "scans_total") // no list, no scan
		r.want(float64(began.UnixMilli())/1000, "provider_last_success_timestamp_seconds")
	})
}

func TestNothingGoesByAnInventoryThatCouldNotBeRenewed(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.due("a", 40*time.Second))
		defer r.run()()
		pass(time.Second)
		r.mem.Inject(fake.Faults{List: func(context.Context) error { return providers.ErrUnavailable }})
		pass(50 * time.Second)
		synctest.Wait()
		equal(t, "stops", r.mem.Calls("stop"), 0)
		r.mem.Inject(fake.Faults{})
		pass(30 * time.Second)
		synctest.Wait()
		equal(t, "left", ids(t, r.mem), "")
	})
}

// A sandbox that was restarted since the list has a new deadline, which no list
// is needed to keep.
func TestASparedOneIsJudgedAgainAtItsNewDeadline(t *testing.T) {
	bubble(t, setup{schedule: "@every 1h"}, func(t *testing.T, r *rig) {
		began := r.clock.Now()
		r.mem.Put(r.due("a", 10*time.Second))
		defer r.run()()
		pass(5 * time.Second)
		r.mem.Put(r.due("a", 15*time.Second))
		pass(10 * time.Second)
		synctest.Wait()
		equal(t, "left", ids(t, r.mem), "a")
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeSpared: 1})
		r.want(0, "leaked_sandboxes")
		pass(6 * time.Second)
		synctest.Wait()
		equal(t, "left", ids(t, r.mem), "")
		equal(t, "last report", r.at[len(r.at)-1], began.Add(20*time.Second))
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeSpared: 1, scan.OutcomeReclaimed: 1})
	})
}

func TestTriesGoOnBetweenLists(t *testing.T) {
	bubble(t, setup{schedule: "@every 1h"}, func(t *testing.T, r *rig) {
		refused := 0
		r.mem.Inject(fake.Faults{Stop: func(context.Context, string) error {
			if refused++; refused <= 3 {
				return providers.ErrUnavailable
			}
			return nil
		}})
		r.mem.Put(r.due("a", time.Second))
		defer r.run()()
		pass(2 * time.Minute)
		synctest.Wait()
		equal(t, "left", ids(t, r.mem), "")
		equal(t, "stops", r.mem.Calls("stop"), 4)
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeFailed: 3, scan.OutcomeReclaimed: 1})
		r.want(0, "leaked_sandboxes")
	})
}

func TestADryRunTellsOfADeadlineBetweenListsOnce(t *testing.T) {
	dry := func(_ int, t *scan.Target) { t.DryRun = true }
	bubble(t, setup{change: dry}, func(t *testing.T, r *rig) {
		r.mem.Put(r.due("a", 10*time.Second))
		defer r.run()()
		pass(11 * time.Second)
		synctest.Wait()
		r.want(1, "would_reclaim_sandboxes", "policy=dev")
		r.want(1, "leaked_sandboxes")
		pass(10 * time.Minute)
		synctest.Wait()
		equal(t, "stops", r.mem.Calls("stop"), 0)
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeDryRun: 1})
	})
}

func TestShutdownBeforeADeadlineStopsNothing(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.due("a", 10*time.Second))
		stop := r.run()
		pass(9 * time.Second)
		stop()
		pass(time.Minute)
		equal(t, "left", ids(t, r.mem), "a")
	})
}

// The clock is set right while a deadline is waited for: the tick must not
// become as late as the clock was wrong.
func TestAClockSetBackBeforeADeadlinePutsNothingOff(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, 3 * 365 * 24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, r *rig) {
				r.mem.Put(r.due("a", 10*time.Second))
				defer r.run()()
				pass(5 * time.Second)
				r.clock.adjust(-by)
				pass(3 * time.Minute)
				synctest.Wait()
				if n := r.mem.Calls("list"); n < 5 {
					t.Errorf("%d lists in three minutes", n)
				}
			})
		})
	}
}

func TestAClockSetBackDuringAWakePutsNothingOff(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.due("a", 10*time.Second))
		r.mem.Inject(fake.Faults{Stop: func(context.Context, string) error {
			r.clock.adjust(-time.Hour)
			return nil
		}})
		defer r.run()()
		pass(3 * time.Minute)
		synctest.Wait()
		if n := r.mem.Calls("list"); n < 5 {
			t.Errorf("%d lists in three minutes", n)
		}
	})
}
