package scan_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

// settings are the rig's, with policies in the place of its own.
func (r *rig) settings(policies string, targets ...scan.Target) scan.Settings {
	r.t.Helper()
	set, _, err := policy.Load([]policy.File{{Name: "p.yaml", Data: []byte(policies)}}, policy.Known{})
	if err != nil {
		r.t.Fatal(err)
	}
	if targets == nil {
		targets = r.targets
	}
	return scan.Settings{Targets: targets, Policies: set, Attempts: 5, Brake: scan.BrakeOptions{MinCount: 1 << 30}}
}

const tenHours = `
version: 1
policies:
  - name: longer
    match: {tags: {env: dev}}
    limits: {max_uptime: 10h}
    action: {type: remove}
`

func TestAReloadJudgesByTheNewPoliciesAtOnce(t *testing.T) {
	bubble(t, setup{schedule: "@every 1h"}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("a", 3*time.Hour+59*time.Minute))
		r.mem.Put(r.up("b", 11*time.Hour, tagged("reaperd.protect", "true")))
		defer r.run()()
		pass(time.Second)
		r.loop.Reload(r.settings(tenHours))
		pass(time.Second)
		synctest.Wait()
		equal(t, "lists", r.mem.Calls("list"), 2)
		equal(t, "left", ids(t, r.mem), "a") // b has no protection any more
		pass(2 * time.Minute)                // the old deadline of a
		synctest.Wait()
		equal(t, "left", ids(t, r.mem), "a")
		r.absent("reclaims_total", "policy=dev")
		r.want(1, "reclaims_total", "policy=longer", "outcome=reclaimed")
	})
}

func TestProvidersComeStayAndGoByReload(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("kept", time.Hour))
		defer r.run()()
		pass(10 * time.Second)
		other := fake.New("other")
		other.Put(r.up("late", 5*time.Hour))
		added := r.targets[0]
		added.Name, added.Provider, added.Settings = "other", other, "other"
		r.loop.Reload(r.settings(fourHours, r.targets[0], added))
		pass(time.Second)
		synctest.Wait()
		equal(t, "left on the new one", ids(t, other), "")
		r.want(2, "scans_total", "provider=mem", "result=success") // counted on
		r.want(1, "provider_up", "provider=other")

		r.loop.Reload(r.settings(fourHours, added))
		pass(time.Minute)
		synctest.Wait()
		lists := r.mem.Calls("list")
		pass(10 * time.Minute)
		synctest.Wait()
		equal(t, "lists of one that is gone", r.mem.Calls("list"), lists)
		for _, name := range []string{"scans_total", "provider_up", "sandboxes", "reclaims_total", "provider_errors_total"} {
			r.absent(name, "provider=mem")
		}
		r.want(1, "reclaims_total", "provider=other", "outcome=reclaimed")

		r.loop.Reload(r.settings(fourHours, r.targets[0], added))
		pass(time.Second)
		synctest.Wait()
		r.want(1, "scans_total", "provider=mem", "result=success")
	})
}

// First seen is all the age that such a sandbox has: a reload must not make it
// young again.
func TestAReloadForgetsNothing(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		sb := r.up("a", 0)
		sb.Created, sb.Started = time.Time{}, time.Time{}
		r.mem.Put(sb)
		defer r.run()()
		for range 100 {
			pass(2 * time.Minute)
			r.loop.Reload(r.settings(fourHours))
		}
		pass(41 * time.Minute)
		synctest.Wait()
		equal(t, "left", ids(t, r.mem), "")
	})
}

