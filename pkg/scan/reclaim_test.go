package scan_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

func TestWhatIsDueGoesAndTheRestStays(t *testing.T) {
	bubble(t, setup{change: func(_ int, t *scan.Target) { t.PricePerHour = 0.5 }}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("old", 5*time.Hour))
		r.mem.Put(r.up("young", time.Hour))
		r.mem.Put(r.up("protected", 5*time.Hour, tagged("reaperd.protect", "true")))
		r.mem.Put(r.up("unmatched", 5*time.Hour, tagged("env", "development")))
		r.mem.Put(r.up("untagged", 5*time.Hour, func(sb *providers.Sandbox) { sb.Tags = nil }))
		r.mem.Put(r.up("changing", 5*time.Hour, in(providers.StateChanging)))
		r.mem.Put(r.up("unreadable", 5*time.Hour, in(providers.StateUnknown)))
		r.mem.Put(r.up("odd", 5*time.Hour, in("hibernating")))
		r.mem.Put(r.up("owned", 5*time.Hour, func(sb *providers.Sandbox) { sb.Owner = "swarm" }))
		r.mem.Put(r.up("own", 5*time.Hour, func(sb *providers.Sandbox) { sb.Self = true }))

		for range 3 {
			r.once()
		}

		equal(t, "left", ids(t, r.mem), "changing odd own owned protected unmatched unreadable untagged young")
		equal(t, "stop calls", r.mem.Calls("stop"), 1)
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
		r.want(1, "reclaims_total", "provider=mem", "policy=dev", "reason=max_uptime", "outcome=reclaimed")
		late, n, _ := r.sample("reclaim_lateness_seconds", "provider=mem")
		equal(t, "lateness", fmt.Sprint(n, late), "1 3600")
		r.want(5*3600, "reclaimed_uptime_seconds_total", "provider=mem")
		r.want(2.5, "reclaimed_cost_dollars_total", "provider=mem")
		r.want(6, "sandboxes", "state=running")
		r.want(2, "sandboxes", "state=unknown")
		r.want(1, "sandboxes", "state=changing")
		r.want(0, "leaked_sandboxes")
		r.want(2, "unmatched_sandboxes")
		r.want(3, "scans_total", "result=success")
	})
}

// What the list said is not acted on: the sandbox is looked at and judged
// again, and the answer is counted under the decision that no longer held.
func TestWhatChangedSinceTheListIsSpared(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(r *rig) // between the list and the look
		want   scan.Outcome
	}{
		{"reused id", func(r *rig) {
			r.mem.Put(r.up("x", 5*time.Hour, func(sb *providers.Sandbox) { sb.Revision = "2" }))
		}, scan.OutcomeSpared},
		{"vanished", func(r *rig) { r.mem.Delete("x") }, scan.OutcomeGone},
		{"protected", func(r *rig) { r.mem.Put(r.up("x", 5*time.Hour, tagged("reaperd.protect", "true"))) }, scan.OutcomeSpared},
		{"tags renewed", func(r *rig) { r.mem.Put(r.up("x", 5*time.Hour, tagged("env", "prod"))) }, scan.OutcomeSpared},
		{"restarted", func(r *rig) { r.mem.Put(r.up("x", time.Second)) }, scan.OutcomeSpared},
		{"on its way", func(r *rig) { r.mem.Put(r.up("x", 5*time.Hour, in(providers.StateChanging))) }, scan.OutcomeSpared},
		{"unreadable", func(r *rig) { r.mem.Put(r.up("x", 5*time.Hour, in(providers.StateUnknown))) }, scan.OutcomeSpared},
		{"tags unreadable", func(r *rig) {
			r.mem.Put(r.up("x", 5*time.Hour, func(sb *providers.Sandbox) { sb.Tags = nil }))
		}, scan.OutcomeSpared},
		{"reaperd's own", func(r *rig) {
			r.mem.Put(r.up("x", 5*time.Hour, func(sb *providers.Sandbox) { sb.Self = true }))
		}, scan.OutcomeSpared},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, r *rig) {
				r.mem.Put(r.up("x", 5*time.Hour))
				r.mem.Inject(fake.Faults{Get: func(context.Context, string) error { tc.change(r); return nil }})
				equal(t, "outcome", r.once()["x"], tc.want)
				equal(t, "stop calls", r.mem.Calls("stop"), 0)
				r.outcomes(map[scan.Outcome]float64{tc.want: 1})
				r.want(1, "reclaims_total", "policy=dev", "reason=max_uptime", "outcome="+string(tc.want))
				r.want(0, "leaked_sandboxes")
			})
		})
	}
}

