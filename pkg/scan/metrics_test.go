package scan_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

const twoPolicies = `
version: 1
policies:
  - name: dev
    match: {tags: {env: dev}}
    limits: {max_uptime: 4h, max_age: 1d, ttl: {tag: reaperd.ttl, max: 1d}}
    tag_rules: {require: [owner]}
  - {name: all, match: {everything: true}, limits: {max_age: 2d}, action: {type: remove}}
  - {name: shadow, match: {tags: {env: prod}}, limits: {max_age: 1h}, mode: report}
`

func priced(_ int, t *scan.Target) { t.PricePerHour = 1 }

func TestSeriesAreThereFromTheStart(t *testing.T) {
	r := newRig(t, setup{policies: twoPolicies, change: priced})
	for _, name := range []string{
		"reclaims_total", "reclaimed_uptime_seconds_total", "reclaimed_cost_dollars_total", "scans_total", "provider_up",
		"provider_last_success_timestamp_seconds", "provider_errors_total", "malformed_tags_total",
	} {
		r.want(0, name, "provider=mem")
	}
	for _, name := range []string{"reclaim_lateness_seconds", "scan_duration_seconds"} {
		if _, _, found := r.sample(name, "provider=mem"); !found {
			t.Errorf("%s is not there", name)
		}
	}
	for _, reason := range []policy.Reason{policy.MaxUptime, policy.MaxAge, policy.TTLTag, policy.TagMissing} {
		for _, o := range scan.Outcomes() {
			r.want(0, "reclaims_total", "policy=dev", "reason="+string(reason), "outcome="+string(o))
		}
	}
	r.absent("reclaims_total", "policy=shadow")
	for _, name := range counts {
		r.absent(name) // nobody has looked yet: zero would be a lie
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	bubble(t, setup{policies: twoPolicies, change: priced}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("x", 5*time.Hour))
		r.once()
		families, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	})
}

// Ten thousand sandboxes come and go, with names, tags and errors of all sorts
// and every fault: no label comes from them, and the series are as many as
// providers, policies and reasons make.
func TestLabelsComeFromClosedSets(t *testing.T) {
	bubble(t, setup{policies: twoPolicies, change: priced}, func(t *testing.T, r *rig) {
		word := func() string { return fmt.Sprintf("random-%d", rand.Int()) }
		answers := []error{
			nil, nil, nil, providers.ErrNotFound, providers.ErrChanged, providers.ErrBusy, providers.ErrDenied,
			providers.ErrThrottled, providers.ErrUnavailable, providers.ErrUnsupported, providers.ErrDryRun,
			context.DeadlineExceeded, context.Canceled,
		}
		answer := func(context.Context, string) error {
			if rand.IntN(4) > 0 {
				return nil
			}
			if err := answers[rand.IntN(len(answers))]; err != nil {
				return fmt.Errorf("%s: %w", word(), err)
			}
			return errors.New(word())
		}
		r.mem.Inject(fake.Faults{Get: answer, Stop: answer, List: func(ctx context.Context) error {
			if rand.IntN(5) == 0 {
				return answer(ctx, "")
			}
			return nil
		}})
		series := 0
		states := append(providers.States(), "", "weird")
		for round := range 20 {
			for range 500 {
				sb := r.up(word(), time.Duration(rand.IntN(60))*time.Hour, in(states[rand.IntN(len(states))]))
				sb.Tags = map[string]string{"env": []string{"dev", "prod", word()}[rand.IntN(3)], word(): word()}
				sb.Image, sb.Owner = word(), []string{"", "", word()}[rand.IntN(3)]
				if rand.IntN(3) == 0 {
					sb.Tags["reaperd.ttl"] = []string{"1h", "soon", "-1h", word()}[rand.IntN(4)]
				}
				r.mem.Put(sb)
			}
			r.once()
			pass(time.Minute)
			if round == 0 {
				r.mem.Inject(fake.Faults{Get: answer, Stop: answer})
				r.once()
				series = r.series()
			}
		}
		if n := r.series(); n != series || n > 600 {
			t.Errorf("%d series, and %d after the first round", n, series)
		}
		if r.mem.Calls("stop") < 200 { // one that is throttled ends a batch
			t.Errorf("only %d stops", r.mem.Calls("stop"))
		}
	})
}

