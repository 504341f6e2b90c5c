package scan_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

// place is a provider that knows where it is.
type place struct {
	*fake.Provider
	mu  sync.Mutex
	is  string
	err error
}

func (p *place) Identity(context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.is, p.err
}

func (p *place) move(is string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.is, p.err = is, err
}

// twoPlaces runs a loop over two providers, first and second, each with one
// sandbox that is due.
func twoPlaces(t *testing.T, first, second string, f func(r *rig, first, second *place)) {
	a, b := &place{Provider: fake.New("first"), is: first}, &place{Provider: fake.New("second"), is: second}
	bubble(t, setup{providers: []providers.Provider{a, b}, names: []string{"first", "second"}}, func(_ *testing.T, r *rig) {
		a.Put(r.up("on-first", 5*time.Hour))
		b.Put(r.up("on-second", 5*time.Hour))
		stop := r.run()
		pass(time.Second)
		synctest.Wait()
		f(r, a, b)
		stop()
	})
}

func TestAPlaceConfiguredTwiceIsScannedOnce(t *testing.T) {
	twoPlaces(t, "engine", "engine", func(r *rig, first, second *place) {
		pass(time.Minute)
		synctest.Wait()
		equal(t, "first", ids(t, first.Provider), "")
		equal(t, "second", ids(t, second.Provider), "on-second")
		r.want(1, "provider_up", "provider=first")
		r.want(0, "provider_up", "provider=second")
		r.absent("sandboxes", "provider=second")
		r.want(3, "provider_errors_total", "provider=second", "op=identity", "cause=duplicate")
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, rep := range r.reports {
			if rep.Provider == "second" && (!errors.Is(rep.Err, providers.ErrDuplicate) || !strings.Contains(rep.Err.Error(), "the same place as first")) {
				t.Errorf("second reports %v", rep.Err)
			}
		}
	})
}

func TestARefusedPlaceRecoversOnceTheOtherMovedAway(t *testing.T) {
	twoPlaces(t, "engine", "engine", func(r *rig, first, second *place) {
		first.move("another", nil) // without a list having failed
		pass(2 * time.Minute)
		synctest.Wait()
		equal(t, "second", ids(t, second.Provider), "")
		r.want(1, "provider_up", "provider=first")
		r.want(1, "provider_up", "provider=second")
	})
}

func TestARefusedPlaceThatWillNotSayWhoItIsStaysRefused(t *testing.T) {
	twoPlaces(t, "engine", "engine", func(r *rig, _, second *place) {
		second.move("", errors.New("info hangs"))
		pass(2 * time.Minute)
		synctest.Wait()
		equal(t, "second", ids(t, second.Provider), "on-second")
		r.want(0, "provider_up", "provider=second")
	})
}

func TestPlacesThatDoNotSayWhoTheyAreAreTakenAsTheyAre(t *testing.T) {
	twoPlaces(t, "", "", func(r *rig, first, second *place) {
		equal(t, "left", ids(t, first.Provider)+ids(t, second.Provider), "")
		r.want(2, "provider_up")
	})
	hangs := &hangingPlace{fake.New("first")}
	healthy := fake.New("second")
	bubble(t, setup{providers: []providers.Provider{hangs, healthy}, names: []string{"first", "second"}}, func(t *testing.T, r *rig) {
		hangs.Put(r.up("x", 5*time.Hour))
		healthy.Put(r.up("x", 5*time.Hour))
		stop := r.run()
		pass(2100 * time.Millisecond) // what a place may hold up the others at start
		synctest.Wait()
		equal(t, "healthy", ids(t, healthy), "")
		pass(6 * time.Second)
		synctest.Wait()
		equal(t, "hanging, and listed", ids(t, hangs.Provider), "")
		stop()
	})
}

type hangingPlace struct{ *fake.Provider }

func (p *hangingPlace) Identity(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// A dry run changes nothing and counts each sandbox once, until something else
// is to be said of it.
func TestADryRunSendsNothingAndCountsOnce(t *testing.T) {
	policies := `
version: 1
policies:
  - {name: dev, match: {tags: {env: dev}}, limits: {max_uptime: 4h}, action: {type: remove}}
  - {name: shadow, match: {tags: {env: dev}}, limits: {max_uptime: 1h}, mode: report}
`
	bubble(t, setup{policies: policies, change: func(_ int, t *scan.Target) { t.DryRun = true }}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("a", 5*time.Hour))
		r.mem.Put(r.up("b", 5*time.Hour))
		r.mem.Put(r.up("young", 2*time.Hour))
		for range 100 {
			r.once()
		}
		equal(t, "left", ids(t, r.mem), "a b young")
		equal(t, "stop calls", r.mem.Calls("stop"), 0)
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeDryRun: 2})
		r.want(2, "would_reclaim_sandboxes", "policy=dev")
		r.want(3, "would_reclaim_sandboxes", "policy=shadow")
		r.want(2, "leaked_sandboxes", "policy=dev", "reason=max_uptime")
		r.absent("leaked_sandboxes", "policy=shadow")
		r.want(0, "provider_errors_total")
		equal(t, "lines", r.lines("would reclaim"), 2)

		r.mem.Put(r.up("a", 5*time.Hour, func(sb *providers.Sandbox) { sb.Revision = "2" }))
		r.once()
		r.once()
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeDryRun: 3})
	})
}

// A report-mode policy never acts, dry run or not.
func TestReportModeActsOnNothing(t *testing.T) {
	policies := "version: 1\npolicies: [{name: shadow, match: {tags: {env: dev}}, limits: {max_uptime: 1h}, mode: report}]"
	bubble(t, setup{policies: policies}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("a", 5*time.Hour))
		r.once()
		equal(t, "calls", r.mem.Calls("get")+r.mem.Calls("stop"), 0)
		r.want(1, "would_reclaim_sandboxes", "policy=shadow")
		r.absent("leaked_sandboxes")
	})
}

// A provider is given another name while it is asked who it is: the answer must
// not keep the place for a name that is no more.
func TestAPlaceThatIsRenamedWhileItIsAskedIsNotRefused(t *testing.T) {
	for name, before := range map[string]time.Duration{"at start": 500 * time.Millisecond, "later": 31500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			slow := &slowPlace{fake.New("mem")}
			bubble(t, setup{providers: []providers.Provider{slow}, names: []string{"old"}}, func(_ *testing.T, r *rig) {
				slow.Inject(fake.Faults{List: func(context.Context) error { return providers.ErrUnavailable }}) // so that it is asked anew
				defer r.run()()
				pass(before)
				slow.Inject(fake.Faults{})
				renamed := r.targets[0]
				renamed.Name = "new"
				r.loop.Reload(r.settings(fourHours, renamed))
				pass(2 * time.Minute)
				synctest.Wait()
				r.want(1, "provider_up", "provider=new")
			})
		})
	}
}

// slowPlace takes a second to say who it is, whatever becomes of the caller.
type slowPlace struct{ *fake.Provider }

func (p *slowPlace) Identity(context.Context) (string, error) {
	pass(time.Second)
	return "engine", nil
}
