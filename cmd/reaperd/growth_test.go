package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/store"
)

// crank is an engine with ten containers, of which one is another at each list,
// and that answers many a request with nonsense. One in twenty is due.
type crank struct {
	mu                     sync.Mutex
	lists, looks, removals int
	removed                map[string]bool
}

func (c *crank) hook(r enginetest.Request) http.HandlerFunc {
	c.mu.Lock()
	defer c.mu.Unlock()
	broken := enginetest.Answer(http.StatusInternalServerError, `{"message": "no space left on device"}`)
	id := strings.TrimSuffix(strings.TrimPrefix(r.Path, "/containers/"), "/json")
	switch {
	case r.Path == "/_ping":
		return func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") }
	case r.Path == "/info":
		return enginetest.Answer(http.StatusOK, `{"ID": "crank"}`)
	case r.Path == "/containers/json":
		return c.list(broken)
	case r.Method == http.MethodDelete:
		if c.removals++; c.removals%3 == 0 {
			return broken
		}
		c.removed[id] = true
		return enginetest.Answer(http.StatusNoContent, "")
	}
	c.looks++
	switch {
	case c.looks%5 == 0, c.removed[id]:
		return enginetest.Answer(http.StatusNotFound, `{"message": "No such container"}`)
	case c.looks%9 == 0:
		return broken
	case c.looks%13 == 0:
		return enginetest.Cut
	}
	return answerJSON(c.container(id).inspect())
}

func (c *crank) list(broken http.HandlerFunc) http.HandlerFunc {
	c.lists++
	switch {
	case c.lists%7 == 0:
		return broken
	case c.lists%11 == 0:
		return enginetest.Cut
	case c.lists%13 == 0:
		return enginetest.Answer(http.StatusOK, `[{"Id": `)
	}
	all := []any{}
	for n := c.lists; n < c.lists+10; n++ {
		if id := fmt.Sprintf("%064x", n); !c.removed[id] {
			all = append(all, map[string]any{"Id": id, "Names": []string{"/" + id[50:]}, "State": "running", "Labels": c.container(id).labels})
		}
	}
	return answerJSON(all)
}

func (c *crank) container(id string) canned {
	labels := map[string]string{"due": "no"}
	if strings.HasSuffix(id, "00") || strings.HasSuffix(id, "80") || strings.HasSuffix(id, "c") {
		labels["due"] = "yes"
	}
	long := time.Now().Add(-time.Hour).Truncate(time.Hour)
	return canned{id: id, name: id[50:], image: "img", status: "running", labels: labels, created: long, started: long}
}

func answerJSON(v any) http.HandlerFunc {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return enginetest.Answer(http.StatusOK, string(b))
}

// holdings is what a process holds on to.
type holdings struct{ goroutines, files, heap int }

// TestTwoThousandScansWithErrorsLeaveNothingBehind is not parallel: what others
// hold at the time would count too.
func TestTwoThousandScansWithErrorsLeaveNothingBehind(t *testing.T) {
	p := enginetest.NewProxyTo(t, "/nowhere")
	c := &crank{removed: map[string]bool{}}
	p.Hook(c.hook)
	config := write(t, "reaperd.yaml", "dry_run: false\npolicies: [p.yaml]\nbrake: {min_count: 100000}\nproviders:\n"+dockerAt("dev", p.Host()),
		"p.yaml", "version: 1\npolicies:\n  - {name: due, match: {tags: {due: 'yes'}}, limits: {max_uptime: 1ms}, action: {type: remove, grace: 0s}}\n")
	state, err := store.Open(t.Context(), store.DSN(filepath.Join(t.TempDir(), "reaperd.db")), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = state.Close() }()
	b, err := build(environment{getenv: func(string) string { return "" }, environ: func() []string { return nil }},
		configFlag(filepath.Join(config, "reaperd.yaml")), buildOptions{obeyDryRun: true, state: state})
	if err != nil {
		t.Fatal(err)
	}
	outcomes, failed := map[string]int{}, 0
	scans := func(n int) {
		for range n {
			for _, r := range b.loop.Once(t.Context()) {
				for _, res := range r.Results {
					outcomes[string(res.Outcome)]++
				}
				if r.Err != nil {
					failed++
				}
			}
			p.Reset()
		}
	}
	scans(200)
	before := holding(t)
	scans(2000)
	var after holdings
	until(t, "no more goroutines and files are held than before", func() bool {
		after = holding(t)
		return after.goroutines <= before.goroutines+8 && after.files <= before.files+8
	})
	// What is remembered of each container for a week is not even half of that.
	if grown := after.heap - before.heap; grown > 6<<20 {
		t.Errorf("the heap grew by %d KiB", grown>>10)
	}
	t.Logf("before %+v, after %+v; %d lists failed; %v", before, after, failed, outcomes)
	if failed < 300 || outcomes["reclaimed"] < 50 || outcomes["failed"]+outcomes["stuck"] < 20 {
		t.Errorf("too little went wrong: %d lists failed; %v", failed, outcomes)
	}
}

func holding(t *testing.T) holdings {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		enginetest.SkipOrFail(t, err.Error())
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return holdings{runtime.NumGoroutine(), len(files), int(m.HeapAlloc)}
}
