package scan

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// inventory exports the counts of the last list of each provider, all of one
// provider's from the same list, and none for a provider that could not be
// listed.
type inventory struct {
	clock Clock

	mu       sync.Mutex
	policies []policy.Policy
	counts   map[string]counts
	leases   func() map[lease.State]int // nil while there is no loop
	calls    func(yield func(provider string, calls map[string]uint64))
}

type leakKey struct {
	policy string
	reason policy.Reason
}

type counts struct {
	states     map[providers.State]int
	leaked     map[leakKey]int
	would      map[string]int
	unmatched  int
	unknownAge int
	unsaid     int
	unreadable int
	held       map[cause]int
	stuck      int
	earliest   time.Time // the earliest deadline of those leaked; zero if none
	cost       float64   // dollars an hour of those leaked
	priced     bool
}

var (
	sandboxesDesc  = countDesc("sandboxes", "Sandboxes seen by the last list.", "state")
	leakedDesc     = countDesc("leaked_sandboxes", "Sandboxes that violate an enforcing policy and are not yet reclaimed.", "policy", "reason")
	wouldDesc      = countDesc("would_reclaim_sandboxes", "Sandboxes that would be reclaimed, were it not for a dry run or the policy's report mode.", "policy")
	unmatchedDesc  = countDesc("unmatched_sandboxes", "Sandboxes that no enforcing policy matches.")
	unknownAgeDesc = countDesc("unknown_age_sandboxes", "Sandboxes whose provider's times cannot be believed; their limits count from first seen.")
	unsaidDesc     = countDesc("unsaid_sandboxes", "Sandboxes of which something that might have decided could not be said: tags not told, an expression that failed.")
	unreadableDesc = countDesc("unreadable_items", "Candidates that the last list was not allowed to look at.")
	heldDesc       = countDesc("held_sandboxes", "Due sandboxes that are held: by the brake because too many are due at once, by the clock guard because a clock was set, by a provider's clock that is too far from ours.", "cause")
	stuckDesc      = countDesc("stuck_sandboxes", "Sandboxes that did not go after all tries.")
	overdueDesc    = countDesc("oldest_overdue_seconds", "For how long the longest overdue sandbox has been due; 0 if none is.")
	callsDesc      = countDesc("engine_calls_total", "Requests that were sent to the provider, by what they ask for.", "op")
	leasesDesc     = prometheus.NewDesc("reaperd_leases", "Leases, by how they stand.", []string{"state"}, nil)
	leakCostDesc   = countDesc("leaked_cost_dollars_per_hour", "What the leaked sandboxes cost by the provider's price_per_hour.")
)

func countDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("reaperd_"+name, help, append([]string{"provider"}, labels...), nil)
}

func newInventory(clock Clock, policies *policy.Set) *inventory {
	return &inventory{clock: clock, policies: policies.Policies(), counts: map[string]counts{}}
}

