package scan_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

func TestWhoSleptHearsOutAFullTimeout(t *testing.T) {
	for name, sleep := range map[string]func(r *rig){
		"the machine slept":               func(r *rig) { r.clock.sleep(8 * time.Hour) },
		"reaperd alone was stopped":       func(r *rig) { r.clock.sleep(8 * time.Minute) },
		"it slept, and the clock was set": func(r *rig) { r.clock.sleep(8 * time.Hour); r.clock.adjust(-8 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{policies: beating}, func(t *testing.T, r *rig) {
				r.mem.Put(r.up("beats", time.Minute))
				r.mem.Put(r.up("leased", time.Minute, tagged(leased, "job")))
				defer r.run()()
				synctest.Wait()
				r.beat("beats")
				r.renew("job", time.Minute)
				pass(29*time.Second + 500*time.Millisecond) // the tick of the lane is first to see it
				sleep(r)
				pass(4 * time.Minute)
				equal(t, "left", ids(t, r.mem), "beats leased")
				r.want(1, "blindness_total")
				equal(t, "told", r.lines("reaperd was not there for a while: whoever sends heartbeats has a full timeout again"), 1)
				pass(2 * time.Minute)
				equal(t, "left", ids(t, r.mem), "")
			})
		})
	}
}

func TestSleepIsFollowedByOneScanAtOnce(t *testing.T) {
	bubble(t, setup{schedule: "@every 1h"}, func(t *testing.T, r *rig) {
		defer r.run()()
		pass(10*time.Minute + 500*time.Millisecond)
		equal(t, "lists", r.mem.Calls("list"), 1)
		r.clock.sleep(20 * time.Minute)
		pass(5 * time.Second)
		equal(t, "lists", r.mem.Calls("list"), 2)
		pass(30 * time.Minute)
		equal(t, "lists", r.mem.Calls("list"), 2)
	})
}

// A step of the wall clock ages all at once. What that makes due is held for a
// quarter of an hour, what is due by the old clock is not.
func TestWhatAStepOfTheClockMakesDueIsHeld(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("young", time.Hour))
		r.mem.Put(r.up("nearly", 4*time.Hour-5*time.Minute))
		defer r.run()()
		pass(10 * time.Second)
		r.clock.adjust(6 * time.Hour)
		pass(4 * time.Minute)
		equal(t, "left", ids(t, r.mem), "nearly young")
		r.want(2, "held_sandboxes", "cause=clock")
		r.want(1, "clock_steps_total")
		r.want(2, "reclaims_total", "outcome=held")
		equal(t, "told", r.lines("the wall clock was set: what that makes due is held"), 1)
		equal(t, "held, told", r.lines("some that are due are held, and go if they still are due then"), 1)
		pass(2 * time.Minute)
		equal(t, "left when it is due by the old clock too", ids(t, r.mem), "young")
		pass(8 * time.Minute)
		equal(t, "left within the hold", ids(t, r.mem), "young")
		pass(2 * time.Minute)
		equal(t, "left after the hold", ids(t, r.mem), "")
		r.want(0, "held_sandboxes", "cause=clock")
	})
}

func TestAStepThatIsTakenBackMakesNothingDue(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("young", time.Hour))
		defer r.run()()
		pass(10 * time.Second)
		r.clock.adjust(6 * time.Hour)
		pass(5 * time.Minute)
		r.clock.adjust(-6 * time.Hour)
		pass(time.Hour)
		equal(t, "left", ids(t, r.mem), "young")
		r.want(2, "clock_steps_total")
		pass(2*time.Hour + time.Minute)
		equal(t, "left when it is due", ids(t, r.mem), "")
	})
}

func TestSmallCorrectionsHoldNothing(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("old", 4*time.Hour-time.Minute))
		defer r.run()()
		pass(10 * time.Second)
		r.clock.adjust(2 * time.Minute)
		pass(31 * time.Second)
		equal(t, "left", ids(t, r.mem), "")
		r.want(0, "clock_steps_total")
	})
}

// cloud is a fake kind with a clock of its own, a probe and events.
type cloud struct {
	*fake.Provider
	ahead atomic.Int64
	probe atomic.Pointer[func(context.Context) error] // nil: it answers
	tell  atomic.Pointer[func(id string)]             // what its watcher gave
	watch func() error                                // nil: the stream never breaks
}

