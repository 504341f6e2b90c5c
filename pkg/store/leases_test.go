package store

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/lease"
)

func TestLeasesSurviveARestart(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	all := lease.Lease{
		Key: "b", TTL: 90*time.Second + 1, Created: noon.Add(-time.Hour), Renewed: noon.Add(-time.Minute),
		Released: noon.Add(-time.Second), Forgotten: noon, By: "uid 1000",
	}
	bare := lease.Lease{Key: "a"}
	if err := s.SaveLeases(t.Context(), []lease.Lease{all, bare}); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	s = open(t, path)
	got, err := s.Leases(t.Context())
	if diff := cmp.Diff([]lease.Lease{bare, all}, got); diff != "" || err != nil {
		t.Errorf("%v, (-saved +read)\n%s", err, diff)
	}
}

func TestSavedAgainALeaseIsReplacedWhole(t *testing.T) {
	s := open(t, newPath(t))
	ls := leasesOf(2*rowsAtOnce + 3)
	if err := s.SaveLeases(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	for i := range ls {
		ls[i].TTL, ls[i].Created, ls[i].Renewed = time.Hour, noon, noon.Add(time.Hour)
		ls[i].Released, ls[i].Forgotten, ls[i].By = noon, noon, "token"
	}
	last := ls[7] // the same twice in one call: the later counts
	last.Released, last.Forgotten = time.Time{}, time.Time{}
	if err := s.SaveLeases(t.Context(), append(ls, last)); err != nil {
		t.Fatal(err)
	}
	ls[7] = last
	byKey := func(a, b lease.Lease) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	}
	slices.SortFunc(ls, byKey)
	got, err := s.Leases(t.Context())
	if diff := cmp.Diff(ls, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := s.SaveLeases(t.Context(), nil); err != nil {
		t.Errorf("none: %v", err)
	}
}

func TestDeletedLeasesAreGone(t *testing.T) {
	s := open(t, newPath(t))
	if err := s.SaveLeases(t.Context(), leasesOf(4)); err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]string{{"job-1", "job-3", "never"}, {"job-1"}, nil} {
		if err := s.DeleteLeases(t.Context(), keys); err != nil {
			t.Errorf("%q: %v", keys, err)
		}
	}
	ls, err := s.Leases(t.Context())
	if err != nil || len(ls) != 2 || ls[0].Key != "job-0" || ls[1].Key != "job-2" {
		t.Errorf("%+v, %v", ls, err)
	}
}

func TestLeasesGivenUpInTheMiddleAreAsTheyWere(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.SaveLeases(ctx, leasesOf(100_000)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if ls, err := s.Leases(t.Context()); err != nil || len(ls) != 0 {
		t.Errorf("%d leases, %v", len(ls), err)
	}
	usable(t, s)
}
