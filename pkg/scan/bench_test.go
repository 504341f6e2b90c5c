package scan_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

// BenchmarkScan100k is one scan of 100,000 sandboxes of which every one has
// seven tags and is kept by one of twenty policies. It reports what the heap
// holds beside the fake kind's own sandboxes: between two scans, and at its
// highest in one.
func BenchmarkScan100k(b *testing.B) {
	var text strings.Builder
	text.WriteString("version: 1\npolicies:\n")
	for i := range 20 {
		fmt.Fprintf(&text, "  - {name: p%d, match: {tags: {team: t%d}}, limits: {max_uptime: 4h, max_age: 2d}}\n", i, i)
	}
	set, _, err := policy.Load([]policy.File{{Name: "p.yaml", Data: []byte(text.String())}}, policy.Known{})
	if err != nil {
		b.Fatal(err)
	}
	mem := fake.New("mem")
	clock := scan.SystemClock{}
	at := clock.Now().Add(-time.Hour)
	for i := range 100_000 {
		mem.Put(providers.Sandbox{
			Ref: providers.Ref{ID: fmt.Sprintf("%064d", i)}, Name: fmt.Sprint("sbx-", i), State: providers.StateRunning,
			Created: at, Started: at, Revision: fmt.Sprint(i),
			Tags: map[string]string{
				"team": fmt.Sprint("t", i%20), "env": "dev", "owner": "ann", "project": "x", "com.example.build": "1", "version": "1.2", "role": "worker",
			},
		})
	}
	targets := []scan.Target{{Name: "mem", Kind: fake.Name, Provider: mem, Timeout: time.Minute, Parallel: 8}}
	loop := scan.New(scan.Options{
		Settings: scan.Settings{
			Targets: targets, Policies: set, Attempts: 5, Brake: scan.BrakeOptions{MinCount: 1 << 30},
		},
		Clock: clock, Log: zap.NewNop(),
		Metrics: scan.NewMetrics(prometheus.NewRegistry(), clock, targets, set),
	})
	before := heap()
	scanOnce := func(want int) {
		r := loop.Once(context.Background())[0]
		if r.Err != nil || len(r.Plan.Items) != want {
			b.Fatalf("%d items, %v", len(r.Plan.Items), r.Err)
		}
	}
	scanOnce(100_000)
	remembered := heap() - before
	b.ReportAllocs()
	for b.Loop() {
		scanOnce(100_000)
	}
	took := b.Elapsed()
	// What is needed, rather than what the collector lets lie for a while.
	defer debug.SetGCPercent(debug.SetGCPercent(2))
	var top uint64
	for range 3 {
		scanOnce(100_000)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		top = max(top, m.HeapInuse)
	}
	b.ReportMetric(took.Seconds()/float64(b.N), "s/scan")
	b.ReportMetric(float64(before)/(1<<20), "MiB-sandboxes")
	b.ReportMetric(float64(remembered)/(1<<20), "MiB-remembered")
	b.ReportMetric(float64(top-before)/(1<<20), "MiB-top")
}

// heap is what is alive on it.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkReclaim1000 is one cycle that takes 1,000 sandboxes through the
// door, sixteen at once, on a provider that answers at once.
func BenchmarkReclaim1000(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		r := newRig(b, setup{change: func(_ int, t *scan.Target) { t.Parallel = 16 }})
		for i := range 1000 {
			r.mem.Put(r.up(fmt.Sprint(i), 5*time.Hour))
		}
		b.StartTimer()
		if got := len(r.once()); got != 1000 {
			b.Fatalf("%d results", got)
		}
	}
}
