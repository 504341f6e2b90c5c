package scan

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// Metrics is everything the loop counts. Labels come from closed sets only:
// providers, policies, reasons, outcomes, states, causes; never an id, a tag
// or an error's text.
type Metrics struct {
	inventory *inventory

	reclaims     *prometheus.CounterVec
	lateness     *prometheus.HistogramVec
	uptime       *prometheus.CounterVec
	cost         *prometheus.CounterVec
	scans        *prometheus.CounterVec
	scanDuration *prometheus.HistogramVec
	up           *prometheus.GaugeVec
	lastSuccess  *prometheus.GaugeVec
	errors       *prometheus.CounterVec
	malformedTag *prometheus.CounterVec
	memoryErrors *prometheus.CounterVec
	degraded     *prometheus.GaugeVec
	skew         *prometheus.GaugeVec
	resurrected  *prometheus.CounterVec
	heartbeats   *prometheus.CounterVec
	hearing      prometheus.Gauge
	clockSteps   prometheus.Counter
	blindness    prometheus.Counter
}

// The results of a scan, as a metric label.
const (
	scanSuccess = "success"
	scanPartial = "partial" // listed, but a reclaim failed
	scanError   = "error"   // could not be listed
)

// NewMetrics registers the loop's metrics and creates their series for the
// targets and policies given, so that each is there, at zero, from the start.
func NewMetrics(reg prometheus.Registerer, clock Clock, targets []Target, policies *policy.Set) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "reaperd_" + name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "reaperd_" + name, Help: help}, labels)
	}
	m := &Metrics{
		inventory: newInventory(clock, policies),
		reclaims:  counter("reclaims_total", "Sandboxes taken through the reclaim door, by what became of them.", "provider", "policy", "reason", "outcome"),
		lateness: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "reaperd_reclaim_lateness_seconds", Help: "From a sandbox's deadline to the proof that it is gone.",
			Buckets: []float64{.1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600, 14400},
		}, []string{"provider"}),
		uptime: counter("reclaimed_uptime_seconds_total", "How long reclaimed sandboxes had been running.", "provider"),
		cost:   counter("reclaimed_cost_dollars_total", "What reclaimed sandboxes had cost by the provider's price_per_hour.", "provider"),
		scans:  counter("scans_total", "Scans of a provider: success, partial (a reclaim failed) or error (it could not be listed).", "provider", "result"),
		scanDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "reaperd_scan_duration_seconds", Help: "How long a scan took, reclaims included.",
			Buckets: []float64{.005, .01, .05, .1, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"provider"}),
		up:           gauge("provider_up", "Whether the provider could be listed at the last scan.", "provider"),
		lastSuccess:  gauge("provider_last_success_timestamp_seconds", "When the provider was last listed whole; 0 if never.", "provider"),
		errors:       counter("provider_errors_total", "Failed calls to the provider.", "provider", "op", "cause"),
		malformedTag: counter("malformed_tags_total", "Tags that a policy reads and that cannot be understood, once a sandbox.", "provider"),
		memoryErrors: counter("store_errors_total", "Failed uses of the state: what was to be loaded, saved, written to history, pruned.", "op"),
		degraded:     gauge("provider_degraded", "Whether nothing is stopped on the provider because its calls ran out of time.", "provider"),
		skew:         gauge("provider_clock_skew_seconds", "By how much the provider's clock is ahead of this machine's, by its latest answers.", "provider"),
		resurrected:  counter("resurrected_total", "Reclaimed sandboxes that ran again.", "provider"),
		heartbeats:   counter("heartbeats_total", "Heartbeats, renewals and releases of leases, by how they were taken.", "outcome"),
		hearing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "reaperd_hears_heartbeats", Help: "0 while heartbeats cannot be heard or kept, and no limit judges by them.",
		}),
		clockSteps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "reaperd_clock_steps_total", Help: "Times that the wall clock was set by more than clock.max_skew.",
		}),
		blindness: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "reaperd_blindness_total", Help: "Times that reaperd was not there to hear heartbeats: it was stopped, starved, or the machine slept.",
		}),
	}
	for _, o := range heardOutcomes() {
		m.heartbeats.WithLabelValues(o)
	}
	for _, op := range memoryOps() {
		m.memoryErrors.WithLabelValues(op)
	}
	reg.MustRegister(m.inventory, m.reclaims, m.lateness, m.uptime, m.cost, m.scans,
		m.scanDuration, m.up, m.lastSuccess, m.errors, m.malformedTag, m.memoryErrors,
		m.degraded, m.skew, m.resurrected, m.heartbeats, m.hearing, m.clockSteps, m.blindness)
	for _, t := range targets {
		m.create(t, policies)
	}
	return m
}

