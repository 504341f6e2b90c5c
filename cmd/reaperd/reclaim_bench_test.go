package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/scan"
)

// BenchmarkReclaim200 reclaims 200 running containers three ways on one engine,
// a round of each by turns: by the loop, by a bare client that removes as many
// at once as the loop does, and by one that removes one after the other. A
// round takes half a minute with what it sets up: run it with -benchtime 1x.
func BenchmarkReclaim200(b *testing.B) {
	e := enginetest.Shared(b)
	const many = 200
	took := map[string]time.Duration{}
	measure := func(name string, s *scene, reclaim func(ids []string)) {
		ids := crowd(b, s, e, many)
		b.StartTimer()
		began := time.Now()
		reclaim(ids)
		took[name] += time.Since(began)
		b.StopTimer()
		for _, id := range ids {
			if e.Exists(b, id) {
				b.Fatalf("%s left %s", name, id)
			}
		}
	}
	b.StopTimer()
	for range b.N {
		s := newScene(b, takeAll, dockerAt("dev", e.Host())+"brake: {min_count: 200}\n")
		measure("loop", s, func([]string) {
			built, err := build(environment{getenv: func(string) string { return "" }, environ: func() []string { return nil }},
				configFlag(s.file), buildOptions{obeyDryRun: true})
			if err != nil {
				b.Fatal(err)
			}
			for _, r := range built.loop.Once(b.Context()) {
				reclaimed := 0
				for _, res := range r.Results {
					if res.Outcome == scan.OutcomeReclaimed {
						reclaimed++
					}
				}
				if !r.Clean() || reclaimed != many {
					b.Fatalf("%d reclaimed, %v", reclaimed, r.Err)
				}
			}
		})
		measure("bare", newScene(b, takeAll, dockerAt("dev", e.Host())), func(ids []string) { removeBare(b, e, ids, 4) })
		measure("serial", newScene(b, takeAll, dockerAt("dev", e.Host())), func(ids []string) { removeBare(b, e, ids, 1) })
	}
	for name, d := range took {
		b.ReportMetric(float64(many*b.N)/d.Seconds(), name+"_containers/s")
	}
	b.ReportMetric(took["loop"].Seconds()/took["bare"].Seconds(), "loop/bare")
	b.ReportMetric(took["serial"].Seconds()/took["loop"].Seconds(), "serial/loop")
	b.ReportMetric(0, "ns/op") // the sum of three things says nothing
}

// removeBare does nothing but send the requests, so many at once.
func removeBare(b *testing.B, e *enginetest.Engine, ids []string, atOnce int) {
	b.Helper()
	transport := &http.Transport{DialContext: dialSocket(e.Socket()), MaxIdleConnsPerHost: atOnce}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	queue := make(chan string)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for id := range queue {
				if err := removeOne(b.Context(), client, id); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for _, id := range ids {
		queue <- id
	}
	close(queue)
	wg.Wait()
}

func removeOne(ctx context.Context, client *http.Client, id string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://engine/containers/"+id+"?force=1", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusNoContent {
		err = fmt.Errorf("remove %s: %s", id, resp.Status)
	}
	_ = resp.Body.Close()
	return err
}
