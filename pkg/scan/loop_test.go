package scan_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

var counts = []string{
	"sandboxes", "leaked_sandboxes", "would_reclaim_sandboxes", "unmatched_sandboxes", "unknown_age_sandboxes",
	"unreadable_items", "stuck_sandboxes", "oldest_overdue_seconds",
}

func TestAListThatFailsIsNotActedOnAndNotShown(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("young", 4*time.Hour-time.Minute))
		stop := r.run()
		pass(time.Second)
		synctest.Wait()
		r.want(1, "sandboxes", "state=running")
		r.want(1, "provider_up", "provider=mem")
		since, _, _ := r.sample("provider_last_success_timestamp_seconds")

		r.mem.Inject(fake.Faults{List: func(context.Context) error { return providers.ErrUnavailable }})
		pass(10 * time.Minute) // it falls due meanwhile
		synctest.Wait()
		equal(t, "calls", fmt.Sprint(r.mem.Calls("get"), r.mem.Calls("stop")), "0 0")
		r.want(0, "provider_up", "provider=mem")
		r.want(since, "provider_last_success_timestamp_seconds", "provider=mem")
		r.want(20, "provider_errors_total", "op=list", "cause=unavailable")
		r.want(20, "scans_total", "result=error")
		for _, name := range counts {
			r.absent(name)
		}
		equal(t, "warnings", r.lines("provider could not be listed"), 1)

		r.mem.Inject(fake.Faults{})
		pass(31 * time.Second)
		synctest.Wait()
		r.want(1, "provider_up", "provider=mem")
		r.want(0, "sandboxes", "state=running")
		equal(t, "lines", r.lines("provider answers again"), 1)
		stop()
		equal(t, "left", ids(t, r.mem), "")
	})
}

// Sandboxes without believable times live from first seen: neither failed
// lists nor empty ones, for a week, make them young again, and a clock that had
// run ahead does not make them immortal.
func TestFirstSeenSurvives(t *testing.T) {
	down := fake.Faults{List: func(context.Context) error { return errors.New("down") }}
	for _, tc := range []struct {
		name      string
		meanwhile func(r *rig, timeless providers.Sandbox)
		back      bool
		want      string
	}{
		{"failed lists", func(r *rig, _ providers.Sandbox) { r.mem.Inject(down); pass(5 * time.Hour) }, false, ""},
		{"empty lists", func(r *rig, _ providers.Sandbox) { r.mem.Delete("x"); pass(6 * 24 * time.Hour) }, true, ""},
		{"a week away", func(r *rig, _ providers.Sandbox) { r.mem.Delete("x"); pass(8 * 24 * time.Hour) }, true, "x"},
		{"another behind the id", func(r *rig, sb providers.Sandbox) {
			pass(3 * time.Hour)
			sb.Revision = "2"
			r.mem.Put(sb)
			pass(2 * time.Hour)
		}, false, "x"},
		{"a clock set right", func(r *rig, _ providers.Sandbox) {
			r.clock.adjust(-365 * 24 * time.Hour)
			pass(5 * time.Hour)
		}, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, r *rig) {
				timeless := r.up("x", 0, func(sb *providers.Sandbox) {
					sb.Created, sb.Started = time.Time{}, time.Unix(0, 0)
				})
				r.mem.Put(timeless)
				stop := r.run()
				pass(time.Second)
				synctest.Wait()
				r.want(1, "unknown_age_sandboxes")
				tc.meanwhile(r, timeless)
				r.mem.Inject(fake.Faults{})
				if tc.back {
					r.mem.Put(timeless)
				}
				pass(time.Minute)
				stop()
				equal(t, "left", ids(t, r.mem), tc.want)
				r.want(0, "reclaimed_uptime_seconds_total") // it cannot be said
			})
		})
	}
}