func TestAnswersOfAStop(t *testing.T) {
	busy := fmt.Errorf("removal in progress: %w", providers.ErrBusy)
	for _, tc := range []struct {
		name string
		stop func(r *rig) error // what happens, and what is answered
		want scan.Outcome
	}{
		{"not found", func(r *rig) error { r.mem.Delete("x"); return providers.ErrNotFound }, scan.OutcomeGone},
		{"changed", func(*rig) error { return providers.ErrChanged }, scan.OutcomeSpared},
		{"busy, and then gone", func(r *rig) error { time.AfterFunc(3*time.Second, func() { r.mem.Delete("x") }); return busy }, scan.OutcomeGone},
		{"busy for long", func(*rig) error { return busy }, scan.OutcomeFailed},
		{"denied", func(*rig) error { return providers.ErrDenied }, scan.OutcomeFailed},
		{"throttled", func(*rig) error { return providers.ErrThrottled }, scan.OutcomeFailed},
		{"unsupported", func(*rig) error { return providers.ErrUnsupported }, scan.OutcomeFailed},
		{"out of time, and it went", func(r *rig) error { r.mem.Delete("x"); return context.DeadlineExceeded }, scan.OutcomeReclaimed},
		{"out of time, and it goes", func(r *rig) error {
			time.AfterFunc(3*time.Second, func() { r.mem.Delete("x") })
			return context.DeadlineExceeded
		}, scan.OutcomeReclaimed},
		{"out of time, and it stays", func(*rig) error { return context.DeadlineExceeded }, scan.OutcomeFailed},
		{"panic", func(*rig) error { panic("boom") }, scan.OutcomeFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, r *rig) {
				r.mem.Put(r.up("x", 5*time.Hour))
				r.mem.Inject(fake.Faults{Stop: func(context.Context, string) error { return tc.stop(r) }})
				equal(t, "outcome", r.once()["x"], tc.want)
				r.outcomes(map[scan.Outcome]float64{tc.want: 1})
				equal(t, "stop calls", r.mem.Calls("stop"), 1)
				failed := 0.0
				if tc.want == scan.OutcomeFailed {
					failed = 1
				}
				r.want(failed, "leaked_sandboxes", "policy=dev", "reason=max_uptime")
				r.want(failed, "scans_total", "result=partial")
			})
		})
	}
}

func TestAStopThatHangsIsGivenUpAtItsDeadline(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("hangs", 6*time.Hour))
		r.mem.Put(r.up("goes", 5*time.Hour))
		r.mem.Inject(fake.Faults{Stop: func(ctx context.Context, id string) error {
			if id == "hangs" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		began := time.Now()
		out := r.once()
		equal(t, "hangs", out["hangs"], scan.OutcomeFailed)
		equal(t, "goes", out["goes"], scan.OutcomeReclaimed)
		// Its grace of 10 s, a margin of 30 s, and 10 s of looking.
		if took := time.Since(began); took < 40*time.Second || took > 55*time.Second {
			t.Errorf("the scan took %v", took)
		}
		r.want(1, "provider_errors_total", "op=stop", "cause=timeout")
	})
}

// What is on its way out when it is looked at again is spared, and its end is
// ours all the same.
func TestAStopThatTakesItsTimeIsCounted(t *testing.T) {
	policies := "version: 1\npolicies: [{name: dev, match: {tags: {env: dev}}, limits: {max_uptime: 4h}, action: {type: stop}}]"
	for name, meanwhile := range map[string]providers.State{"seen to run": providers.StateRunning, "seen to change": providers.StateChanging} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{policies: policies}, func(_ *testing.T, r *rig) {
				r.mem.Put(r.up("x", 5*time.Hour))
				r.mem.Inject(fake.Faults{StopIgnored: func(string) bool { return true }})
				defer r.run()()
				pass(9 * time.Second)
				r.mem.Put(r.up("x", 5*time.Hour, in(meanwhile)))
				pass(9 * time.Second)
				r.mem.Put(r.up("x", 5*time.Hour, in(providers.StateExited)))
				pass(2 * time.Minute)
				synctest.Wait()
				r.want(1, "reclaims_total", "outcome=reclaimed")
			})
		})
	}
}

