package scan_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

// hang is a call that gets no answer.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("no answer: %w", ctx.Err())
}

func (p *cloud) Probe(ctx context.Context) error {
	if f := p.probe.Load(); f != nil {
		return (*f)(ctx)
	}
	return nil
}

func (p *cloud) probed(f func(context.Context) error) { p.probe.Store(&f) }

// A place on which one after the other hangs is left alone after the third,
// until it answers a probe.
func TestASickProviderIsLeftAlone(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{change: func(_ int, t *scan.Target) { t.Parallel = 1 }}), func(t *testing.T, r *rig) {
		for i := range 20 {
			p.Put(r.up(fmt.Sprintf("x%02d", i), 5*time.Hour))
		}
		var probes, sick atomic.Int32
		p.probed(func(context.Context) error {
			if probes.Add(1); sick.Load() > 0 {
				return errors.New("sick")
			}
			return nil
		})
		p.Inject(fake.Faults{Get: func(ctx context.Context, _ string) error { return hang(ctx) }})
		defer r.run()()
		synctest.Wait()
		sick.Store(1) // it was fit before the first batch, and is not any more
		pass(10 * time.Minute)
		equal(t, "looks", p.Calls("get"), 3)
		equal(t, "stops", p.Calls("stop"), 0)
		r.want(1, "provider_degraded", "provider=mem")
		r.want(1, "provider_up", "provider=mem") // it can be listed all the while
		equal(t, "told", r.lines("provider is degraded: nothing more is stopped there until a probe is answered"), 1)
		if n := probes.Load(); n < 40 || n > 80 {
			t.Errorf("%d probes in ten minutes", n)
		}
		p.Inject(fake.Faults{})
		sick.Store(0)
		pass(30 * time.Second)
		equal(t, "left", ids(t, p.Provider), "")
		r.want(0, "provider_degraded", "provider=mem")
		equal(t, "told", r.lines("provider is fit again"), 1)
	})
}

func TestAProbeThatHangsComesBeforeTheMany(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{}), func(t *testing.T, r *rig) {
		p.probed(hang)
		for i := range 4 {
			p.Put(r.up(fmt.Sprintf("x%02d", i), 5*time.Hour))
		}
		defer r.run()()
		pass(time.Minute)
		equal(t, "looks", p.Calls("get"), 0)
		r.want(1, "provider_degraded", "provider=mem")
		p.probe.Store(nil)
		pass(20 * time.Second)
		equal(t, "left", ids(t, p.Provider), "")
	})
}

// One that hangs says nothing of the others, however often it is tried.
func TestOneThatHangsMakesNoProviderSick(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{}), func(t *testing.T, r *rig) {
		p.Put(r.up("hangs", 5*time.Hour))
		p.Inject(fake.Faults{Get: func(ctx context.Context, id string) error {
			if id == "hangs" {
				return hang(ctx)
			}
			return nil
		}})
		defer r.run()()
		pass(30 * time.Minute)
		r.want(0, "provider_degraded", "provider=mem")
		p.Put(r.up("other", 5*time.Hour))
		pass(time.Minute)
		equal(t, "left", ids(t, p.Provider), "hangs")
	})
}

// A filter before an engine may forbid the probe. That says nothing of the
// engine: its lists stand in.
func TestAProviderThatForbidsProbes(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{change: func(_ int, t *scan.Target) { t.Parallel = 1 }}), func(t *testing.T, r *rig) {
		p.probed(func(context.Context) error { return providers.ErrDenied })
		for i := range 6 {
			p.Put(r.up(fmt.Sprintf("x%02d", i), 5*time.Hour))
		}
		p.Inject(fake.Faults{Get: func(ctx context.Context, _ string) error { return hang(ctx) }})
		defer r.run()()
		pass(31 * time.Second)
		r.want(1, "provider_degraded", "provider=mem")
		p.Inject(fake.Faults{})
		pass(2 * time.Minute)
		r.want(0, "provider_degraded", "provider=mem")
		equal(t, "left", ids(t, p.Provider), "")
		equal(t, "told", r.lines("provider does not let itself be probed: where it is to be probed, its next list stands in"), 1)
	})
}

// A place may answer every look, and hang on every stop: that each such stop is
// followed by looks that are answered makes it no fitter.
func TestStopsThatHangWhileLooksAreAnswered(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{change: func(_ int, t *scan.Target) { t.Parallel = 1 }}), func(t *testing.T, r *rig) {
		for i := range 3 { // too few to be worth a probe before
			p.Put(r.up(fmt.Sprintf("x%02d", i), 5*time.Hour))
		}
		p.probed(hang)
		p.Inject(fake.Faults{Stop: func(ctx context.Context, _ string) error { return hang(ctx) }})
		defer r.run()()
		pass(10 * time.Minute)
		equal(t, "stops", p.Calls("stop"), 3)
		r.want(1, "provider_degraded", "provider=mem")
		p.Inject(fake.Faults{})
		p.probe.Store(nil)
		pass(30 * time.Second)
		equal(t, "left", ids(t, p.Provider), "")
		r.want(0, "provider_degraded", "provider=mem")
	})
}