// series counts them, and fails on a label that is in no closed set.
func (r *rig) series() (n int) {
	r.t.Helper()
	closed := map[string][]string{
		"provider": {"mem"}, "policy": {"dev", "all", "shadow"}, "op": {"list", "get", "stop", "identity", "probe", "watch", "evidence", "activity", "load", "save", "load_leases", "save_leases", "begin", "end", "prune"},
		"result": {"success", "partial", "error"},
	}
	for _, reason := range []policy.Reason{policy.MaxUptime, policy.MaxAge, policy.TTLTag, policy.TagMissing} {
		closed["reason"] = append(closed["reason"], string(reason))
	}
	for _, s := range lease.States() {
		closed["state"] = append(closed["state"], string(s))
	}
	closed["cause"] = []string{"brake", "clock", "skew"}
	closed["outcome"] = []string{"accepted", "unknown", "malformed", "full"} // of heartbeats
	for _, o := range scan.Outcomes() {
		closed["outcome"] = append(closed["outcome"], string(o))
	}
	for _, s := range providers.States() {
		closed["state"] = append(closed["state"], string(s))
	}
	for _, c := range providers.Causes() {
		closed["cause"] = append(closed["cause"], string(c))
	}
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n++
			for _, l := range m.GetLabel() {
				if !slices.Contains(closed[l.GetName()], l.GetValue()) {
					r.t.Errorf("%s has %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
	return n
}

func TestMetricsMayBeGatheredWhileScansRun(t *testing.T) {
	bubble(t, setup{policies: twoPolicies, schedule: "@every 1s"}, func(t *testing.T, r *rig) {
		for i := range 200 {
			r.mem.Put(r.up(fmt.Sprint(i), time.Duration(i)*time.Hour))
		}
		stop := r.run()
		for range 50 {
			if _, err := r.reg.Gather(); err != nil {
				t.Fatal(err)
			}
			pass(100 * time.Millisecond)
		}
		stop()
	})
}

func TestAMalformedTagIsCountedOnceASandbox(t *testing.T) {
	bubble(t, setup{policies: twoPolicies}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("x", time.Hour, func(sb *providers.Sandbox) {
			sb.Tags = map[string]string{"env": "dev", "owner": "ann", "reaperd.ttl": "soon"}
		}))
		for range 10 {
			r.once()
		}
		r.want(1, "malformed_tags_total", "provider=mem")
		equal(t, "left", ids(t, r.mem), "x")
	})
}

// Costs and uptimes are those of what ran, for as long as that can be said.
func TestWhatDoesNotRunCostsNothing(t *testing.T) {
	policies := "version: 1\npolicies: [{name: old, match: {everything: true}, limits: {max_age: 1d}, action: {type: remove}}]"
	bubble(t, setup{policies: policies, change: priced}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("runs", 30*time.Hour))
		r.mem.Put(r.up("exited", 30*time.Hour, in(providers.StateExited), func(sb *providers.Sandbox) { sb.Ended = sb.Started.Add(2 * time.Hour) }))
		r.mem.Put(r.up("exited-once", 30*time.Hour, in(providers.StateExited)))
		r.mem.Put(r.up("created", 30*time.Hour, in(providers.StateCreated), func(sb *providers.Sandbox) { sb.Started = time.Time{} }))
		r.mem.Put(r.up("epoch", 30*time.Hour, func(sb *providers.Sandbox) { sb.Started = time.Unix(0, 0) }))
		r.mem.Put(r.up("future", 30*time.Hour, func(sb *providers.Sandbox) { sb.Started = r.clock.Now().Add(time.Hour) }))
		r.loop.Look(t.Context())
		r.want(6, "leaked_sandboxes")
		r.want(3, "leaked_cost_dollars_per_hour")
		r.once()
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 6})
		r.want(32*3600, "reclaimed_uptime_seconds_total")
		r.want(32, "reclaimed_cost_dollars_total")
		r.want(0, "leaked_cost_dollars_per_hour")
	})
}

func TestAStopLeavesAnExitedOneInTheCounts(t *testing.T) {
	policies := "version: 1\npolicies: [{name: dev, match: {tags: {env: dev}}, limits: {max_uptime: 4h}}]"
	bubble(t, setup{policies: policies}, func(_ *testing.T, r *rig) {
		r.mem.Put(r.up("x", 5*time.Hour))
		for range 3 {
			r.once()
			r.want(0, "sandboxes", "state=running")
			r.want(1, "sandboxes", "state=exited")
			r.want(0, "leaked_sandboxes")
		}
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
	})
}

// blind is a provider whose last list could not read some things; to ask it
// may panic.
type blind struct {
	*fake.Provider
	n int
}

func (b *blind) Unreadable() int {
	if b.n < 0 {
		panic("adapter bug")
	}
	return b.n
}

func TestWhatCouldNotBeReadIsCounted(t *testing.T) {
	b := &blind{Provider: fake.New("mem"), n: 3}
	bubble(t, setup{providers: []providers.Provider{b}, names: []string{"mem"}, change: func(_ int, t *scan.Target) { t.DryRun = true }}, func(_ *testing.T, r *rig) {
		r.once()
		r.want(3, "unreadable_items")
		b.n = -1
		r.once()
		r.want(0, "provider_up")
	})
}

func TestOverdueGrowsBetweenScans(t *testing.T) {
	bubble(t, setup{change: func(_ int, t *scan.Target) { t.DryRun = true }, schedule: "@every 1d"}, func(_ *testing.T, r *rig) {
		r.mem.Put(r.up("x", 5*time.Hour))
		stop := r.run()
		pass(time.Hour)
		synctest.Wait()
		r.want(2*3600, "oldest_overdue_seconds")
		stop()
	})
}

// Debug lines of the kept are many: they name the sandbox, and no secret of it.
func TestKeptOnesAreToldAtDebugOnly(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("x", time.Hour, tagged("token", "s3cret")))
		r.once()
		equal(t, "lines", r.lines("kept"), 1)
		for _, e := range r.logs.All() {
			if strings.Contains(fmt.Sprint(e.ContextMap()), "s3cret") {
				t.Errorf("a tag's value was logged: %v", e)
			}
		}
	})
}

// Nobody is killed by ignorance, and how much is not known can be seen.
func TestWhatWasNotToldIsCounted(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("told", 5*time.Hour))
		r.mem.Put(r.up("untold", 5*time.Hour, func(sb *providers.Sandbox) { sb.Tags = nil }))
		r.once()
		equal(t, "left", ids(t, r.mem), "untold")
		r.want(1, "unsaid_sandboxes")
	})
}
