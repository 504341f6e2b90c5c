package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
)

const takeExpired = `version: 1
policies:
  - name: all
    match: {tags: {reaperd.test: $ID}}
    limits: {expires: {tag: reaperd.expires-at, max: 1d}}
    action: {type: remove, grace: $GRACE}
`

// deadlines is how many there are in a benchmark of lateness. They follow each
// other more slowly than an engine ends sandboxes, so that it is reaperd's
// lateness and not the engine's.
const deadlines = 200

// expiring gives a scene that is listed every 30 s.
func expiring(b *testing.B, grace, providers string) *scene {
	b.Helper()
	s := newScene(b, strings.Replace(takeExpired, "$GRACE", grace, 1), providers+"brake: {min_count: 1000}\n")
	s.every(b, "30s")
	return s
}

// BenchmarkLatenessDocker has containers expire one after the other, with lists
// every 30 s, and reports by how much later the engine was asked to end each:
// 200 of them so fast that one is still being ended when the next is due, and
// 50 of which each has the engine for itself. It takes two minutes, most of which
// are for starting them: run it with -benchtime 1x.
func BenchmarkLatenessDocker(b *testing.B) {
	b.Run("10 a second", func(b *testing.B) { latenessDocker(b, deadlines, 100*time.Millisecond) })
	b.Run("1 a second", func(b *testing.B) { latenessDocker(b, deadlines/4, time.Second) })
}

func latenessDocker(b *testing.B, many int, apart time.Duration) {
	b.Helper()
	e := enginetest.Shared(b)
	var late []time.Duration
	for range b.N {
		p := enginetest.NewProxy(b, e)
		l := newLedger(p)
		s := expiring(b, "0s", dockerAt("dev", p.Host()))
		d := s.daemon(b)
		began := time.Now()
		crowd(b, s, e, many/10)
		first := time.Now().Add(time.Since(began)*15 + 5*time.Second) // by when the others are there, and a half as much again
		due := func(i int) time.Time { return first.Add(time.Duration(i) * apart) }
		ids := crowdOf(b, s, e, many, func(i int) []string {
			return []string{"reaperd.expires-at", due(i).Format(time.RFC3339Nano)}
		})
		if time.Now().After(first) {
			b.Fatal("they were not all there before the first expired")
		}
		for i, id := range ids {
			until(b, "it goes", func() bool { return len(l.of(id)) > 0 })
			late = append(late, l.of(id)[0].Sub(due(i)))
		}
		d.stop(b)
	}
	reportLateness(b, late)
}

// BenchmarkLatenessProcess does the same with processes, and reports by how
// much later each had ended.
func BenchmarkLatenessProcess(b *testing.B) {
	var mu sync.Mutex
	var late []time.Duration
	for range b.N {
		s := expiring(b, "5s", "  - {name: local, kind: process}\n")
		first := time.Now().Add(10 * time.Second)
		var all sync.WaitGroup
		for i := range deadlines {
			due := first.Add(time.Duration(i) * 100 * time.Millisecond)
			ended := s.process(b, fmt.Sprint(i), "reaperd.expires-at="+due.Format(time.RFC3339Nano))
			all.Go(func() {
				<-ended
				mu.Lock()
				defer mu.Unlock()
				late = append(late, time.Since(due))
			})
		}
		d := s.daemon(b)
		all.Wait()
		d.stop(b)
	}
	reportLateness(b, late)
}

func reportLateness(b *testing.B, late []time.Duration) {
	b.Helper()
	slices.Sort(late)
	if late[0] < 0 {
		b.Fatalf("one went %v before it was due", -late[0])
	}
	reportQuantiles(b, late)
	b.ReportMetric(0, "ns/op") // most of which was waiting
}

// reportQuantiles reports of what took how long, the shortest first.
func reportQuantiles(b *testing.B, sorted []time.Duration) {
	b.Helper()
	at := func(q float64) float64 {
		return float64(sorted[int(q*float64(len(sorted)-1))]) / float64(time.Millisecond)
	}
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
}