func TestOneProvidersTroubleCostsTheOthersNothing(t *testing.T) {
	names := []string{"panics", "errs", "hangs", "healthy", "sandbox-panics"}
	var fakes []*fake.Provider
	var all []providers.Provider
	for _, n := range names {
		p := fake.New(n)
		fakes = append(fakes, p)
		all = append(all, p)
	}
	bubble(t, setup{providers: all, names: names}, func(t *testing.T, r *rig) {
		for _, p := range fakes {
			p.Put(r.up("old", 4*time.Hour-15*time.Second))
		}
		fakes[4].Put(r.up("cursed", 5*time.Hour))
		fakes[4].Put(r.up("jinxed", 5*time.Hour))
		fakes[0].Inject(fake.Faults{List: func(context.Context) error { panic("adapter bug") }})
		fakes[1].Inject(fake.Faults{List: func(context.Context) error { return errors.New("500") }})
		fakes[2].Inject(fake.Faults{List: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		curse := func(of string) func(context.Context, string) error {
			return func(_ context.Context, id string) error {
				if id == of {
					panic("adapter bug")
				}
				return nil
			}
		}
		fakes[4].Inject(fake.Faults{Get: curse("cursed"), Stop: curse("jinxed")})
		stop := r.run()
		pass(31 * time.Second)
		synctest.Wait()
		equal(t, "healthy", ids(t, fakes[3]), "")
		equal(t, "sandbox-panics", ids(t, fakes[4]), "cursed jinxed")
		pass(time.Minute)
		synctest.Wait()
		for i, up := range []float64{0, 0, 0, 1, 1} {
			r.want(up, "provider_up", "provider="+names[i])
		}
		r.want(1, "reclaims_total", "provider=healthy", "outcome=reclaimed")
		r.want(1, "reclaims_total", "provider=sandbox-panics", "outcome=reclaimed")
		r.want(4, "scans_total", "provider=panics", "result=error")
		r.want(4, "scans_total", "provider=healthy", "result=success")
		r.want(3, "provider_errors_total", "provider=hangs", "op=list", "cause=timeout")
		if r.lines("a provider's code panicked") < 3 {
			t.Error("not every panic's stack was logged")
		}
		stop()
	})
}

func TestScansOfOneProviderNeverOverlapNorQueue(t *testing.T) {
	bubble(t, setup{schedule: "@every 1s"}, func(t *testing.T, r *rig) {
		var now, most atomic.Int32
		var begun []time.Duration
		epoch := time.Now()
		r.mem.Inject(fake.Faults{List: func(context.Context) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			begun = append(begun, time.Since(epoch))
			if len(begun) == 3 {
				panic("in scan 3")
			}
			pass(5 * time.Second)
			return nil
		}})
		stop := r.run()
		pass(30 * time.Second)
		stop()
		equal(t, "at once", most.Load(), 1)
		// An interval begins anew after each.
		equal(t, "begun", begun, []time.Duration{0, 6e9, 12e9, 13e9, 19e9, 25e9})
	})
}

// begun runs the loop on a calendar and tells when each scan began, as wall
// time.
func begun(t *testing.T, schedule string, from string, f func(r *rig)) (clock []string) {
	t.Helper()
	bubble(t, setup{schedule: schedule}, func(t *testing.T, r *rig) {
		start, err := time.Parse("2006-01-02 15:04:05", from)
		if err != nil {
			t.Fatal(err)
		}
		r.clock.adjust(start.Sub(r.clock.Now()))
		var at []time.Time
		r.mem.Inject(fake.Faults{List: func(context.Context) error { at = append(at, r.clock.Now()); return nil }})
		stop := r.run()
		f(r)
		stop()
		for _, a := range at {
			clock = append(clock, a.UTC().Format("15:04:05"))
		}
	})
	return clock
}

func TestCalendarTicks(t *testing.T) {
	equal(t, "by the calendar",
		begun(t, "*/10 * * * *", "2026-11-30 12:03:00", func(*rig) { pass(28 * time.Minute) }),
		[]string{"12:03:00", "12:10:00", "12:20:00", "12:30:00"})
}

func TestMissedCalendarTicksAreMadeGoodOnce(t *testing.T) {
	bubble(t, setup{schedule: "* * * * *", change: func(_ int, t *scan.Target) { t.Timeout = time.Hour }}, func(t *testing.T, r *rig) {
		r.clock.adjust(r.clock.Now().Truncate(time.Hour).Add(time.Hour + 30*time.Second).Sub(r.clock.Now()))
		var at []string
		r.mem.Inject(fake.Faults{List: func(context.Context) error {
			at = append(at, r.clock.Now().UTC().Format("04:05"))
			if len(at) == 2 {
				pass(5*time.Minute + 20*time.Second)
			}
			return nil
		}})
		stop := r.run()
		pass(8 * time.Minute)
		stop()
		equal(t, "begun", at, []string{"00:30", "01:00", "06:20", "07:00", "08:00"})
	})
}

func TestWaitingFollowsTheWallClock(t *testing.T) {
	for _, tc := range []struct {
		name, schedule string
		then           func(r *rig)
		want           []string
	}{
		{"the machine slept", "0 * * * *", func(r *rig) { pass(10 * time.Minute); r.clock.adjust(5 * time.Hour); pass(time.Minute) },
			[]string{"12:10:00", "17:20:01"}},
		{"slept, by an interval", "@every 1h", func(r *rig) { pass(10 * time.Minute); r.clock.adjust(5 * time.Hour); pass(time.Minute) },
			[]string{"12:10:00", "17:20:01"}},
		{"a small step back does not repeat a tick", "0 * * * *", func(r *rig) {
			pass(49*time.Minute + 50*time.Second)
			r.clock.adjust(-90 * time.Second)
			pass(5 * time.Minute)
		},
			[]string{"12:10:00", "13:00:00"}},
		{"a clock that was years ahead", "0 * * * *", func(r *rig) { r.clock.adjust(-3 * 365 * 24 * time.Hour); pass(56 * time.Minute) },
			[]string{"12:10:00", "13:05:00"}},
		{"years ahead, by an interval", "@every 30s", func(r *rig) {
			pass(10 * time.Second)
			r.clock.adjust(-3 * 365 * 24 * time.Hour)
			pass(30 * time.Second)
		},
			[]string{"12:10:00", "12:10:30"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			equal(t, "begun", begun(t, tc.schedule, "2026-11-30 12:10:00", func(r *rig) { pass(time.Nanosecond); tc.then(r) }), tc.want)
		})
	}
}

func TestAClockSetBackDuringAScanDoesNotPutOffTheNext(t *testing.T) {
	bubble(t, setup{schedule: "0 * * * *"}, func(t *testing.T, r *rig) {
		r.mem.Inject(fake.Faults{List: func(context.Context) error {
			if r.mem.Calls("list") == 1 {
				r.clock.adjust(-3 * 365 * 24 * time.Hour)
			}
			return nil
		}})
		stop := r.run()
		pass(61 * time.Minute)
		stop()
		equal(t, "scans", r.mem.Calls("list"), 2)
	})
}

func TestShutdownFinishesWhatWasBegunAndBeginsNothing(t *testing.T) {
	bubble(t, setup{change: func(_ int, t *scan.Target) { t.Parallel = 2 }}, func(t *testing.T, r *rig) {
		for i := range 6 {
			r.mem.Put(r.up(fmt.Sprint("sb-", i), 5*time.Hour))
		}
		r.mem.Inject(fake.Faults{Stop: func(ctx context.Context, _ string) error {
			select {
			case <-time.After(20 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		stop := r.run()
		pass(10 * time.Second)
		began := time.Now()
		stop()
		equal(t, "Run returned after", time.Since(began), 10*time.Second)
		equal(t, "left", ids(t, r.mem), "sb-2 sb-3 sb-4 sb-5")
		equal(t, "stop calls", r.mem.Calls("stop"), 2)
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 2})
		r.want(4, "leaked_sandboxes")
		r.want(1, "provider_up")
	})
}

// What shutdown cuts short says nothing of the provider.
func TestShutdownDuringAListReturnsAtOnce(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("x", time.Hour))
		stop := r.run()
		pass(time.Second)
		r.mem.Inject(fake.Faults{List: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		pass(31 * time.Second)
		began := time.Now()
		stop()
		equal(t, "Run returned after", time.Since(began), 0)
		r.want(1, "provider_up")
		r.want(1, "sandboxes", "state=running")
		r.want(0, "provider_errors_total")
		r.want(0, "scans_total", "result=error")
		equal(t, "warnings", r.lines("provider could not be listed"), 0)
	})
}

func TestShutdownWhileWaitingReturnsAtOnce(t *testing.T) {
	bubble(t, setup{schedule: "@every 30d"}, func(t *testing.T, r *rig) {
		stop := r.run()
		pass(time.Hour)
		began := time.Now()
		stop()
		equal(t, "Run returned after", time.Since(began), 0)
	})
}

func TestAThousandGoInOneCycleNoMoreAtOnceThanTheKindBears(t *testing.T) {
	bubble(t, setup{change: func(_ int, t *scan.Target) { t.Parallel = 16 }}, func(t *testing.T, r *rig) {
		for i := range 1000 {
			r.mem.Put(r.up(strconv.Itoa(i), 5*time.Hour))
		}
		var now, most atomic.Int32
		r.mem.Inject(fake.Faults{Stop: func(context.Context, string) error {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			pass(time.Second)
			now.Add(-1)
			return nil
		}})
		began := time.Now()
		equal(t, "results", len(r.once()), 1000)
		equal(t, "took", time.Since(began), 63*time.Second)
		equal(t, "at once", most.Load(), 16)
		equal(t, "left", ids(t, r.mem), "")
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1000})
	})
}

func TestTheLongestOverdueGoesFirst(t *testing.T) {
	bubble(t, setup{change: func(_ int, t *scan.Target) { t.Parallel = 0 }}, func(t *testing.T, r *rig) {
		var order []string
		for i, h := range []int{5, 9, 7} {
			r.mem.Put(r.up(fmt.Sprint(i), time.Duration(h)*time.Hour))
		}
		r.mem.Inject(fake.Faults{Stop: func(_ context.Context, id string) error { order = append(order, id); return nil }})
		r.once()
		equal(t, "order", order, []string{"1", "2", "0"})
	})
}

func TestReportsComeInTheOrderOfTheConfiguration(t *testing.T) {
	names := []string{"c", "a", "b"}
	var all []providers.Provider
	for _, n := range names {
		all = append(all, fake.New(n))
	}
	bubble(t, setup{providers: all, names: names}, func(t *testing.T, r *rig) {
		all[0].(*fake.Provider).Inject(fake.Faults{List: func(context.Context) error { pass(time.Second); return errors.New("no") }})
		reports := r.loop.Once(t.Context())
		var got []string
		for _, rep := range reports {
			got = append(got, rep.Provider)
		}
		equal(t, "order", got, names)
		if reports[0].Clean() || !reports[1].Clean() {
			t.Error("the wrong report is clean")
		}
		if !slices.ContainsFunc(r.reports, func(rep scan.Report) bool { return rep.Provider == "c" && rep.Err != nil }) {
			t.Error("OnReport was not told of the failure")
		}
	})
}
