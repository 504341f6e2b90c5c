package main

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkHeartbeats sends a running daemon, which keeps its state on disk,
// 50,000 heartbeats over eight connections to its socket: for 1,000 leases and
// 50 sandboxes by turns. It reports how many a second were taken and how long
// they took, and then, with one more stream of them, what SIGKILL costs.
func BenchmarkHeartbeats(b *testing.B) {
	const lines, each = 8, 50_000 / 8
	var took []time.Duration
	var lost, span time.Duration
	for range b.N {
		w := newWard(b, 1000, 50)
		d := w.daemon(b)
		d.scans(b, "local", 1)
		began := time.Now()
		answered, err := w.send(b, lines, each)
		span += time.Since(began)
		if err != nil || len(answered) != lines*each {
			b.Fatalf("%d were taken: %v", len(answered), err)
		}
		for _, a := range answered {
			took = append(took, a.answered.Sub(a.sent))
		}
		go func() {
			select {
			case <-time.After(2500 * time.Millisecond):
			case <-d.exited:
			}
			_ = d.Process.Kill()
		}()
		answered, _ = w.send(b, lines, 1<<30)
		d.wait(b)
		saved := w.load(b)
		for _, a := range answered {
			if saved[w.saved[a.path]].Before(a.sent) {
				lost = max(lost, answered[len(answered)-1].answered.Sub(a.answered))
			}
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(len(took))/span.Seconds(), "beats/s")
	b.ReportMetric(float64(lost)/float64(time.Millisecond), "lost-ms")
	reportQuantiles(b, took)
	b.ReportMetric(0, "ns/op")
}