// A stop that is answered with success and changes nothing.
func TestWhatDoesNotGoIsTriedEverMoreSlowlyAndStuckOnce(t *testing.T) {
	bubble(t, setup{schedule: "@every 1s"}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("x", 5*time.Hour))
		var tries []time.Duration
		began := time.Now()
		r.mem.Inject(fake.Faults{
			Stop:        func(context.Context, string) error { tries = append(tries, time.Since(began)); return nil },
			StopIgnored: func(string) bool { return true },
		})
		stop := r.run()
		pass(2 * time.Hour)
		synctest.Wait()
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeFailed: 4, scan.OutcomeStuck: 1})
		r.want(1, "stuck_sandboxes", "provider=mem")
		r.want(1, "leaked_sandboxes", "policy=dev", "reason=max_uptime")
		r.want(2*3600+3600, "oldest_overdue_seconds")
		equal(t, "lines of failure", r.lines("reclaim failed"), 5)
		if n := len(tries); n < 12 || n > 30 {
			t.Errorf("%d tries in two hours: %v", n, tries)
		}
		if last := tries[len(tries)-1] - tries[len(tries)-2]; last < 5*time.Minute || last > 16*time.Minute {
			t.Errorf("the last pause was %v", last)
		}

		r.mem.Inject(fake.Faults{})
		pass(20 * time.Minute)
		synctest.Wait()
		stop()
		equal(t, "left", ids(t, r.mem), "")
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeFailed: 4, scan.OutcomeStuck: 1, scan.OutcomeReclaimed: 1})
		r.want(0, "stuck_sandboxes", "provider=mem")
		_, n, _ := r.sample("reclaim_lateness_seconds")
		equal(t, "lateness observed", n, 1)
	})
}

// The stop was taken, and took longer than reaperd watched: the end is ours,
// whether the next list or the next look finds it.
func TestWhatGoesAfterItWasGivenUpOnIsReclaimedOnce(t *testing.T) {
	for _, tc := range []struct {
		name, action string
		end          func(r *rig)
	}{
		{"removed before the next list", "remove", func(r *rig) { r.mem.Delete("x") }},
		{"stopped before the next list", "stop", func(r *rig) { r.mem.Put(r.up("x", 5*time.Hour, in(providers.StateExited))) }},
		{"removed before the next look", "remove", func(r *rig) {
			r.mem.Inject(fake.Faults{Get: func(context.Context, string) error { r.mem.Delete("x"); return nil }})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policies := "version: 1\npolicies: [{name: dev, match: {tags: {env: dev}}, limits: {max_uptime: 4h}, action: {type: " + tc.action + "}}]"
			bubble(t, setup{policies: policies, attempts: 1}, func(t *testing.T, r *rig) {
				r.mem.Put(r.up("x", 5*time.Hour))
				r.mem.Inject(fake.Faults{StopIgnored: func(string) bool { return true }})
				equal(t, "outcome", r.once()["x"], scan.OutcomeStuck)
				pass(time.Minute)
				tc.end(r)
				for range 3 {
					r.once()
				}
				r.outcomes(map[scan.Outcome]float64{scan.OutcomeStuck: 1, scan.OutcomeReclaimed: 1})
				r.want(0, "stuck_sandboxes")
				late, n, _ := r.sample("reclaim_lateness_seconds")
				equal(t, "lateness", fmt.Sprint(n, late), "1 3670.55")
			})
		})
	}
}

func TestAnAbandonedStopIsNotGivenUpForLostWhileItCannotBeLookedAt(t *testing.T) {
	bubble(t, setup{}, func(_ *testing.T, r *rig) {
		r.mem.Put(r.up("x", 5*time.Hour))
		r.mem.Inject(fake.Faults{StopIgnored: func(string) bool { return true }})
		r.once()
		r.mem.Delete("x")
		r.mem.Inject(fake.Faults{Get: func(context.Context, string) error { return providers.ErrUnavailable }})
		r.once()
		r.mem.Inject(fake.Faults{})
		r.once()
		r.once()
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeFailed: 1, scan.OutcomeReclaimed: 1})
	})
}

func TestALaterFailureDoesNotHideThatAStopWasTaken(t *testing.T) {
	bubble(t, setup{}, func(_ *testing.T, r *rig) {
		r.mem.Put(r.up("x", 5*time.Hour))
		r.mem.Inject(fake.Faults{StopIgnored: func(string) bool { return true }})
		r.once()
		r.mem.Inject(fake.Faults{Stop: func(context.Context, string) error { return providers.ErrDenied }})
		pass(time.Minute)
		r.once()
		r.mem.Delete("x")
		r.once()
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeFailed: 2, scan.OutcomeReclaimed: 1})
	})
}

// Else a clock that had been wrong by a year would stop the tries for one.
func TestTheNextTryDoesNotWaitForAClockThatWasSetBack(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("x", 3*365*24*time.Hour))
		r.mem.Inject(fake.Faults{StopIgnored: func(string) bool { return true }})
		r.once()
		r.clock.adjust(-365 * 24 * time.Hour)
		r.once()
		equal(t, "stop calls", r.mem.Calls("stop"), 2)
	})
}

func TestWhatIsSparedAfterAFailedTryIsForgotten(t *testing.T) {
	bubble(t, setup{attempts: 2}, func(_ *testing.T, r *rig) {
		r.mem.Put(r.up("x", 5*time.Hour))
		r.mem.Inject(fake.Faults{StopIgnored: func(string) bool { return true }})
		r.once()
		r.mem.Put(r.up("x", 5*time.Hour, tagged("reaperd.protect", "true")))
		r.once()
		r.mem.Delete("x") // by somebody else
		r.once()
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeFailed: 1})
	})
}

