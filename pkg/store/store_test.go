package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/providers"
)

func TestPulsesSurviveARestart(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	beating := Pulse{
		Provider: "dev", ID: "b", Revision: "r2", FirstSeen: noon.Add(-time.Hour), LastSeen: noon,
		State: providers.StateRunning, StateSince: noon.Add(-time.Minute), UpSince: noon.Add(-2 * time.Minute),
		LastBeat: noon.Add(-time.Nanosecond), Restarts: 3, Started: noon.Add(-3 * time.Minute), Told: []string{"malformed reaperd.ttl", "dry run a\x00\"b\""},
	}
	bare := Pulse{Provider: "dev", ID: "a"}
	reused := Pulse{Provider: "dev", ID: "b", Revision: "r3", FirstSeen: noon}
	elsewhere := Pulse{Provider: "e2b", ID: "b", Revision: "r2"}
	if err := s.SavePulses(t.Context(), []Pulse{beating, elsewhere, reused, bare}); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	s = open(t, path)
	got, err := s.Pulses(t.Context(), "dev")
	if diff := cmp.Diff([]Pulse{bare, beating, reused}, got); diff != "" || err != nil {
		t.Errorf("%v, (-saved +read)\n%s", err, diff)
	}
	if none, err := s.Pulses(t.Context(), "nowhere"); err != nil || len(none) != 0 {
		t.Errorf("of no provider: %v, %v", none, err)
	}
}

func TestSavedAgainAPulseIsReplacedWhole(t *testing.T) {
	s := open(t, newPath(t))
	ps := pulsesOf(2*rowsAtOnce + 3)
	if err := s.SavePulses(t.Context(), ps); err != nil {
		t.Fatal(err)
	}
	for i := range ps {
		ps[i].LastSeen, ps[i].State, ps[i].Told, ps[i].UpSince = noon.Add(time.Hour), providers.StateExited, nil, time.Time{}
		ps[i].Restarts, ps[i].Started = i, noon
	}
	last := ps[7] // the same twice in one call: the later counts
	last.LastBeat = noon
	if err := s.SavePulses(t.Context(), append(ps, last)); err != nil {
		t.Fatal(err)
	}
	ps[7] = last
	got, err := s.Pulses(t.Context(), "dev")
	if diff := cmp.Diff(ps, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := s.SavePulses(t.Context(), nil); err != nil {
		t.Errorf("none: %v", err)
	}
}

func TestPruneForgetsPulsesByTheirLastSight(t *testing.T) {
	s := open(t, newPath(t))
	ps := []Pulse{
		{Provider: "dev", ID: "at", LastSeen: noon},
		{Provider: "dev", ID: "before", LastSeen: noon.Add(-time.Nanosecond)},
		{Provider: "dev", ID: "never said"},
		{Provider: "e2b", ID: "before", LastSeen: noon.Add(-time.Hour)},
	}
	if err := s.SavePulses(t.Context(), ps); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2, 0} {
		if n, err := s.PrunePulses(t.Context(), noon); n != want || err != nil {
			t.Errorf("pruned %d, %v, want %d", n, err, want)
		}
	}
	left, err := s.Pulses(t.Context(), "dev")
	if err != nil || len(left) != 2 || left[0].ID != "at" || left[1].ID != "never said" {
		t.Errorf("left: %+v, %v", left, err)
	}
}

func TestTimesComeBackAsTheyWere(t *testing.T) {
	s := open(t, newPath(t))
	berlin := time.FixedZone("CET", 3600)
	for name, tc := range map[string]struct{ in, want time.Time }{
		"zero":             {time.Time{}, time.Time{}},
		"1970":             {time.Unix(0, 0), time.Unix(0, 0).UTC()},
		"before 1970":      {time.Date(1969, 1, 2, 3, 4, 5, 6, time.UTC), time.Date(1969, 1, 2, 3, 4, 5, 6, time.UTC)},
		"another zone":     {noon.In(berlin), noon},
		"with a monotonic": {time.Now(), time.Time{}},
		"year 9999":        {time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Unix(0, math.MaxInt64).UTC()},
		"year 1, not zero": {time.Time{}.Add(1), time.Unix(0, math.MinInt64).UTC()},
	} {
		if tc.want.IsZero() {
			tc.want = tc.in.Round(0).UTC()
		}
		if err := s.Protect(t.Context(), Protection{Provider: "dev", ID: name, Until: tc.in}); err != nil {
			t.Fatal(err)
		}
		ps, err := s.Protections(t.Context(), "dev")
		i := slices.IndexFunc(ps, func(p Protection) bool { return p.ID == name })
		if err != nil || i < 0 || ps[i].Until != tc.want {
			t.Errorf("%s: %v, %v, want %v", name, ps, err, tc.want)
		}
	}
}

