package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func keys(ls []Lease) []string {
	var all []string
	for _, l := range ls {
		all = append(all, l.Key)
	}
	return all
}

func TestEachChangedLeaseIsGivenOnce(t *testing.T) {
	b := NewBook(day)
	for i := range 1000 {
		renew(t, b, "b", time.Minute, after(time.Duration(i)*time.Millisecond))
	}
	renew(t, b, "a", time.Minute, noon)
	first := b.Unsaved(Origin{})
	if !slices.Equal(keys(first), []string{"a", "b"}) || first[1].Renewed != after(999*time.Millisecond) {
		t.Fatalf("%+v", first)
	}
	if again := b.Unsaved(Origin{}); len(again) != 0 {
		t.Errorf("again: %+v", again)
	}
	// A save that failed is made up for, by what is so by then.
	renew(t, b, "b", time.Minute, after(time.Second))
	b.NotSaved(first)
	second := b.Unsaved(Origin{})
	if !slices.Equal(keys(second), []string{"a", "b"}) || second[1].Renewed != after(time.Second) {
		t.Errorf("after it failed: %+v", second)
	}
	// What changes nothing is not written.
	if _, err := b.Release("a", "", noon); err != nil {
		t.Fatal(err)
	}
	b.Unsaved(Origin{})
	_, _ = b.Release("a", "", after(time.Second))
	_, _ = b.Get("a")
	b.Cover("a", after(time.Second))
	b.Count(after(time.Second))
	if got := b.Unsaved(Origin{}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	b.NotSaved([]Lease{{Key: "gone"}})
	if got := b.Unsaved(Origin{}); len(got) != 0 {
		t.Errorf("one that is not there: %+v", got)
	}
}

func TestLoad(t *testing.T) {
	old := Lease{Key: "job", TTL: time.Minute, Created: after(-time.Hour), Renewed: after(-time.Second), By: "uid 1"}
	with := func(change func(l *Lease)) Lease {
		l := old
		change(&l)
		return l
	}
	released := with(func(l *Lease) { l.Released = after(-time.Second / 2) })
	future := with(func(l *Lease) { l.Renewed = after(time.Hour) })
	newer := with(func(l *Lease) { l.Renewed = after(2 * time.Second) })
	for name, tc := range map[string]struct {
		here    func(b *Book)
		kept    Lease
		at      time.Time
		want    Lease
		unsaved int
	}{
		"live":     {kept: old, at: noon, want: old},
		"released": {kept: released, at: noon, want: released},
		"from the future": {
			kept: future, at: noon, want: with(func(l *Lease) { l.Renewed = noon }), unsaved: 1,
		},
		"renewed since": {
			here: func(b *Book) { renew(t, b, "job", time.Second, noon) }, kept: released, at: after(time.Second),
			want: Lease{Key: "job", TTL: time.Second, Created: noon, Renewed: noon, By: "uid 1"}, unsaved: 1,
		},
		"renewed since, and kept from the future": {
			here: func(b *Book) { renew(t, b, "job", time.Second, noon) }, kept: future, at: after(time.Second),
			want: Lease{Key: "job", TTL: time.Second, Created: noon, Renewed: noon, By: "uid 1"}, unsaved: 1,
		},
		"forgotten since": {
			here: func(b *Book) {
				renew(t, b, "job", time.Second, noon)
				if err := b.Forget("job", "", noon); err != nil {
					t.Fatal(err)
				}
			}, kept: old, at: noon,
			want: Lease{Key: "job", TTL: time.Second, Created: noon, Renewed: noon, Forgotten: noon}, unsaved: 1,
		},
		"renewed before": {
			here: func(b *Book) { renew(t, b, "job", time.Second, noon) }, kept: newer, at: after(3 * time.Second),
			want: newer, unsaved: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook(day)
			if tc.here != nil {
				tc.here(b)
			}
			b.Load([]Lease{tc.kept}, tc.at, Origin{})
			if diff := cmp.Diff([]Lease{tc.want}, b.All()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got := b.Unsaved(Origin{}); len(got) != tc.unsaved {
				t.Errorf("unsaved: %+v", got)
			}
		})
	}
}

// What cannot be a lease neither kills nor keeps, and does not lie there for
// ever.
func TestWhatIsNoLeaseIsNotLoaded(t *testing.T) {
	good := Lease{Key: "good", TTL: time.Minute, Created: noon, Renewed: noon}
	b := NewBook(day)
	bad := []Lease{good, good, good, good}
	bad[0].Key = "a b"
	bad[1].Key, bad[1].TTL = "no-ttl", 0
	bad[2].Key, bad[2].TTL = "negative", -time.Hour
	bad[3].Key, bad[3].Renewed = "never", time.Time{}
	b.Load(append(bad, good), noon, Origin{})
	if got := keys(b.All()); !slices.Equal(got, []string{"good"}) {
		t.Errorf("%q", got)
	}
	renew(t, b, "negative", time.Minute, noon)
	if got := b.Prune(noon); !slices.Equal(got, []string{"a b", "never", "no-ttl"}) {
		t.Errorf("to delete: %q", got)
	}
	if got := b.Prune(noon); len(got) != 0 {
		t.Errorf("to delete again: %q", got)
	}
}

func TestPrune(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(b *Book) // at noon
		more func(b *Book)
		over time.Duration // after noon
	}{
		"expired":  {over: time.Minute},
		"released": {end: func(b *Book) { _, _ = b.Release("job", "", noon) }},
		"forgotten": {
			end: func(b *Book) { _ = b.Forget("job", "", noon) },
		},
		"still named": {
			end:  func(b *Book) { _ = b.Forget("job", "", noon) },
			more: func(b *Book) { b.Cover("job", after(3*day)) }, over: 3 * day,
		},
		"loaded": {
			more: func(b *Book) { b.Load([]Lease{{Key: "other", TTL: 300 * day, Renewed: noon}}, after(2*day), Origin{}) }, over: 2 * day,
		},
		"renewed": {
			end:  func(b *Book) { _, _ = b.Release("job", "", noon) },
			more: func(b *Book) { _, _, _ = b.Renew("job", time.Hour, "", after(day)) }, over: day + time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook(day)
			renew(t, b, "job", time.Minute, noon)
			for _, f := range []func(*Book){tc.end, tc.more} {
				if f != nil {
					f(b)
				}
			}
			end := after(tc.over + keepFor)
			if got := b.Prune(end.Add(-1)); len(got) != 0 {
				t.Fatalf("too early: %q", got)
			}
			if got := b.Prune(end); !slices.Equal(got, []string{"job"}) {
				t.Errorf("to delete: %q", got)
			}
			if _, err := b.Get("job"); err == nil {
				t.Error("it is still there")
			}
			if got := b.Unsaved(Origin{}); slices.Contains(keys(got), "job") {
				t.Error("it would be saved again")
			}
		})
	}
}

func TestALiveLeaseIsNotPruned(t *testing.T) {
	b := NewBook(365 * day)
	renew(t, b, "job", 365*day, noon)
	if got := b.Prune(after(364 * day)); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