func (m *Metrics) create(t Target, policies *policy.Set) {
	for _, v := range []*prometheus.CounterVec{m.uptime, m.malformedTag, m.resurrected} {
		v.WithLabelValues(t.Name)
	}
	if t.PricePerHour > 0 {
		m.cost.WithLabelValues(t.Name)
	}
	m.lateness.WithLabelValues(t.Name)
	m.scanDuration.WithLabelValues(t.Name)
	m.up.WithLabelValues(t.Name)
	m.degraded.WithLabelValues(t.Name)
	m.lastSuccess.WithLabelValues(t.Name)
	for _, result := range []string{scanSuccess, scanPartial, scanError} {
		m.scans.WithLabelValues(t.Name, result)
	}
	for _, op := range ops() {
		for _, c := range providers.Causes() {
			m.errors.WithLabelValues(t.Name, op, string(c))
		}
	}
	for _, p := range policies.Policies() {
		if p.Mode != policy.Enforce {
			continue
		}
		for _, reason := range p.Reasons {
			for _, o := range Outcomes() {
				m.reclaims.WithLabelValues(t.Name, p.Name, string(reason), string(o))
			}
		}
	}
}

// reload creates the series of new targets and policies, and takes away those
// of policies that are gone. What is counted of the others goes on.
func (m *Metrics) reload(targets []Target, policies *policy.Set) {
	for _, name := range m.inventory.take(policies) {
		m.reclaims.DeletePartialMatch(prometheus.Labels{"policy": name})
	}
	for _, t := range targets {
		m.create(t, policies)
	}
}

// forget takes away everything that was counted of a provider.
func (m *Metrics) forget(provider string) {
	labels := prometheus.Labels{"provider": provider}
	for _, v := range []*prometheus.CounterVec{m.reclaims, m.uptime, m.cost, m.scans, m.errors, m.malformedTag, m.resurrected} {
		v.DeletePartialMatch(labels)
	}
	for _, v := range []*prometheus.GaugeVec{m.up, m.lastSuccess, m.degraded, m.skew} {
		v.DeletePartialMatch(labels)
	}
	m.lateness.DeletePartialMatch(labels)
	m.scanDuration.DeletePartialMatch(labels)
	m.inventory.forget(provider)
}

// callFailed counts a failed call, save the answers that are no failures.
func (m *Metrics) callFailed(provider, op string, c providers.Cause) {
	switch c {
	case providers.CauseNotFound, providers.CauseChanged, providers.CauseDryRun:
	default:
		m.errors.WithLabelValues(provider, op, string(c)).Inc()
	}
}

func (m *Metrics) hears(yes bool) {
	if yes {
		m.hearing.Set(1)
		return
	}
	m.hearing.Set(0)
}

func (m *Metrics) memoryFailed(op string) { m.memoryErrors.WithLabelValues(op).Inc() }

func (m *Metrics) malformed(provider string) { m.malformedTag.WithLabelValues(provider).Inc() }

// lookFailed takes the provider's count series away: what was there last is
// not what is there now, and zero would be a lie.
func (m *Metrics) lookFailed(provider string) {
	m.up.WithLabelValues(provider).Set(0)
	m.inventory.forget(provider)
}

func (m *Metrics) looked(s *Scanner, plan policy.Plan) {
	m.up.WithLabelValues(s.target.Name).Set(1)
	m.lastSuccess.WithLabelValues(s.target.Name).Set(float64(plan.At.UnixMilli()) / 1000)
	m.inventory.set(s, plan, nil)
}

// reclaimed brings the inventory up to date with what the scan's reclaims did.
func (m *Metrics) reclaimed(s *Scanner, plan policy.Plan, results []Result) {
	m.inventory.set(s, plan, results)
}

func (m *Metrics) cycled(r Report, failed bool, took time.Duration) {
	result := scanSuccess
	switch {
	case r.Err != nil:
		result = scanError
	case failed:
		result = scanPartial
	}
	m.scans.WithLabelValues(r.Provider, result).Inc()
	m.scanDuration.WithLabelValues(r.Provider).Observe(max(0, took.Seconds()))
}

func (m *Metrics) record(s *Scanner, r Result) {
	d, sb := r.Item.Decision, r.Item.Facts.Sandbox
	m.reclaims.WithLabelValues(s.target.Name, d.Policy, string(d.Reason), string(r.Outcome)).Inc()
	if r.Outcome != OutcomeReclaimed {
		return
	}
	if !d.Due.IsZero() && !d.Due.After(r.At) { // else an operator's order was before any deadline
		m.lateness.WithLabelValues(s.target.Name).Observe(r.At.Sub(d.Due).Seconds())
	}
	if ran := uptime(sb, r.At); ran > 0 {
		m.uptime.WithLabelValues(s.target.Name).Add(ran.Seconds())
		if p := s.target.PricePerHour; p > 0 {
			m.cost.WithLabelValues(s.target.Name).Add(ran.Hours() * p)
		}
	}
}

// verified counts what an earlier reaperd reclaimed and did not live to count.
func (m *Metrics) verified(provider string, d policy.Decision) {
	m.reclaims.WithLabelValues(provider, d.Policy, string(d.Reason), string(OutcomeReclaimed)).Inc()
}

// eldest is before the start of every sandbox: what claims to be older has no
// true start (year 1, 1970).
var eldest = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// uptime is how long a sandbox has been running at now; 0 if it cannot be said.
func uptime(sb providers.Sandbox, now time.Time) time.Duration {
	end := now
	if sb.State.Ended() {
		end = sb.Ended
	}
	if sb.Started.Before(eldest) || end.Before(sb.Started) {
		return 0
	}
	return end.Sub(sb.Started)
}
