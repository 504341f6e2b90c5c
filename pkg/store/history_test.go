package store

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAnIntentIsThereUntilItIsResolved(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	ctx := t.Context()
	first, second, untold := intent("a"), intent("b"), intent("c")
	second.Tags = map[string]string{}
	untold.Tags = nil
	for _, e := range []*Entry{&first, &second, &untold} {
		e.ID = begin(t, s, *e)
	}
	elsewhere := intent("d")
	elsewhere.Provider = "e2b"
	elsewhere.ID = begin(t, s, elsewhere)
	shut(t, s)

	s = open(t, path)
	left, err := s.Unresolved(ctx, "dev")
	if diff := cmp.Diff([]Entry{first, second, untold}, left); diff != "" || err != nil {
		t.Fatalf("%v\n%s", err, diff)
	}
	ended := noon.Add(3 * time.Second)
	if err := s.End(ctx, second.ID, ended, "failed", "engine: no", 14400.5, 0.08); err != nil {
		t.Fatal(err)
	}
	second.Ended, second.Outcome, second.Error, second.UptimeSeconds, second.CostDollars = ended, "failed", "engine: no", 14400.5, 0.08
	left, err = s.Unresolved(ctx, "dev")
	if diff := cmp.Diff([]Entry{first, untold}, left); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if diff := cmp.Diff([]Entry{elsewhere, untold, second, first}, history(t, s, Filter{})); diff != "" {
		t.Error(diff)
	}
}