// A list that goes on showing what is gone (daytonaio/daytona#5138 and others).
func TestAListThatContradictsGetCountsNothingTwice(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		ghost := r.up("x", 5*time.Hour)
		r.mem.Put(ghost)
		r.once()
		r.mem.Inject(fake.Faults{Get: func(context.Context, string) error { return providers.ErrNotFound }})
		for range 10 {
			r.mem.Put(ghost)
			r.once()
			r.mem.Delete("x")
			r.once()
		}
		equal(t, "stop calls", r.mem.Calls("stop"), 1)
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})

		r.mem.Inject(fake.Faults{}) // and one that was truly started again
		r.mem.Put(ghost)
		r.once()
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 2})

		r.mem.Put(ghost) // and once more, ended by somebody else under our hands
		r.mem.Inject(fake.Faults{Stop: func(context.Context, string) error { r.mem.Delete("x"); return providers.ErrNotFound }})
		r.once()
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 2, scan.OutcomeGone: 1})
	})
}

func TestOneListedTwiceIsStoppedOnce(t *testing.T) {
	p := &twice{Provider: fake.New("mem")}
	bubble(t, setup{providers: []providers.Provider{p}, names: []string{"mem"}}, func(t *testing.T, r *rig) {
		p.Put(r.up("x", 5*time.Hour))
		p.Put(r.up("y", time.Hour))
		r.once()
		equal(t, "stop calls", p.Calls("stop"), 1)
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
		r.want(1, "sandboxes", "state=running")
	})
}

// twice lists everything twice.
type twice struct{ *fake.Provider }

func (p *twice) List(ctx context.Context) ([]providers.Sandbox, error) {
	all, err := p.Provider.List(ctx)
	return append(all, all...), err
}

func TestOrderGoesPastLimitsButNotPastItself(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("young", time.Minute))
		r.mem.Put(r.up("unmatched", time.Minute, tagged("env", "prod")))
		r.mem.Put(r.up("own", time.Minute, func(sb *providers.Sandbox) { sb.Self = true }))
		r.mem.Put(r.up("lost", time.Minute))
		r.mem.Put(r.up("broken", time.Minute))
		r.mem.Put(r.up("reused", time.Minute))
		reports := r.loop.Look(t.Context())
		equal(t, "calls that change", r.mem.Calls("stop"), 0)
		r.mem.Delete("lost")
		r.mem.Put(r.up("reused", time.Minute, func(sb *providers.Sandbox) { sb.Revision = "2" }))
		r.mem.Inject(fake.Faults{Stop: func(_ context.Context, id string) error {
			if id == "broken" {
				return errors.New("no")
			}
			return nil
		}})
		items := reports[0].Plan.Items
		for i := range items {
			items[i].Decision.Action = providers.StopOptions{Action: providers.ActionRemove}
		}
		got := map[string]scan.Outcome{}
		done := make(chan scan.Result, len(items))
		r.loop.Order(t.Context(), map[string][]policy.Item{"mem": items}, func(res scan.Result) { done <- res })
		close(done)
		for res := range done {
			got[res.Item.Facts.ID] = res.Outcome
			if res.Item.Facts.ID == "own" && res.Err == nil {
				t.Error("it is not said why reaperd's own was spared")
			}
		}
		equal(t, "outcomes", got, map[string]scan.Outcome{
			"young": scan.OutcomeReclaimed, "unmatched": scan.OutcomeReclaimed, "own": scan.OutcomeSpared,
			"lost": scan.OutcomeGone, "broken": scan.OutcomeFailed, "reused": scan.OutcomeSpared,
		})
		equal(t, "left", ids(t, r.mem), "broken own reused")
		_, n, _ := r.sample("reclaim_lateness_seconds")
		equal(t, "an order has no lateness", n, 0)
	})
}

func TestAnOrderDoesNotJoinAReclaimUnderWay(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("x", 5*time.Hour))
		items := r.loop.Look(t.Context())[0].Plan.Items
		r.mem.Inject(fake.Faults{Stop: func(context.Context, string) error { pass(20 * time.Second); return nil }})
		stop := r.run()
		pass(10 * time.Second)
		var got scan.Result
		r.loop.Order(t.Context(), map[string][]policy.Item{"mem": items}, func(res scan.Result) { got = res })
		equal(t, "outcome", got.Outcome, scan.OutcomeSpared)
		equal(t, "why", got.Why(), "it is being reclaimed already")
		pass(15 * time.Second)
		stop()
		equal(t, "stop calls", r.mem.Calls("stop"), 1)
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
	})
}
