package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/store"
)

// line is a connection that is kept alive, over which heartbeats are sent. It
// costs less than a client would, whose work the daemon's would drown in.
type line struct {
	net.Conn
	answers *bufio.Reader
}

func dialLine(t testing.TB, socket string) *line {
	t.Helper()
	c, err := dialSocket(socket)(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &line{c, bufio.NewReader(c)}
}

// put sends one heartbeat and waits until it is taken.
func (l *line) put(path string) error {
	if _, err := fmt.Fprintf(l, "PUT %s HTTP/1.1\r\nHost: reaperd\r\nContent-Length: 0\r\n\r\n", path); err != nil {
		return err
	}
	resp, err := http.ReadResponse(l.answers, nil)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	return err
}

// ward is what heartbeats are sent for: leases, and a few sandboxes.
type ward struct {
	*scene
	socket, state string
	paths         []string
	saved         map[string]string // what the state calls that of a path
}

const takeNobody = `version: 1
policies:
  - name: all
    match: {tags: {reaperd.test: $ID}}
    limits: {heartbeat: {timeout: 1h}}
`

func newWard(t testing.TB, leases, sandboxes int) *ward {
	t.Helper()
	w := &ward{scene: newScene(t, takeNobody, "  - {name: local, kind: process}\n"), saved: map[string]string{}}
	w.socket, w.state = w.onSocket(t), store.DSN(w.remembering(t))
	for i := range leases {
		key := fmt.Sprint("job-", i)
		path := "/api/v1/leases/" + key + "?ttl=1h"
		w.paths, w.saved[path] = append(w.paths, path), "lease "+key
	}
	for i := range sandboxes {
		w.process(t, fmt.Sprint(i))
		id := fmt.Sprintf("%d:%s-%d", os.Getuid(), w.id, i)
		path := "/api/v1/sandboxes/local/" + id + "/heartbeat"
		w.paths, w.saved[path] = append(w.paths, path), "sandbox "+id
	}
	return w
}

// load gives the last heartbeat of each that is in the state.
func (w *ward) load(t testing.TB) map[string]time.Time {
	t.Helper()
	st, err := store.Open(t.Context(), w.state, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	leases, err := st.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pulses, err := st.Pulses(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	beats := map[string]time.Time{}
	for _, l := range leases {
		beats["lease "+l.Key] = l.Renewed
	}
	for _, p := range pulses {
		if !p.LastBeat.IsZero() {
			beats["sandbox "+p.ID] = p.LastBeat
		}
	}
	return beats
}

// beat is one that was answered.
type beat struct {
	path           string
	sent, answered time.Time
}

// send sends them over lines in parallel, until each line has sent as many or
// breaks, and gives those that were answered in the order of their answers.
func (w *ward) send(t testing.TB, lines, each int) (answered []beat, broken error) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range lines {
		l := dialLine(t, w.socket)
		all.Go(func() {
			mine := make([]beat, 0, min(each, 1<<16))
			var err error
			for i := 0; i < each && err == nil; i++ {
				b := beat{path: w.paths[(i*lines+n)%len(w.paths)], sent: time.Now()}
				if err = l.put(b.path); err == nil {
					b.answered = time.Now()
					mine = append(mine, b)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			answered = append(answered, mine...)
			if broken == nil {
				broken = err
			}
		})
	}
	all.Wait()
	slices.SortFunc(answered, func(a, b beat) int { return a.answered.Compare(b.answered) })
	return answered, broken
}

// TestHeartbeatsOutliveAKill kills the daemon in the middle of a stream of them.
// What was answered before the last one that it still wrote is all there.
func TestHeartbeatsOutliveAKill(t *testing.T) {
	t.Parallel()
	w := newWard(t, 60, 10)
	d := w.daemon(t)
	d.scans(t, "local", 1) // so that the sandboxes are known
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		select {
		case <-time.After(2500 * time.Millisecond): // two writes, and half way to the next
		case <-d.exited:
		}
		_ = d.Process.Kill()
	}()
	answered, broken := w.send(t, 4, 1<<30)
	<-killed
	d.wait(t)
	if broken == nil || d.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it was not killed while it was sent heartbeats: %v, %v", broken, d.ProcessState)
	}
	saved := w.load(t)
	for _, kind := range []string{"lease", "sandbox"} {
		w.checkSaved(t, kind, saved, answered)
	}
}

// checkSaved: those of a kind are written together, so what was answered before
// one that is there has to be there too.
func (w *ward) checkSaved(t *testing.T, kind string, saved map[string]time.Time, answered []beat) {
	t.Helper()
	var last time.Time
	for name, at := range saved {
		if name[:len(kind)] == kind && at.After(last) {
			last = at
		}
	}
	lost, checked := 0, 0
	for _, b := range answered {
		name := w.saved[b.path]
		switch {
		case name[:len(kind)] != kind:
		case b.answered.After(last):
			lost++
		default:
			if checked++; saved[name].Before(b.sent) {
				t.Fatalf("the heartbeat for %s of %v is lost: %v is there, and of others %v", name, b.sent, saved[name], last)
			}
		}
	}
	if checked == 0 {
		t.Errorf("no heartbeat of a %s was written", kind)
	}
	t.Logf("%s: %d were written, and %d of the last %v lost", kind, checked, lost, answered[len(answered)-1].answered.Sub(last))
}
