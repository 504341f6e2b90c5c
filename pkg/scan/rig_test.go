package scan_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wall is the system's clock, which in a bubble is virtual, with a wall time
// that can be stepped.
type wall struct {
	scan.SystemClock
	step, asleep atomic.Int64
}

func (w *wall) Now() time.Time          { return w.SystemClock.Now().Add(time.Duration(w.step.Load())) }
func (w *wall) adjust(by time.Duration) { w.step.Add(int64(by)) }

// Boot is the virtual time of the bubble, which no adjustment touches.
func (w *wall) Boot() time.Duration {
	return w.SystemClock.Now().Sub(time.Unix(0, 0)) + time.Duration(w.asleep.Load())
}

// BootID is that of one machine, which is never started again.
func (w *wall) BootID() string { return "rig" }

// sleep lets the machine sleep: both clocks go on, and no timer does.
func (w *wall) sleep(d time.Duration) { w.step.Add(int64(d)); w.asleep.Add(int64(d)) }

// newWall gives a clock that is years past a bubble's start, which is the
// first instant that policies take for a time at all.
func newWall() *wall {
	w := &wall{}
	w.adjust(26 * 365 * 24 * time.Hour)
	return w
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// setup is what a rig is made from; zero fields take defaults.
type setup struct {
	policies  string
	providers []providers.Provider // by default one fake called mem
	names     []string
	attempts  int
	brake     scan.BrakeOptions // by default one that holds nothing
	schedule  string
	change    func(i int, t *scan.Target)
	memory    scan.Memory
	clock     *wall // by default a new one
}

// rig is a loop over providers with everything around it.
type rig struct {
	t       testing.TB
	clock   *wall
	mem     *fake.Provider
	set     *policy.Set
	targets []scan.Target
	reg     *prometheus.Registry
	logs    *observer.ObservedLogs
	loop    *scan.Loop

	mu      sync.Mutex
	reports []scan.Report
	at      []time.Time // when each report came
}

// fourHours removes everything in env dev that has been up for four hours.
const fourHours = `
version: 1
protect: [{tags: {reaperd.protect: "true"}}]
policies:
  - name: dev
    match: {tags: {env: dev}}
    limits: {max_uptime: 4h}
    action: {type: remove}
`

func newRig(t testing.TB, s setup) *rig {
	t.Helper()
	r := &rig{t: t, clock: newWall(), reg: prometheus.NewPedanticRegistry()}
	if s.clock != nil {
		r.clock = s.clock
	}
	if s.policies == "" {
		s.policies = fourHours
	}
	if s.attempts == 0 {
		s.attempts = 5
	}
	if s.brake == (scan.BrakeOptions{}) {
		s.brake = scan.BrakeOptions{MinCount: 1 << 30}
	}
	if s.schedule == "" {
		s.schedule = "@every 30s"
	}
	if s.providers == nil {
		r.mem = fake.New("mem")
		s.providers, s.names = []providers.Provider{r.mem}, []string{"mem"}
	}
	var err error
	r.set, _, err = policy.Load([]policy.File{{Name: "p.yaml", Data: []byte(s.policies)}}, policy.Known{})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range s.providers {
		target := scan.Target{
			Name: s.names[i], Kind: fake.Name, Provider: p, Schedule: schedule(t, s.schedule),
			Timeout: 10 * time.Second, Parallel: 8,
		}
		if s.change != nil {
			s.change(i, &target)
		}
		r.targets = append(r.targets, target)
	}
	var core zapcore.Core
	core, r.logs = observer.New(zap.DebugLevel)
	r.loop = scan.New(scan.Options{
		Settings: scan.Settings{Targets: r.targets, Policies: r.set, Attempts: s.attempts, Brake: s.brake, History: 48 * time.Hour, MaxSkew: 5 * time.Minute, MaxTTL: 24 * time.Hour},
		Clock:    r.clock, Log: zap.New(core),
		Metrics: scan.NewMetrics(r.reg, r.clock, r.targets, r.set), Memory: s.memory,
		OnReport: func(rep scan.Report) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reports = append(r.reports, rep)
			r.at = append(r.at, r.clock.Now())
		},
	})
	r.loop.Hear(true)
	return r
}

// bubble runs f with a rig in a bubble of virtual time.
func bubble(t *testing.T, s setup, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t, s)) })
}

// run runs the loop beside the test; the function ends it.
func (r *rig) run() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.loop.Run(ctx)
	}()
	stopped := sync.OnceFunc(func() { cancel(); <-done })
	r.t.Cleanup(stopped)
	return stopped
}

// once runs one cycle and gives the outcomes by sandbox id.
func (r *rig) once() map[string]scan.Outcome {
	out := map[string]scan.Outcome{}
	for _, rep := range r.loop.Once(r.t.Context()) {
		for _, res := range rep.Results {
			out[res.Item.Facts.ID] = res.Outcome
		}
	}
	return out
}

// up is a sandbox in env dev that has been running for d.
func (r *rig) up(id string, d time.Duration, change ...func(*providers.Sandbox)) providers.Sandbox {
	at := r.clock.Now().Add(-d)
	sb := providers.Sandbox{
		Ref: providers.Ref{ID: id}, Name: "name-" + id, State: providers.StateRunning, Revision: "1",
		Tags: map[string]string{"env": "dev"}, Created: at, Started: at,
	}
	for _, c := range change {
		c(&sb)
	}
	return sb
}

func tagged(key, value string) func(*providers.Sandbox) {
	return func(sb *providers.Sandbox) { sb.Tags = map[string]string{"env": "dev", key: value} }
}

func in(state providers.State) func(*providers.Sandbox) {
	return func(sb *providers.Sandbox) { sb.State = state }
}

// ids gives what there is on a fake provider.
func ids(t testing.TB, p *fake.Provider) string {
	t.Helper()
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, sb := range all {
		out = append(out, sb.ID)
	}
	return strings.Join(out, " ")
}

// sample finds one series by name and label values, written as key=value.
func (r *rig) sample(name string, labels ...string) (value float64, count uint64, found bool) {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "reaperd_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetName()+"="+l.GetValue())
			}
			if slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(have, l) }) {
				continue
			}
			found = true
			count += m.GetHistogram().GetSampleCount()
			value += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return value, count, found
}

// want checks the sum of the series that have the labels.
func (r *rig) want(value float64, name string, labels ...string) {
	r.t.Helper()
	got, _, found := r.sample(name, labels...)
	if !found {
		r.t.Errorf("%s%v is not there, want %v", name, labels, value)
	} else if diff := got - value; diff > 1e-6 || diff < -1e-6 {
		r.t.Errorf("%s%v is %v, want %v", name, labels, got, value)
	}
}

// absent checks that there is no such series.
func (r *rig) absent(name string, labels ...string) {
	r.t.Helper()
	if v, _, found := r.sample(name, labels...); found {
		r.t.Errorf("%s%v is %v, and should be absent", name, labels, v)
	}
}

// outcomes checks reclaims_total by outcome: those not given are zero.
func (r *rig) outcomes(want map[scan.Outcome]float64) {
	r.t.Helper()
	for _, o := range scan.Outcomes() {
		r.want(want[o], "reclaims_total", "outcome="+string(o))
	}
}

func (r *rig) lines(message string) int { return r.logs.FilterMessage(message).Len() }

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: %s, want %s", what, g, w)
	}
}
