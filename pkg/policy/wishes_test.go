package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/policy"
)

// TestTimesInTags holds the tag that expires reads, of a sandbox created on
// the day of now at 10:59 UTC, against the deadline.
func TestTimesInTags(t *testing.T) {
	s := load(t, rules("match: {everything: true}, limits: {expires: {tag: until, max: 1d}}"))
	at := func(hour, minute, second, nano int) time.Time {
		return time.Date(2026, time.March, 14, hour, minute, second, nano, time.UTC)
	}
	clamped := at(10, 59, 0, 0).Add(day)
	for value, want := range map[string]time.Time{
		"2026-03-14T15:00:00Z":              at(15, 0, 0, 0),
		"2026-03-14t15:00:00z":              at(15, 0, 0, 0),
		"2026-03-14T15:00:00":               at(15, 0, 0, 0), // without a zone: UTC, wherever reaperd runs
		"2026-03-14T15:00:00+02:00":         at(13, 0, 0, 0),
		"2026-03-14T15:00:00-0500":          at(20, 0, 0, 0),
		"2026-03-14T15:00:00+05:45":         at(9, 15, 0, 0).Add(0), // before it was created
		"2026-03-14T23:30:00-00:00":         at(23, 30, 0, 0),
		"2026-03-14T15:00:00.5Z":            at(15, 0, 0, 5e8),
		"2026-03-14T15:00:00.123456789":     at(15, 0, 0, 123456789),
		"2026-03-14T10:59:00Z":              at(10, 59, 0, 0),
		"1773500400":                        at(15, 0, 0, 0),
		"2026-03-15T10:59:00Z":              clamped,
		"2027-01-01T00:00:00Z":              clamped,
		"9998-12-31T23:59:59Z":              clamped,
		"4102444800":                        clamped,
		"2026-03-14T10:58:59Z":              {}, // before it was created
		"2026-03-14T10:58:59.999999999Z":    {},
		"1773485939":                        {},
		"0":                                 {},
		"-1":                                {},
		"+1773500400":                       {},
		"1773500400000":                     {}, // milliseconds
		"99999999999999999999":              {},
		"0001-01-01T00:00:00Z":              {},
		"9999-12-31T23:59:59Z":              {},
		"2026-03-14":                        {},
		"2026-03-14 15:00:00Z":              {},
		"2026-03-14T15:00Z":                 {},
		"2026-03-14T5:00:00Z":               {},
		"2026-03-14T5:00:00.5Z":             {},
		"2026-03-14T15:0:00.25Z":            {},
		"2026-03-14T15:00:60Z":              {},
		"2026-03-14T15:00:00,5Z":            {},
		"2026-02-30T15:00:00Z":              {},
		"2026-03-14T15:00:00 Z":             {},
		"2026-03-14T15:00:00+2:00":          {},
		"2026-03-14T15:00:00+24:00":         {},
		"2026-03-14T15:00:00+02:60":         {},
		"2026-03-14T15:00:00+02:00Z":        {},
		"2026-03-14T15:00:00 UTC":           {},
		"2026-03-14T15:00:00+02:00[Berlin]": {},
		"14 Mar 2026 15:00 UTC":             {},
		"tomorrow":                          {},
		"1d":                                {},
		"":                                  {},
		" 2026-03-14T15:00:00Z":             {},
		"２０２６-03-14T15:00:00Z":              {},
	} {
		if value == "2026-03-14T15:00:00+05:45" {
			want = time.Time{}
		}
		f := running(func(f *policy.Facts) { f.Tags["until"] = value })
		d := s.Evaluate(f, now)
		if !d.Due.Equal(want) || (d.Malformed != nil) != want.IsZero() {
			t.Errorf("%q: %+v", value, d)
		}
		if want.IsZero() && (d.Verdict != policy.Keep || d.Reason != policy.WithinLimits || !cmp.Equal(d.Malformed, []string{"until"})) {
			t.Errorf("%q: %+v", value, d)
		}
		if !want.IsZero() && (d.Reason == policy.ExpiresTag) != !want.After(now) {
			t.Errorf("%q: %+v", value, d)
		}
	}
	if d := s.Evaluate(running(), now); d.Malformed != nil || !d.Due.IsZero() || d.Reason != policy.WithinLimits {
		t.Errorf("without the tag: %+v", d)
	}
}

// TestExpiryOfUnknownAge: of a sandbox whose creation cannot be told, a time
// before it was first seen may be as wrong as one before its creation.
func TestExpiryOfUnknownAge(t *testing.T) {
	s := load(t, rules("match: {everything: true}, limits: {expires: {tag: until, max: 1d}}"))
	unborn := func(until time.Time) *policy.Facts {
		return running(func(f *policy.Facts) { f.Created, f.Tags["until"] = time.Time{}, until.Format(time.RFC3339) })
	}
	for until, want := range map[time.Time]time.Time{
		ago(30 * time.Minute): ago(30 * time.Minute),
		ago(59 * time.Minute): ago(59 * time.Minute),
		ago(60 * time.Minute): {},
		ago(-300 * day):       ago(59*time.Minute - day),
	} {
		if d := s.Evaluate(unborn(until), now); !d.Due.Equal(want) || !d.UnknownAge || (d.Malformed != nil) != want.IsZero() {
			t.Errorf("%s: %+v", until, d)
		}
	}
}
