package lease

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// naive is what a book should come to, said at length.
type naive map[string]*Lease

func (n naive) renew(key string, ttl time.Duration, by string, now time.Time) (created bool) {
	l := n[key]
	if l == nil || !l.Released.IsZero() || !l.Forgotten.IsZero() {
		l, created = &Lease{Key: key, Created: now}, true
		n[key] = l
	}
	l.Renewed, l.TTL, l.By = now, min(ttl, day), by
	return created
}

// covered gives the end that a lease sets to what names it: far away where it
// sets none.
func covered(b *Book, key string, now time.Time) time.Time {
	c := b.Cover(key, now)
	switch {
	case len(c) == 0 || c[0].Ends.IsZero():
		return noon.AddDate(100, 0, 0)
	case !c[0].Released.IsZero():
		return c[0].Released
	default:
		return c[0].Ends
	}
}

func TestABookAgreesWithANaiveOne(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		b, n, now := NewBook(day), naive{}, noon
		stored := map[string]Lease{}
		save := func() {
			for _, l := range b.Unsaved(Origin{}) {
				stored[l.Key] = l
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "pause")))
			key := rapid.SampledFrom(names).Draw(t, "key")
			before := map[string]time.Time{}
			for _, name := range names {
				before[name] = covered(b, name, now)
			}
			was := n[key]
			switch op := rapid.SampledFrom([]string{"renew", "release", "forget", "save", "lose a save", "restart"}).Draw(t, "op"); op {
			case "renew":
				ttl := time.Duration(rapid.Int64Range(1, int64(2*day)).Draw(t, "ttl"))
				same := was != nil && rapid.Bool().Draw(t, "same ttl")
				if same {
					ttl = was.TTL
				}
				live := was != nil && was.State(now) == Live
				created := n.renew(key, ttl, "r", now)
				l, made, err := b.Renew(key, ttl, "r", now)
				if err != nil || made != created || l != *n[key] {
					t.Fatalf("%+v, %v, %v, want %+v", l, made, err, n[key])
				}
				if same && live && l.Ends().Before(before[key]) {
					t.Fatalf("a renewal with the same ttl moved the end from %v to %v", before[key], l.Ends())
				}
			case "release":
				l, err := b.Release(key, "e", now)
				if was == nil || !was.Forgotten.IsZero() {
					if !errors.Is(err, ErrUnknown) {
						t.Fatalf("%+v, %v", l, err)
					}
					break
				}
				if was.Released.IsZero() {
					was.Released, was.By = now, "e"
				}
				if err != nil || l != *was {
					t.Fatalf("%+v, %v, want %+v", l, err, was)
				}
			case "forget":
				err := b.Forget(key, "f", now)
				if was == nil {
					if !errors.Is(err, ErrUnknown) {
						t.Fatal(err)
					}
					break
				}
				if was.Forgotten.IsZero() {
					was.Forgotten, was.By = now, "f"
				}
				if after := covered(b, key, now); err != nil || after.Before(before[key]) {
					t.Fatalf("%v; to forget moved the end from %v to %v", err, before[key], after)
				}
			case "save":
				save()
			case "lose a save":
				b.NotSaved(b.Unsaved(Origin{}))
			case "restart":
				save()
				b = NewBook(day)
				b.Load(slices.Collect(maps.Values(stored)), now, Origin{})
			}
			for _, name := range names {
				if now := covered(b, name, now); name != key && now.Before(before[name]) {
					t.Fatalf("what was done to %s moved the end of %s from %v to %v", key, name, before[name], now)
				}
			}
			var want []Lease
			for _, name := range slices.Sorted(maps.Keys(n)) {
				want = append(want, *n[name])
			}
			if diff := cmp.Diff(want, b.All(), cmp.Comparer(slices.Equal[[]Lease])); diff != "" {
				t.Fatalf("(-naive +book)\n%s", diff)
			}
		}
	})
}