// Where there is no probe, a list is.
func TestASickProviderWithoutAProbe(t *testing.T) {
	bubble(t, setup{change: func(_ int, t *scan.Target) { t.Parallel = 1 }}, func(t *testing.T, r *rig) {
		for i := range 6 {
			r.mem.Put(r.up(fmt.Sprintf("x%02d", i), 5*time.Hour))
		}
		r.mem.Inject(fake.Faults{Get: func(ctx context.Context, _ string) error { return hang(ctx) }})
		defer r.run()()
		pass(31 * time.Second)
		r.want(1, "provider_degraded", "provider=mem")
		r.mem.Inject(fake.Faults{})
		pass(2 * time.Minute)
		r.want(0, "provider_degraded", "provider=mem")
		equal(t, "left", ids(t, r.mem), "")
	})
}

// A provider that is throttled says for how long to leave it alone, and that
// is done, up to a cap. It costs no sandbox a try.
func TestThrottlingIsWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		waits  time.Duration
	}{
		"as long as it says":   {providers.Throttled{RetryAfter: 2 * time.Minute}, 2 * time.Minute},
		"up to a cap":          {providers.Throttled{RetryAfter: 24 * time.Hour}, 5 * time.Minute},
		"it does not say":      {providers.ErrThrottled, 5 * time.Second},
		"it says nothing good": {providers.Throttled{RetryAfter: -time.Hour}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{schedule: "@every 1h", attempts: 2, change: func(_ int, t *scan.Target) { t.Parallel = 1 }}, func(t *testing.T, r *rig) {
				for i := range 8 {
					r.mem.Put(r.up(fmt.Sprintf("x%d", i), 5*time.Hour))
				}
				var mu sync.Mutex
				var refused []time.Time
				r.mem.Inject(fake.Faults{Stop: func(_ context.Context, id string) error {
					mu.Lock()
					defer mu.Unlock()
					if id == "x4" && len(refused) < 4 {
						refused = append(refused, r.clock.Now())
						return fmt.Errorf("stop: %w", tc.answer)
					}
					return nil
				}})
				defer r.run()()
				synctest.Wait()
				equal(t, "left once it is throttled", ids(t, r.mem), "x4 x5 x6 x7")
				pass(25 * time.Minute)
				equal(t, "left", ids(t, r.mem), "")
				for i := 1; i < len(refused); i++ {
					if waited := refused[i].Sub(refused[i-1]); waited < tc.waits || waited > tc.waits+time.Second {
						t.Errorf("it was asked again after %s", waited)
					}
				}
				r.want(0, "reclaims_total", "outcome=stuck")
				r.want(1, "reclaims_total", "outcome=failed")
			})
		})
	}
}

func TestAListThatIsThrottledIsWaitedFor(t *testing.T) {
	bubble(t, setup{schedule: "@every 10s"}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("a", 5*time.Hour))
		r.mem.Inject(fake.Faults{List: func(context.Context) error { return providers.Throttled{RetryAfter: time.Minute} }})
		defer r.run()()
		pass(5*time.Minute + time.Second)
		equal(t, "lists", r.mem.Calls("list"), 6)
		r.mem.Inject(fake.Faults{})
		pass(time.Minute)
		equal(t, "left", ids(t, r.mem), "")
		if n := r.mem.Calls("list"); n > 8 {
			t.Errorf("%d lists", n)
		}
	})
}

func (p *cloud) Watch(ctx context.Context, changed func(string)) error {
	p.tell.Store(&changed)
	if p.watch == nil {
		<-ctx.Done()
		return nil
	}
	return p.watch()
}

func (p *cloud) changed(id string) { (*p.tell.Load())(id) }

// Between two lists an hour apart the inventory follows the provider's events.
func TestEventsKeepTheInventoryCurrent(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{schedule: "@every 1h"}), func(t *testing.T, r *rig) {
		p.Put(r.up("kept", time.Minute))
		p.Put(r.up("removed", time.Minute))
		defer r.run()()
		pass(time.Minute)
		p.Put(r.up("due-at-once", 5*time.Hour))
		p.Put(r.up("due-later", 4*time.Hour-10*time.Minute))
		p.Delete("removed")
		for _, id := range []string{"due-at-once", "due-at-once", "due-later", "removed", "nobody"} {
			p.changed(id)
		}
		pass(100 * time.Millisecond)
		synctest.Wait()
		equal(t, "left", ids(t, p.Provider), "due-later kept")
		r.want(2, "sandboxes", "state=running")
		equal(t, "looks", p.Calls("get"), 6) // four that changed, and two at the door
		pass(10 * time.Minute)
		equal(t, "left", ids(t, p.Provider), "kept")
		p.Put(r.up("kept", time.Minute, in(providers.StateExited)))
		p.changed("kept")
		pass(time.Second)
		r.want(1, "sandboxes", "state=exited")
		r.want(0, "sandboxes", "state=running")
		equal(t, "lists", p.Calls("list"), 1+2) // two by the test
	})
}