func newCloud() *cloud { return &cloud{Provider: fake.New("mem")} }

func (p *cloud) Skew() (time.Duration, bool) { return time.Duration(p.ahead.Load()), true }

// on gives a setup with the place as its only provider.
func (p *cloud) on(s setup) setup {
	s.providers, s.names = []providers.Provider{p}, []string{"mem"}
	return s
}

func TestAProvidersClockIsAllowedFor(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{}), func(t *testing.T, r *rig) {
		skew := 2 * time.Minute
		p.ahead.Store(int64(skew)) // it tells times two minutes late
		p.Put(r.up("a", 4*time.Hour-skew-time.Minute))
		defer r.run()()
		pass(59 * time.Second)
		equal(t, "left", ids(t, p.Provider), "a")
		r.want(skew.Seconds(), "provider_clock_skew_seconds", "provider=mem")
		pass(2 * time.Second)
		synctest.Wait()
		equal(t, "left when it is due by our clock", ids(t, p.Provider), "")
	})
}

func TestTooMuchSkewHoldsAgesAndNothingElse(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{policies: fourHours + `
  - {name: beats, match: {tags: {env: dev}}, limits: {heartbeat: {timeout: 5m}}, action: {type: remove}}
`}), func(t *testing.T, r *rig) {
		p.Put(r.up("old", 12*time.Hour))
		p.Put(r.up("silent", 7*time.Minute)) // that is a minute by our clock
		p.ahead.Store(int64(-6 * time.Minute))
		defer r.run()()
		synctest.Wait()
		r.beat("silent")
		pass(10 * time.Minute)
		equal(t, "left", ids(t, p.Provider), "old")
		r.want(1, "held_sandboxes", "cause=skew")
		equal(t, "told", r.lines("the provider's clock is too far from ours: limits that count from its times are held"), 1)
		p.ahead.Store(0)
		pass(time.Minute + 31*time.Second)
		equal(t, "left when the clock is right again", ids(t, p.Provider), "")
		equal(t, "told", r.lines("the provider's clock is near ours again"), 1)
		r.want(0, "held_sandboxes", "cause=skew")
	})
}

// A crash loop moves its start with every try. Its run does not begin anew by
// that, nor by a restart of reaperd.
func TestACrashLoopGrowsOld(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		r := &rig{t: t, clock: l.clock}
		var shown []providers.Sandbox
		loop := func(id string, restarts func(try int) int) func(try int) {
			return func(try int) {
				sb := r.up(id, time.Second)
				sb.Restarts = restarts(try)
				if id == "crashing" && try%50 == 49 && len(shown) > 0 { // a list may be older than what was seen since
					sb = shown[len(shown)-2]
				}
				if id == "crashing" {
					shown = append(shown, sb)
				}
				l.mem.Put(sb)
			}
		}
		crashing := loop("crashing", func(try int) int { return try })
		restarted := loop("restarted", func(int) int { return 0 })                      // by its owner, each time
		resumed := loop("resumed", func(try int) int { return max(0, try-4*60) % 200 }) // by its owner once, after 200 tries
		d := l.start(t)
		gone := 0
		for try := range 10 * 60 {
			crashing(try)
			restarted(try)
			resumed(try)
			pass(30 * time.Second)
			if try%120 == 119 { // every hour
				d.stop()
				d = l.start(t)
			}
			if _, err := l.mem.Get(t.Context(), "crashing"); err != nil && gone == 0 {
				gone = try
			}
			if gone > 0 {
				l.mem.Delete("crashing")
			}
		}
		if ran := time.Duration(gone) * 30 * time.Second; ran < 4*time.Hour-time.Minute || ran > 4*time.Hour+time.Minute {
			t.Errorf("the crash loop ran for %s", ran)
		}
		equal(t, "left", ids(t, l.mem), "restarted resumed")
	})
}