func TestAReloadLetsAStopUnderWayFinish(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Inject(fake.Faults{Stop: func(ctx context.Context, _ string) error {
			select {
			case <-time.After(20 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		r.mem.Put(r.up("a", 5*time.Hour))
		other := fake.New("other")
		added := r.targets[0]
		added.Name, added.Provider = "other", other
		stop := r.run()
		pass(time.Second)
		r.loop.Reload(r.settings(fourHours, added)) // mem is gone
		pass(time.Second)
		synctest.Wait()
		r.want(1, "provider_up", "provider=other") // which waits for nobody
		pass(time.Minute)
		synctest.Wait()
		equal(t, "left", ids(t, r.mem), "")
		stop()
	})
}

func TestDryRunIsArmedAndDisarmedByReload(t *testing.T) {
	dry := func(_ int, t *scan.Target) { t.DryRun = true }
	bubble(t, setup{change: dry}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("a", 5*time.Hour))
		defer r.run()()
		pass(time.Minute)
		equal(t, "left", ids(t, r.mem), "a")
		armed := r.targets[0]
		armed.DryRun = false
		r.loop.Reload(r.settings(fourHours, armed))
		pass(time.Second)
		equal(t, "left", ids(t, r.mem), "")
		r.loop.Reload(r.settings(fourHours, r.targets[0]))
		r.mem.Put(r.up("b", 5*time.Hour))
		pass(time.Minute)
		synctest.Wait()
		equal(t, "left", ids(t, r.mem), "b")
	})
}

// Fifty reloads leave as many series and goroutines as one (the package looks
// for goroutines that are left when it ends).
func TestReloadsLeaveNothingBehind(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		stop := r.run()
		var counts []int
		for i := range 50 {
			other := r.targets[0]
			other.Name, other.Provider = fmt.Sprintf("other-%d", i), fake.New("other")
			policies := fmt.Sprintf("version: 1\npolicies: [{name: p-%d, match: {tags: {a: b}}, limits: {max_age: 1d}}]\n", i)
			r.loop.Reload(r.settings(policies, r.targets[0], other))
			pass(time.Second)
			synctest.Wait()
			families, err := r.reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, f := range families {
				n += len(f.GetMetric())
			}
			counts = append(counts, n)
		}
		if slices.Max(counts[1:]) != slices.Min(counts[1:]) {
			t.Errorf("series after each reload: %v", counts)
		}
		stop()
	})
}

// Somebody sees what is going and makes it stop: what was not begun stays.
func TestAReloadKeepsWhatWaitsForItsTurn(t *testing.T) {
	for name, change := range map[string]func(r *rig) scan.Settings{
		"dry run": func(r *rig) scan.Settings {
			dry := r.targets[0]
			dry.DryRun = true
			return r.settings(fourHours, dry)
		},
		"policies": func(r *rig) scan.Settings { return r.settings(tenHours) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{change: func(_ int, t *scan.Target) { t.Parallel = 2 }}, func(t *testing.T, r *rig) {
				for i := range 6 {
					r.mem.Put(r.up(fmt.Sprint("sb-", i), 5*time.Hour))
				}
				r.mem.Inject(fake.Faults{Stop: func(context.Context, string) error { pass(10 * time.Second); return nil }})
				defer r.run()()
				pass(time.Second)
				r.loop.Reload(change(r))
				pass(time.Minute)
				synctest.Wait()
				equal(t, "left", ids(t, r.mem), "sb-2 sb-3 sb-4 sb-5")
			})
		})
	}
}

// A stop that was sent to one engine says nothing of what another does not have.
func TestAnotherEngineUnderTheSameNameIsNotCreditedWithTheOldOnes(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Inject(fake.Faults{StopIgnored: func(string) bool { return true }})
		r.mem.Put(r.up("a", 5*time.Hour))
		defer r.run()()
		pass(15 * time.Second)
		other := r.targets[0]
		other.Provider, other.Settings = fake.New("mem"), "another host"
		r.loop.Reload(r.settings(fourHours, other))
		pass(time.Minute)
		synctest.Wait()
		equal(t, "left", ids(t, r.mem), "a")
		r.want(0, "reclaims_total", "outcome=reclaimed")
		r.want(0, "stuck_sandboxes")
	})
}