// set counts the plan of a provider's last look, less what the results say is
// gone since.
func (inv *inventory) set(s *Scanner, plan policy.Plan, results []Result) {
	done := make(map[providers.Ref]Result, len(results))
	for _, r := range results {
		done[r.Item.Facts.Ref] = r
	}
	c := counts{
		states: map[providers.State]int{}, leaked: map[leakKey]int{}, would: map[string]int{},
		held: s.holding(), stuck: s.retries.stuck(), unreadable: s.unreadable, priced: s.target.PricePerHour > 0,
	}
	for i := range plan.Items {
		it := &plan.Items[i]
		if it.Facts.ID == "" {
			continue // gone since the list
		}
		d := &it.Decision
		r := done[it.Facts.Ref]
		state, there := r.left(it.Facts.State)
		if !there {
			continue
		}
		c.states[state]++
		if d.UnknownAge {
			c.unknownAge++
		}
		if d.Unsaid {
			c.unsaid++
		}
		if d.Reason == policy.Unmatched {
			c.unmatched++
		}
		for _, sh := range d.Shadows {
			c.would[sh.Policy]++
		}
		if d.Verdict != policy.Reclaim || r.Outcome == OutcomeReclaimed || r.Outcome == OutcomeSpared {
			continue
		}
		c.leaked[leakKey{d.Policy, d.Reason}]++
		if running(state) {
			c.cost += s.target.PricePerHour
		}
		if s.target.DryRun {
			c.would[d.Policy]++
		}
		if c.earliest.IsZero() || d.Due.Before(c.earliest) {
			c.earliest = d.Due
		}
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.counts[s.target.Name] = c
}

// left gives the state in which the reclaim left a sandbox that was listed in
// state listed; false if it is there no more.
func (r Result) left(listed providers.State) (providers.State, bool) {
	switch action := r.Item.Decision.Action.Action; {
	case r.Outcome == OutcomeGone, r.Outcome == OutcomeReclaimed && action == providers.ActionRemove:
		return "", false
	case r.Outcome == OutcomeReclaimed && action == providers.ActionPause:
		return providers.StatePaused, true
	case r.Outcome == OutcomeReclaimed:
		return providers.StateExited, true
	case !listed.Valid():
		return providers.StateUnknown, true
	default:
		return listed, true
	}
}

// running says whether a sandbox in this state holds what it is paid for.
func running(s providers.State) bool {
	return s == providers.StateStarting || s == providers.StateRunning || s == providers.StatePaused
}

// take puts new policies in the place of the old, and gives the names of those
// that are gone.
func (inv *inventory) take(policies *policy.Set) (gone []string) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	now := policies.Policies()
	for _, p := range inv.policies {
		if !slices.ContainsFunc(now, func(q policy.Policy) bool { return q.Name == p.Name }) {
			gone = append(gone, p.Name)
		}
	}
	inv.policies = now
	return gone
}

// count has the leases, and the requests to providers, counted by these, too.
func (inv *inventory) count(leases func() map[lease.State]int, calls func(yield func(provider string, calls map[string]uint64))) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.leases, inv.calls = leases, calls
}

func (inv *inventory) forget(provider string) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	delete(inv.counts, provider)
}

// Describe implements prometheus.Collector.
func (inv *inventory) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		sandboxesDesc, leakedDesc, wouldDesc, unmatchedDesc, unknownAgeDesc, unsaidDesc,
		unreadableDesc, heldDesc, stuckDesc, overdueDesc, leakCostDesc, leasesDesc, callsDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (inv *inventory) Collect(ch chan<- prometheus.Metric) {
	inv.mu.Lock()
	calls := inv.calls
	inv.mu.Unlock()
	if calls != nil { // it asks the loop, which a reload has hold of while it tells us
		calls(func(provider string, calls map[string]uint64) {
			for op, n := range calls {
				ch <- prometheus.MustNewConstMetric(callsDesc, prometheus.CounterValue, float64(n), provider, op)
			}
		})
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.leases != nil {
		n := inv.leases()
		for _, st := range lease.States() {
			ch <- prometheus.MustNewConstMetric(leasesDesc, prometheus.GaugeValue, float64(n[st]), string(st))
		}
	}
	now := inv.clock.Now()
	for name, c := range inv.counts {
		send := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
		}
		for _, st := range providers.States() {
			send(sandboxesDesc, float64(c.states[st]), string(st))
		}
		for _, p := range inv.policies {
			send(wouldDesc, float64(c.would[p.Name]), p.Name)
			if p.Mode != policy.Enforce {
				continue
			}
			for _, reason := range p.Reasons {
				send(leakedDesc, float64(c.leaked[leakKey{p.Name, reason}]), p.Name, string(reason))
			}
		}
		send(unmatchedDesc, float64(c.unmatched))
		send(unknownAgeDesc, float64(c.unknownAge))
		send(unsaidDesc, float64(c.unsaid))
		send(unreadableDesc, float64(c.unreadable))
		for _, why := range causes() {
			send(heldDesc, float64(c.held[why]), string(why))
		}
		send(stuckDesc, float64(c.stuck))
		overdue := 0.0
		if !c.earliest.IsZero() {
			overdue = max(0, now.Sub(c.earliest).Seconds())
		}
		send(overdueDesc, overdue)
		if c.priced {
			send(leakCostDesc, c.cost)
		}
	}
}
