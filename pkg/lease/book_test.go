package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/policy"
)

// noon is the present of the tests.
var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func after(d time.Duration) time.Time { return noon.Add(d) }

func renew(t testing.TB, b *Book, key string, ttl time.Duration, now time.Time) Lease {
	t.Helper()
	l, _, err := b.Renew(key, ttl, "uid 1", now)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestALeaseRunsThroughItsStates(t *testing.T) {
	b := NewBook(day)
	at := noon
	renews := func(created bool) func() error {
		return func() error {
			_, made, err := b.Renew("job", time.Minute, "uid 1", at)
			if err == nil && made != created {
				err = fmt.Errorf("created: %v", made)
			}
			return err
		}
	}
	releases := func() error { _, err := b.Release("job", "uid 2", at); return err }
	forgets := func() error { return b.Forget("job", "uid 3", at) }
	nothing := func() error { return nil }
	for _, step := range []struct {
		name string
		at   time.Duration
		do   func() error
		err  error
		want Lease
		is   State
	}{
		{"released before it is", 0, releases, ErrUnknown, Lease{}, ""},
		{"forgotten before it is", 0, forgets, ErrUnknown, Lease{}, ""},
		{"made", 0, renews(true), nil, Lease{Created: noon, Renewed: noon, By: "uid 1"}, Live},
		{"at its last instant", time.Minute - 1, nothing, nil, Lease{Created: noon, Renewed: noon, By: "uid 1"}, Live},
		{"at its end", time.Minute, nothing, nil, Lease{Created: noon, Renewed: noon, By: "uid 1"}, Expired},
		{"renewed after its end", 2 * time.Minute, renews(false), nil, Lease{Created: noon, Renewed: after(2 * time.Minute), By: "uid 1"}, Live},
		{"released", 150 * time.Second, releases, nil, Lease{Created: noon, Renewed: after(2 * time.Minute), Released: after(150 * time.Second), By: "uid 2"}, Released},
		{"released again", 160 * time.Second, releases, nil, Lease{Created: noon, Renewed: after(2 * time.Minute), Released: after(150 * time.Second), By: "uid 2"}, Released},
		{"forgotten", 170 * time.Second, forgets, nil, Lease{Created: noon, Renewed: after(2 * time.Minute), Released: after(150 * time.Second), Forgotten: after(170 * time.Second), By: "uid 3"}, Forgotten},
		{"forgotten again", 180 * time.Second, forgets, nil, Lease{Created: noon, Renewed: after(2 * time.Minute), Released: after(150 * time.Second), Forgotten: after(170 * time.Second), By: "uid 3"}, Forgotten},
		{"released when forgotten", 190 * time.Second, releases, ErrUnknown, Lease{Created: noon, Renewed: after(2 * time.Minute), Released: after(150 * time.Second), Forgotten: after(170 * time.Second), By: "uid 3"}, Forgotten},
		{"made anew", 200 * time.Second, renews(true), nil, Lease{Created: after(200 * time.Second), Renewed: after(200 * time.Second), By: "uid 1"}, Live},
	} {
		at = after(step.at)
		if err := step.do(); !errors.Is(err, step.err) {
			t.Fatalf("%s: %v", step.name, err)
		}
		got, err := b.Get("job")
		if step.is == "" {
			if !errors.Is(err, ErrUnknown) {
				t.Errorf("%s: %+v, %v", step.name, got, err)
			}
			continue
		}
		step.want.Key, step.want.TTL = "job", time.Minute
		if diff := cmp.Diff(step.want, got); diff != "" || err != nil || got.State(at) != step.is {
			t.Errorf("%s: %v, %s, want %s (-want +got)\n%s", step.name, err, got.State(at), step.is, diff)
		}
		for s, n := range b.Count(at) {
			if (n == 1) != (s == step.is) {
				t.Errorf("%s: counted %d %s", step.name, n, s)
			}
		}
	}
}

func TestKeysAndTTLs(t *testing.T) {
	b := NewBook(time.Hour)
	for _, key := range []string{"a", ".", "A-Z_0.9", strings.Repeat("k", 64)} {
		renew(t, b, key, time.Second, noon)
	}
	for _, key := range []string{"", " ", "a b", "a/b", "é", "a\n", "a\x00", strings.Repeat("k", 65), strings.Repeat("k", 1<<16)} {
		_, _, renewed := b.Renew(key, time.Second, "", noon)
		_, released := b.Release(key, "", noon)
		_, got := b.Get(key)
		for _, err := range []error{renewed, released, got, b.Forget(key, "", noon)} {
			if !errors.Is(err, ErrKey) || len(err.Error()) > 300 {
				t.Errorf("%.70q: %v", key, err)
			}
		}
		if c := b.Cover(key, noon); c != nil {
			t.Errorf("%.70q covers: %v", key, c)
		}
	}
	if got := len(b.All()); got != 4 {
		t.Errorf("%d leases", got)
	}
	for _, ttl := range []time.Duration{0, -time.Second} {
		if _, _, err := b.Renew("a", ttl, "", noon); !errors.Is(err, ErrTTL) {
			t.Errorf("ttl %v: %v", ttl, err)
		}
	}
	if l := renew(t, b, "long", 1<<62, noon); l.Ends() != after(time.Hour) {
		t.Errorf("it ends %v", l.Ends())
	}
	b.SetMaxTTL(time.Minute)
	if l, err := b.Get("long"); err != nil || l.TTL != time.Hour {
		t.Errorf("a bound set later took back what was promised: %+v, %v", l, err)
	}
	if l := renew(t, b, "long", time.Hour, noon); l.TTL != time.Minute {
		t.Errorf("ttl %v", l.TTL)
	}
}

func TestWhatALeaseIsToTheJudging(t *testing.T) {
	b := NewBook(day)
	for _, key := range []string{"live", "released", "forgotten", "both"} {
		renew(t, b, key, time.Minute, noon)
	}
	for _, key := range []string{"released", "both"} {
		if _, err := b.Release(key, "", after(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"forgotten", "both"} {
		if err := b.Forget(key, "", after(2*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string][]policy.Lease{
		"live":      {{Key: "live", Ends: after(time.Minute)}},
		"released":  {{Key: "released", Ends: after(time.Minute), Released: after(time.Second)}},
		"forgotten": {{Key: "forgotten"}},
		"both":      {{Key: "both"}},
		"unknown":   nil,
		"a b":       nil,
	} {
		if diff := cmp.Diff(want, b.Cover(key, after(time.Hour))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", key, diff)
		}
	}
}

// The end of a lease is at most one ttl from any present, whatever its clock
// said before.
func TestAClockSetBackKeepsNoLeaseAlive(t *testing.T) {
	const step = 365 * day
	for name, look := range map[string]func(b *Book, now time.Time){
		"covering":  func(b *Book, now time.Time) { b.Cover("job", now) },
		"counting":  func(b *Book, now time.Time) { b.Count(now) },
		"pruning":   func(b *Book, now time.Time) { b.Prune(now) },
		"releasing": func(b *Book, now time.Time) { _, _ = b.Release("job", "", now) },
		"renewing":  func(b *Book, now time.Time) { _, _, _ = b.Renew("job", time.Minute, "", now) },
		"loading": func(b *Book, now time.Time) {
			kept := b.All()
			*b = Book{maxTTL: day, leases: map[string]*entry{}, unsaved: map[string]struct{}{}, gone: map[string]struct{}{}}
			b.Load(kept, now, Origin{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook(day)
			renew(t, b, "job", time.Minute, after(step))
			b.Cover("job", after(step))
			b.Unsaved(Origin{})
			look(b, noon)
			l, err := b.Get("job")
			if err != nil || l.Created != noon || l.Renewed != noon || l.Ends() != after(time.Minute) {
				t.Errorf("%+v, %v", l, err)
			}
			if got := b.Unsaved(Origin{}); len(got) != 1 {
				t.Errorf("unsaved: %+v", got)
			}
			look = func(b *Book, now time.Time) { b.Cover("job", now) }
			look(b, after(time.Second))
			if again, err := b.Get("job"); err != nil || again != l {
				t.Errorf("pulled twice: %+v, %v", again, err)
			}
			if got := b.Unsaved(Origin{}); len(got) != 0 {
				t.Errorf("unsaved again: %+v", got)
			}
			if e := b.leases["job"]; e.named.After(after(time.Second)) {
				t.Errorf("named %v", e.named)
			}
		})
	}
}

// With its monotonic reading a time compares as if no clock had been set.
func TestAMonotonicReadingIsNotKept(t *testing.T) {
	now := time.Now()
	b := NewBook(day)
	l := renew(t, b, "job", time.Minute, now)
	c := b.Cover("job", now)
	for _, at := range []time.Time{l.Renewed, l.Created, c[0].Ends} {
		if strings.Contains(at.String(), "m=") {
			t.Errorf("%v", at)
		}
	}
}

func fill(t testing.TB, b *Book, n int, ttl time.Duration, now time.Time) {
	t.Helper()
	for i := range n {
		renew(t, b, fmt.Sprintf("k%d", i), ttl, now)
	}
}

func TestTooManyLeases(t *testing.T) {
	b := NewBook(day)
	fill(t, b, most, time.Minute, noon)
	if _, _, err := b.Renew("one more", time.Minute, "", noon); !errors.Is(err, ErrKey) {
		t.Error(err)
	}
	for _, at := range []time.Duration{0, time.Second, time.Hour} {
		if _, _, err := b.Renew("more", time.Minute, "", after(at)); !errors.Is(err, ErrFull) {
			t.Fatalf("after %v: %v", at, err)
		}
	}
	renew(t, b, "k0", time.Minute, after(30*time.Minute))
	b.Cover("k1", after(50*time.Minute))
	if err := b.Forget("k2", "", noon); err != nil {
		t.Fatal(err)
	}
	// Those that nobody made use of for an hour make room: all but three.
	renew(t, b, "more", time.Minute, after(time.Hour+time.Minute))
	if got := b.All(); len(got) != 4 || got[0].Key != "k0" || got[1].Key != "k1" || got[2].Key != "k2" {
		t.Errorf("%d are left: %+v", len(got), got[:min(len(got), 5)])
	}
	renew(t, b, "k3", time.Minute, after(2*time.Hour))
	if gone := b.Prune(after(2 * time.Hour)); len(gone) != most-4 || slices.Contains(gone, "k3") {
		t.Errorf("%d keys to delete", len(gone))
	}
}

func TestConcurrentUse(t *testing.T) {
	b := NewBook(day)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 500 {
				key := fmt.Sprintf("k%d", i%10)
				now := after(time.Duration(i) * time.Millisecond)
				_, _, err := b.Renew(key, time.Minute, "", now)
				if err != nil {
					t.Error(err)
				}
				switch w {
				case 0:
					_, _ = b.Release(key, "", now)
				case 1:
					_ = b.Forget(key, "", now)
				case 2:
					b.NotSaved(b.Unsaved(Origin{}))
				case 3:
					b.Prune(now)
					b.Count(now)
				default:
					b.Cover(key, now)
					b.All()
				}
			}
		})
	}
	wg.Wait()
	if n := len(b.Unsaved(Origin{})); n != 10 {
		t.Errorf("%d unsaved", n)
	}
}