// More changes than are worth a look each are worth a list.
func TestAFloodOfEventsIsOneList(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{schedule: "@every 1h"}), func(t *testing.T, r *rig) {
		defer r.run()()
		pass(time.Minute)
		for i := range 10_000 {
			id := fmt.Sprint(i)
			p.Put(r.up(id, 5*time.Hour))
			p.changed(id)
		}
		pass(time.Second)
		equal(t, "lists", p.Calls("list"), 2)
		equal(t, "left", ids(t, p.Provider), "")
	})
}

// A stream that breaks is taken up again, more and more slowly, and told once.
// It panics as well, which costs nobody anything.
func TestAStreamThatBreaks(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{schedule: "@every 1h"}), func(t *testing.T, r *rig) {
		var watches atomic.Int32
		p.watch = func() error {
			if watches.Add(1)%2 == 0 {
				panic("a bug")
			}
			return errors.New("broken")
		}
		defer r.run()()
		pass(30 * time.Minute)
		if n := watches.Load(); n < 20 || n > 60 {
			t.Errorf("%d times in half an hour", n)
		}
		r.want(float64(watches.Load()), "provider_errors_total", "op=watch")
		equal(t, "told", r.lines("the provider's events broke off: until they are back, its lists tell of changes"), 1)
	})
}

// While it cannot be listed, nothing is done on the word of an event.
func TestEventsDoNotStandInForAList(t *testing.T) {
	p := newCloud()
	bubble(t, p.on(setup{}), func(t *testing.T, r *rig) {
		p.Inject(fake.Faults{List: func(context.Context) error { return errors.New("down") }})
		defer r.run()()
		pass(time.Minute)
		p.Put(r.up("old", 5*time.Hour))
		p.changed("old")
		pass(time.Minute)
		equal(t, "calls", p.Calls("get")+p.Calls("stop"), 0)
		r.want(0, "provider_up")
	})
}

// One that takes its time to end delays nobody else: what falls due meanwhile
// goes at its own deadline, and the lists go on.
func TestOneThatIsSlowToEndDelaysNobody(t *testing.T) {
	bubble(t, setup{schedule: "@every 10s", change: func(_ int, t *scan.Target) { t.Parallel = 2 }}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("slow", 5*time.Hour))
		r.mem.Put(r.up("soon", 4*time.Hour-5*time.Second))
		r.mem.Put(r.up("later", 4*time.Hour-25*time.Second))
		var slow atomic.Bool
		slow.Store(true)
		r.mem.Inject(fake.Faults{Stop: func(ctx context.Context, id string) error {
			if id == "slow" && slow.Load() {
				return hang(ctx)
			}
			return nil
		}})
		stop := r.run()
		pass(26 * time.Second)
		equal(t, "left", ids(t, r.mem), "slow")
		late, n, _ := r.sample("reclaim_lateness_seconds")
		if n != 2 || late > 0.1 {
			t.Errorf("%d late by %v s", n, late)
		}
		if n := r.mem.Calls("list"); n < 3 {
			t.Errorf("%d lists", n)
		}
		equal(t, "stops", r.mem.Calls("stop"), 3) // and none twice at once
		slow.Store(false)
		pass(2 * time.Minute)
		equal(t, "left", ids(t, r.mem), "")
		r.want(3, "reclaims_total", "outcome=reclaimed")
		stop()
	})
}

// One whose stop is under way when it disappears from the list is told as
// reclaimed once, by whoever stops it.
func TestOneThatGoesWhileItsStopHangsIsToldOnce(t *testing.T) {
	bubble(t, setup{schedule: "@every 10s"}, func(_ *testing.T, r *rig) {
		r.mem.Put(r.up("a", 5*time.Hour))
		tries := 0
		r.mem.Inject(fake.Faults{
			StopIgnored: func(string) bool { tries++; return tries == 1 },
			Stop: func(ctx context.Context, id string) error {
				if tries == 0 {
					return nil
				}
				r.mem.Delete(id) // it is done, and the answer does not come
				return hang(ctx)
			},
		})
		defer r.run()()
		pass(5 * time.Minute)
		r.want(1, "reclaims_total", "outcome=reclaimed")
		r.want(0, "reclaims_total", "outcome=gone")
	})
}