// What was reclaimed and runs again is told, once, and reclaimed again; what a
// list goes on showing is not.
func TestWhatComesBackIsTold(t *testing.T) {
	stopping := `
version: 1
policies: [{name: dev, match: {tags: {env: dev}}, limits: {max_uptime: 4h}, action: {type: stop}}]
`
	bubble(t, setup{policies: stopping}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("a", 5*time.Hour))
		r.mem.Put(r.up("b", 5*time.Hour))
		defer r.run()()
		pass(time.Minute)
		r.want(2, "reclaims_total", "outcome=reclaimed")
		r.want(0, "resurrected_total")
		r.mem.Put(r.up("a", 0)) // as an engine does that comes up again
		pass(time.Minute)
		r.want(1, "resurrected_total", "provider=mem")
		equal(t, "told", r.lines("a sandbox that was reclaimed runs again"), 1)
		pass(4 * time.Hour)
		r.want(1, "resurrected_total")
		r.want(3, "reclaims_total", "outcome=reclaimed")
	})
}

// lagging goes on listing what is gone.
type lagging struct {
	*fake.Provider
	shows []providers.Sandbox
}

func (l *lagging) List(ctx context.Context) ([]providers.Sandbox, error) {
	_, err := l.Provider.List(ctx)
	return l.shows, err
}

func TestAListThatLagsBringsNothingBack(t *testing.T) {
	lag := &lagging{Provider: fake.New("mem")}
	bubble(t, setup{providers: []providers.Provider{lag}, names: []string{"mem"}}, func(_ *testing.T, r *rig) {
		sb := r.up("a", 5*time.Hour)
		lag.Put(sb)
		sb.Provider, sb.Kind = "mem", fake.Name
		lag.shows = []providers.Sandbox{sb}
		defer r.run()()
		pass(5 * time.Minute)
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
		r.want(0, "resurrected_total")
	})
}

// What reaperd stamped itself is as long ago as it is, whatever is done to the
// clock: forward, and back and forward again.
func TestOurOwnStampsFollowAClockThatIsSet(t *testing.T) {
	ageless := func(r *rig) providers.Sandbox {
		return r.up("ageless", 0, func(sb *providers.Sandbox) { sb.Created, sb.Started = time.Time{}, time.Time{} })
	}
	for name, set := range map[string][]time.Duration{
		"forward": {24 * time.Hour}, "back and forward": {-24 * time.Hour, 24 * time.Hour},
		"forward and back": {24 * time.Hour, -24 * time.Hour}, "by a little": {2 * time.Minute, 2 * time.Minute},
		"by weeks": {21 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{policies: fourHours + `
  - {name: beats, match: {tags: {env: dev}}, limits: {heartbeat: {timeout: 5m}}, action: {type: remove}}
`}, func(t *testing.T, r *rig) {
				r.mem.Put(ageless(r))
				r.mem.Put(r.up("leased", 0, tagged(leased, "job"), func(sb *providers.Sandbox) { sb.Created, sb.Started = time.Time{}, time.Time{} }))
				defer r.run()()
				synctest.Wait()
				r.renew("job", 3*time.Hour)
				pass(time.Hour)
				for _, by := range set {
					r.clock.adjust(by)
					pass(20 * time.Minute)
				}
				pass(100*time.Minute - time.Duration(len(set))*20*time.Minute)
				equal(t, "left while the lease lives", ids(t, r.mem), "ageless leased")
				pass(25 * time.Minute) // and a step may have made reaperd deaf for a while
				equal(t, "left after the lease", ids(t, r.mem), "ageless")
				pass(54 * time.Minute)
				equal(t, "left within four hours", ids(t, r.mem), "ageless")
				pass(2 * time.Minute)
				equal(t, "left after four hours", ids(t, r.mem), "")
				r.want(0, "reclaims_total", "outcome=held")
			})
		})
	}
}

// While a provider's times cannot be used, what beats no more goes all the
// same, though an age limit fell due before.
func TestSkewHidesNoSilence(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{policies: fourHours + `
  - {name: beats, match: {tags: {env: dev}}, limits: {heartbeat: {timeout: 5m}}, action: {type: stop}}
`}), func(_ *testing.T, r *rig) {
		p.Put(r.up("a", 12*time.Hour))
		p.ahead.Store(int64(-6 * time.Minute))
		defer r.run()()
		synctest.Wait()
		r.beat("a")
		pass(4 * time.Minute)
		r.want(1, "held_sandboxes", "cause=skew")
		pass(2 * time.Minute)
		r.want(1, "reclaims_total", "reason=heartbeat_lost", "outcome=reclaimed")
	})
}
