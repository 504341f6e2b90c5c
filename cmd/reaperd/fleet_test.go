package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// fate is what has to become of a sandbox.
type fate string

const (
	lives  fate = "lives"  // whatever happens
	leaves fate = "leaves" // its owner takes it away before it is due
	goes   fate = "goes"   // by reaperd's hand
	races  fate = "races"  // its owner takes it away, and reaperd may be faster
)

// roles are what there is in a fleet, of every hundred.
var roles = []struct {
	name  string
	share int
	fate  fate
	tags  []string
	beats bool
}{
	{"violator", 25, goes, nil, false}, // its ttl is drawn
	{"slow violator", 5, goes, []string{"slow", "yes"}, false},
	{"protected", 12, lives, []string{"keep", "yes", "reaperd.ttl", "1s"}, false},
	{"within limits", 12, lives, []string{"reaperd.ttl", "1h"}, false},
	{"beating", 8, lives, []string{"watched", "yes"}, true},
	{"under a lease", 5, lives, []string{"watched", "yes", "reaperd.lease", "held"}, false},
	{"silent", 8, goes, []string{"watched", "yes"}, false},
	{"without its lease", 5, goes, []string{"watched", "yes", "reaperd.lease", "nobodys"}, false},
	{"under a lease that ends", 5, goes, []string{"watched", "yes", "reaperd.lease", "released"}, false},
	{"owned", 8, leaves, []string{"reaperd.ttl", "1h"}, false},
	{"owned violator", 7, races, nil, false},
}

// guest is one sandbox of a fleet.
type guest struct {
	role  string
	fate  fate
	tags  []string
	beats bool
	ttl   time.Duration // 0: it has none that counts
	stays time.Duration // until its owner takes it away

	id        string
	notBefore time.Time // it is not due earlier
}

// fleet is sandboxes of every role, in random order.
type fleet struct {
	guests  []*guest
	beating func(id string) // told of those that beat; nil: nobody is
}

func newFleet(r *rand.Rand, n int) *fleet {
	f := &fleet{}
	for _, role := range roles {
		for range role.share * n / 100 {
			m := &guest{role: role.name, fate: role.fate, tags: role.tags, beats: role.beats}
			if m.tags == nil || m.role == "slow violator" {
				m.ttl = time.Duration(1+r.IntN(6)) * time.Second
				m.tags = append(slices.Clone(m.tags), "reaperd.ttl", m.ttl.String())
			}
			m.stays = time.Duration(r.Int64N(int64(4 * time.Second)))
			f.guests = append(f.guests, m)
		}
	}
	r.Shuffle(len(f.guests), func(i, j int) { f.guests[i], f.guests[j] = f.guests[j], f.guests[i] })
	return f
}

// arrive has a guest come for each that is asked for. The function waits until
// all of them are there and those that leave have left.
func (f *fleet) arrive(t *testing.T, s *scene, e *enginetest.Engine, come <-chan struct{}) (arrived func()) {
	t.Helper()
	queue := make(chan *guest)
	var all sync.WaitGroup
	all.Go(func() {
		defer close(queue)
		for _, m := range f.guests {
			select {
			case <-come:
				queue <- m
			case <-t.Context().Done():
				return
			}
		}
	})
	for range 3 {
		all.Go(func() {
			for m := range queue {
				began := time.Now()
				m.id = s.box(t, e, m.tags...)
				if m.ttl > 0 {
					m.notBefore = began.Add(m.ttl)
				}
				if m.beats {
					f.beating(m.id)
				}
				if m.fate == leaves || m.fate == races {
					all.Go(func() {
						select {
						case <-time.After(m.stays):
							e.Remove(t, m.id)
						case <-t.Context().Done():
						}
					})
				}
			}
		})
	}
	t.Cleanup(all.Wait)
	return all.Wait
}

// onSocket has the scene's daemon answer on a socket, and gives its path.
func (s *scene) onSocket(t testing.TB) string {
	t.Helper()
	path := filepath.Join(socketDir(t), "s")
	s.rewrite(t, "reaperd.yaml", strings.Replace(s.configuration(t), "socket: {path: ''}", "socket: {path: "+path+"}", 1))
	return path
}

// beater sends heartbeats, all of them by turns, whether they are taken or not.
type beater struct {
	client *http.Client

	mu    sync.Mutex
	paths []string
}

// beatOn sends them to that socket until the test ends.
func beatOn(t *testing.T, socket string) *beater {
	t.Helper()
	tr := &http.Transport{DialContext: dialSocket(socket)}
	b := &beater{client: &http.Client{Transport: tr, Timeout: 2 * time.Second}}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				b.round(ctx)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		tr.CloseIdleConnections()
	})
	return b
}

func (b *beater) round(ctx context.Context) {
	b.mu.Lock()
	paths := slices.Clone(b.paths)
	b.mu.Unlock()
	for _, path := range paths {
		if b.put(ctx, path) != nil {
			return // nobody is there
		}
	}
}

// put sends one, and says why it was not answered.
func (b *beater) put(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://reaperd"+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	// One that is refused, because no list has shown it yet, is sent again.
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return err
}

// also adds to what is sent, and without takes away from it.
func (b *beater) also(paths ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paths = append(b.paths, paths...)
}

func (b *beater) without(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paths = slices.DeleteFunc(b.paths, func(p string) bool { return p == path })
}

// ledger is what the daemons asked the engine to change, as a proxy saw it.
type ledger struct {
	struck chan struct{} // holds one if there was a request since it was emptied

	mu    sync.Mutex
	asked map[string][]time.Time // by container
}

// newLedger keeps one of what goes through p.
func newLedger(p *enginetest.Proxy) *ledger {
	l := &ledger{struck: make(chan struct{}, 1), asked: map[string][]time.Time{}}
	p.Hook(func(r enginetest.Request) http.HandlerFunc {
		l.note(r)
		return nil
	})
	return l
}

func (l *ledger) note(r enginetest.Request) {
	path, is := strings.CutPrefix(r.Path, "/containers/")
	if !r.Mutating() || !is {
		return
	}
	id, _, _ := strings.Cut(path, "/")
	l.mu.Lock()
	l.asked[id] = append(l.asked[id], time.Now())
	l.mu.Unlock()
	select {
	case l.struck <- struct{}{}:
	default:
	}
}

// of gives when a container was to be changed.
func (l *ledger) of(id string) []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked[id])
}

// strike waits for an instant to strike at: now and then just any, mostly soon
// after a daemon has asked the engine to end something.
func (l *ledger) strike(r *rand.Rand) {
	whatever := time.After(time.Duration(r.Int64N(int64(time.Second))))
	stops, then := r.IntN(5), time.Duration(r.Int64N(int64(40*time.Millisecond)))
	select {
	case <-l.struck: // what an earlier daemon asked for
	default:
	}
	for ; stops > 0; stops-- {
		select {
		case <-l.struck:
		case <-whatever:
			return
		}
	}
	<-time.After(then)
}