func TestProtections(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	ctx := t.Context()
	first := Protection{Provider: "dev", ID: "a", Revision: "r1", By: "ann@box", Why: "debugging", Since: noon, Until: noon.Add(time.Hour)}
	again := Protection{Provider: "dev", ID: "a", Revision: "r2", By: "bob@box", Since: noon.Add(time.Minute)}
	other := Protection{Provider: "e2b", ID: "a", By: "ann@box"}
	for _, p := range []Protection{first, other, again} {
		if err := s.Protect(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, s)
	s = open(t, path)
	got, err := s.Protections(ctx, "dev")
	if diff := cmp.Diff([]Protection{again}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for range 2 { // to take back what is not there is no error
		if err := s.Unprotect(ctx, "dev", "a"); err != nil {
			t.Error(err)
		}
	}
	if got, err := s.Protections(ctx, "dev"); err != nil || len(got) != 0 {
		t.Errorf("after it was taken back: %v, %v", got, err)
	}
	if got, err := s.Protections(ctx, "e2b"); err != nil || len(got) != 1 {
		t.Errorf("elsewhere: %v, %v", got, err)
	}
}

func TestAnEndedContextEndsEveryCall(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	begin(t, s, intent("a"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(nil)
	calls := map[string]func() error{
		"Pulses":       func() error { _, err := s.Pulses(ctx, "dev"); return err },
		"SavePulses":   func() error { return s.SavePulses(ctx, pulsesOf(1)) },
		"PrunePulses":  func() error { _, err := s.PrunePulses(ctx, noon); return err },
		"Begin":        func() error { _, err := s.Begin(ctx, intent("b")); return err },
		"End":          func() error { return s.End(ctx, 1, noon, "gone", "", 0, 0) },
		"Unresolved":   func() error { _, err := s.Unresolved(ctx, "dev"); return err },
		"History":      func() error { _, err := s.History(ctx, Filter{}); return err },
		"PruneHistory": func() error { _, err := s.PruneHistory(ctx, noon); return err },
		"Protect":      func() error { return s.Protect(ctx, Protection{}) },
		"Unprotect":    func() error { return s.Unprotect(ctx, "dev", "a") },
		"Protections":  func() error { _, err := s.Protections(ctx, "dev"); return err },
		"Leases":       func() error { _, err := s.Leases(ctx); return err },
		"SaveLeases":   func() error { return s.SaveLeases(ctx, leasesOf(1)) },
		"DeleteLeases": func() error { return s.DeleteLeases(ctx, []string{"a"}) },
		"Accept":       func() error { return s.Accept(ctx) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	usable(t, s)
	shut(t, s)
	for name, call := range calls {
		if err := call(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if _, err := Open(ctx, dsnOf(path), noon); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	if err := AcceptLost(ctx, dsnOf(path)); !errors.Is(err, context.Canceled) {
		t.Errorf("AcceptLost: %v", err)
	}
	shut(t, open(t, path)) // neither kept the lock
}

func TestAWriteGivenUpInTheMiddleWritesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.SavePulses(ctx, pulsesOf(100_000)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if ps, err := s.Pulses(t.Context(), "dev"); err != nil || len(ps) != 0 {
		t.Errorf("%d pulses, %v", len(ps), err)
	}
	usable(t, s)
}

func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	ctx := t.Context()
	const each = 10
	var wg sync.WaitGroup
	for w := range 6 {
		provider := fmt.Sprintf("p%d", w%3)
		wg.Go(func() {
			for i := range each {
				ps := pulsesOf(60)
				for j := range ps {
					ps[j].Provider = provider
				}
				id, err := s.Begin(ctx, intent(fmt.Sprintf("%d-%d", w, i)))
				_, readErr := s.Pulses(ctx, provider)
				_, historyErr := s.History(ctx, Filter{Limit: 10})
				_, pruneErr := s.PrunePulses(ctx, noon.Add(-time.Hour))
				if err := errors.Join(err, readErr, historyErr, pruneErr, s.SavePulses(ctx, ps),
					s.SaveLeases(ctx, leasesOf(i)), s.DeleteLeases(ctx, []string{"job-1"}),
					s.End(ctx, id, noon, "reclaimed", "", 1, 1),
					s.Protect(ctx, Protection{Provider: provider, ID: fmt.Sprint(i)})); err != nil {
					t.Error(err)
				}
				s.Lost()
			}
		})
	}
	wg.Wait()
	if left, err := s.Unresolved(ctx, "dev"); err != nil || len(left) != 0 {
		t.Errorf("unresolved: %v, %v", left, err)
	}
	all := history(t, s, Filter{})
	ids := map[int64]bool{}
	for _, e := range all {
		ids[e.ID] = true
	}
	if len(all) != 6*each || len(ids) != 6*each {
		t.Errorf("%d entries with %d ids", len(all), len(ids))
	}
}

func TestCloseWaitsForCallsInProgress(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	var wg sync.WaitGroup
	begun := make(chan struct{}, 4)
	var mu sync.Mutex
	kept := 0
	for range 4 {
		wg.Go(func() {
			for {
				_, err := s.Begin(t.Context(), intent(rand.Text()))
				if errors.Is(err, fs.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				kept++
				mu.Unlock()
				select {
				case begun <- struct{}{}:
				default:
				}
			}
		})
	}
	<-begun
	shut(t, s)
	again := open(t, path) // at once: nobody has it any more
	wg.Wait()
	shut(t, s)
	if all := history(t, again, Filter{}); len(all) != kept {
		t.Errorf("%d entries, %d were begun", len(all), kept)
	}
	if names := besides(t, path); !slices.Equal(names, []string{"", "-shm", "-wal", ".lock"}) {
		t.Errorf("files: %q", names)
	}
}

func TestACommitIsOnTheDisk(t *testing.T) {
	s := open(t, newPath(t))
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		var got string
		if err := s.writer.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", pragma, got, err, want)
		}
	}
	if _, err := s.readers.ExecContext(t.Context(), "DELETE FROM pulses"); err == nil {
		t.Error("a reader can write")
	}
}

func TestDSN(t *testing.T) {
	dir := t.TempDir()
	strange := filepath.Join(dir, "a b?c#d%41'é", "x.db")
	if s, err := Open(t.Context(), dsnOf(strange), noon); err != nil {
		t.Error(err)
	} else {
		shut(t, s)
	}
	if names := besides(t, strange); !slices.Equal(names, []string{"", ".lock"}) {
		t.Errorf("files: %q", names)
	}
	for dsn, says := range map[string]string{
		"":                                     "has to be sqlite:///absolute/path.db",
		"/var/lib/reaperd.db":                  "has to be sqlite:///absolute/path.db",
		"mysql://u:secret@h/d":                 "has to be sqlite:///absolute/path.db",
		"postgres://u:secret@h/d":              "PostgreSQL, which is not built yet: use sqlite:///absolute/path.db",
		"postgresql://u:secret@h/d":            "PostgreSQL, which is not built yet: use sqlite:///absolute/path.db",
		"sqlite://relative/secret.db":          "three slashes and an absolute path",
		"sqlite://u:secret@/x.db":              "three slashes and an absolute path",
		"sqlite://":                            "name a file",
		"sqlite:///":                           "name a file",
		"sqlite:///secret/":                    "name a file",
		"sqlite:///secret.db?mode=memory":      "no parameters",
		"sqlite:///secret.db?":                 "no parameters",
		"sqlite:///secret.db#x":                "no parameters",
		"sqlite:///%zz/secret":                 "escaped",
		"sqlite:///secret%00.db":               "name a file",
		"sqlite:reaperd.db":                    "has to be sqlite:///absolute/path.db",
		"SQLITE:///" + strings.Repeat("a", 10): "has to be sqlite:///absolute/path.db",
	} {
		_, err := Open(t.Context(), dsn, noon)
		accepted := AcceptLost(t.Context(), dsn)
		for _, err := range []error{err, accepted} {
			if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", dsn, err)
			}
		}
	}
}