func TestAnEntryEndsOnce(t *testing.T) {
	s := open(t, newPath(t))
	ctx := t.Context()
	id := begin(t, s, intent("a"))
	for range 2 { // as after a call that was given up
		if err := s.End(ctx, id, noon, "reclaimed", "", 1, 2); err != nil {
			t.Fatal(err)
		}
	}
	for name, err := range map[string]error{
		"it had ended before, reclaimed at 2026-03-14T12:00:00Z": s.End(ctx, id, noon, "gone", "", 0, 0),
		"it had ended before, reclaimed at 2026-03-14T12:00":     s.End(ctx, id, noon.Add(1), "reclaimed", "", 0, 0),
		"there is no such entry":                                 s.End(ctx, id+1, noon, "gone", "", 0, 0),
		"an end has to say when it was":                          s.End(ctx, id, time.Time{}, "gone", "", 0, 0),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
	if _, err := s.Begin(ctx, Entry{Provider: "dev"}); err == nil || !strings.Contains(err.Error(), "when it was begun") {
		t.Errorf("begun never: %v", err)
	}
	if e := history(t, s, Filter{})[0]; e.Outcome != "reclaimed" || e.UptimeSeconds != 1 || e.CostDollars != 2 {
		t.Errorf("%+v", e)
	}
}

func TestAnEntryMayBeWrittenWhole(t *testing.T) {
	s := open(t, newPath(t))
	e := intent("a")
	e.Ended, e.Outcome, e.Error, e.UptimeSeconds, e.CostDollars = noon, "dry_run", "none", math.NaN(), math.Inf(1)
	e.ID = begin(t, s, e)
	e.UptimeSeconds, e.CostDollars = 0, 0
	if diff := cmp.Diff([]Entry{e}, history(t, s, Filter{})); diff != "" {
		t.Error(diff)
	}
	if left, err := s.Unresolved(t.Context(), "dev"); err != nil || len(left) != 0 {
		t.Errorf("unresolved: %v, %v", left, err)
	}
}

func TestHistoryIsFiltered(t *testing.T) {
	s := open(t, newPath(t))
	const long = "5afaa3bfa704c0ffee5afaa3bfa704c0ffee5afaa3bfa704c0ffee5afaa3bfa7"
	var ids []int64
	add := func(minute int, change func(*Entry)) {
		e := intent(fmt.Sprintf("id%d", minute))
		e.Begun = noon.Add(time.Duration(minute) * time.Minute)
		e.Ended, e.Outcome = e.Begun, "reclaimed"
		change(&e)
		ids = append(ids, begin(t, s, e))
	}
	add(0, func(*Entry) {})
	add(1, func(e *Entry) { e.Provider = "e2b" })
	add(2, func(e *Entry) { e.Outcome = "stuck" })
	add(3, func(e *Entry) { e.Policy = "other" })
	add(4, func(e *Entry) { e.SandboxID, e.InstanceID, e.Name = long, "docker_5afaa3bfa704", "thorough_box" })
	add(5, func(e *Entry) { e.SandboxID, e.Name = "5afaa3bfa704ffff", "docker_5afaa3bfa704" })
	add(6, func(e *Entry) { e.Name = "%'; DROP TABLE history; --" })

	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	for name, tc := range map[string]struct {
		f    Filter
		want []int
	}{
		"nothing":                {Filter{}, []int{6, 5, 4, 3, 2, 1, 0}},
		"provider":               {Filter{Provider: "e2b"}, []int{1}},
		"outcome":                {Filter{Outcome: "stuck"}, []int{2}},
		"policy":                 {Filter{Policy: "other"}, []int{3}},
		"id":                     {Filter{Sandbox: "id2"}, []int{2}},
		"whole id":               {Filter{Sandbox: long}, []int{4}},
		"12 of an id":            {Filter{Sandbox: "5afaa3bfa704"}, []int{5, 4}},
		"16 of an id":            {Filter{Sandbox: "5afaa3bfa704c0ff"}, []int{4}},
		"11 of an id":            {Filter{Sandbox: "5afaa3bfa70"}, nil},
		"instance id, and name":  {Filter{Sandbox: "docker_5afaa3bfa704"}, []int{5, 4}},
		"name":                   {Filter{Sandbox: "thorough_box"}, []int{4}},
		"beginning of a name":    {Filter{Sandbox: "thorough_bo"}, nil},
		"pattern":                {Filter{Sandbox: "%"}, nil},
		"SQL":                    {Filter{Sandbox: "%'; DROP TABLE history; --"}, []int{6}},
		"since":                  {Filter{Since: at(5)}, []int{6, 5}},
		"until":                  {Filter{Until: at(2)}, []int{1, 0}},
		"limit":                  {Filter{Limit: 2}, []int{6, 5}},
		"next page":              {Filter{Before: ids[5], Limit: 2}, []int{4, 3}},
		"several":                {Filter{Provider: "dev", Outcome: "reclaimed", Since: at(1), Until: at(6), Sandbox: "5afaa3bfa704", Before: ids[5]}, []int{4}},
		"several, none has them": {Filter{Provider: "e2b", Outcome: "stuck"}, nil},
	} {
		var got []int
		for _, e := range history(t, s, tc.f) {
			got = append(got, int(e.ID-ids[0]))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestPruneKeepsWhatIsNotResolved(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	for i := range prunedAtOnce + 20 {
		e := intent("old")
		e.Begun, e.Ended = noon.Add(-time.Duration(i+1)*time.Second), noon
		begin(t, s, e)
	}
	open1 := intent("open")
	open1.Begun = noon.Add(-time.Hour)
	begin(t, s, open1)
	young := intent("young")
	young.Ended = noon
	last := begin(t, s, young)
	if n, err := s.PruneHistory(t.Context(), noon); n != prunedAtOnce+20 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	left := history(t, s, Filter{})
	if len(left) != 2 || left[0].SandboxID != "young" || left[1].SandboxID != "open" {
		t.Errorf("left: %+v", left)
	}
	if n, err := s.PruneHistory(t.Context(), noon.Add(time.Hour)); n != 1 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	if id := begin(t, s, intent("next")); id <= last {
		t.Errorf("id %d was given before (%d)", id, last)
	}
}

// A call that was given up may have been carried out. Made again, also with how
// it ended, it makes no second entry, and changes none that ended.
func TestWhatMayBeWrittenIsNotWrittenTwice(t *testing.T) {
	s := open(t, newPath(t))
	e := intent("a")
	id := begin(t, s, e)
	if again := begin(t, s, e); again != id {
		t.Errorf("entry %d, and again %d", id, again)
	}
	e.Ended, e.Outcome, e.UptimeSeconds = noon.Add(time.Minute), "reclaimed", 60
	if again := begin(t, s, e); again != id {
		t.Errorf("entry %d, and whole %d", id, again)
	}
	e.Outcome, e.Ended = "failed", noon.Add(time.Hour)
	begin(t, s, e)
	if all := history(t, s, Filter{}); len(all) != 1 || all[0].Outcome != "reclaimed" || !all[0].Ended.Equal(noon.Add(time.Minute)) || all[0].UptimeSeconds != 60 {
		t.Errorf("history %+v", all)
	}
	if open, err := s.Unresolved(t.Context(), "dev"); err != nil || len(open) > 0 {
		t.Errorf("open: %+v, %v", open, err)
	}
	e.Begun = noon.Add(time.Nanosecond)
	if other := begin(t, s, e); other == id {
		t.Error("another try is the same entry")
	}
}
