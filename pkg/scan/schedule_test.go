package scan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/scan"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func schedule(t testing.TB, text string) scan.Schedule {
	t.Helper()
	s, err := scan.ParseSchedule(text, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestScheduleRefusesWhatNobodyCanMean(t *testing.T) {
	for text, says := range map[string]string{
		"":                          "empty",
		"   ":                       "five fields",
		"TZ=":                       "the key timezone",
		"TZ=Europe/Berlin":          "the key timezone",
		"TZ=Asia/Tokyo 0 * * * *":   "the key timezone",
		"CRON_TZ=UTC 0 * * * *":     "the key timezone",
		"0 0 30 2 *":                "never fires",
		"0 0 31 4,6 *":              "never fires",
		"0 0 * * 7":                 "five fields",
		"0 * * * * *":               "five fields",
		"* * * *":                   "five fields",
		"60 * * * *":                "five fields",
		"*/0 * * * *":               "five fields",
		"5-1 * * * *":               "five fields",
		"-1 * * * *":                "five fields",
		"99999999999999999 * * * *": "five fields",
		"every minute":              "five fields",
		"@reboot":                   "five fields",
		"@fortnightly":              "five fields",
		"@every":                    "duration is missing",
		"@every 0s":                 "more than zero",
		"@every 400":                "no unit",
		"@every -5m":                "negative",
		"@every 1500ms":             "whole seconds",
		"@every 999ms":              "whole seconds",
		"@every 1h30":               "not a duration",
		"@every 1.5h":               "not a duration",
		"@everything 5m":            "not a duration",
	} {
		s, err := scan.ParseSchedule(text, time.UTC)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q gave %v, %v; want an error that says %q", text, s, err, says)
			continue
		}
		if !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%q: the error does not name it: %v", text, err)
		}
	}
}

func TestScheduleTicks(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tc := range []struct{ text, after, want string }{
		{"@every 30s", "2026-03-14T12:00:00Z", "2026-03-14T12:00:30Z"},
		{"@every 1d", "2026-03-14T12:00:07Z", "2026-03-15T12:00:07Z"},
		{"@every 1d12h", "2026-03-14T12:00:07Z", "2026-03-16T00:00:07Z"},
		{"@every 2w", "2026-03-14T12:00:07Z", "2026-03-28T12:00:07Z"},
		{"@hourly", "2026-03-14T12:00:00Z", "2026-03-14T13:00:00Z"},
		{"*/7 * * * *", "2026-03-14T12:56:00Z", "2026-03-14T13:00:00Z"},
		{"5/15 * * * *", "2026-03-14T12:05:00Z", "2026-03-14T12:20:00Z"},
		{"*/90 * * * *", "2026-03-14T12:00:00Z", "2026-03-14T13:00:00Z"},
		{"0 0 1 * 1", "2026-03-14T12:00:00Z", "2026-03-16T00:00:00Z"}, // either of the days
		{"0 0 29 2 *", "2026-03-14T12:00:00Z", "2028-02-29T00:00:00Z"},
		{"30 2 * * *", "2026-03-14T02:30:00Z", "2026-03-15T02:30:00Z"},
		{"30 2 * * *", "2026-03-14T02:29:59Z", "2026-03-14T02:30:00Z"},
	} {
		if got := schedule(t, tc.text).Next(at(tc.after)); !got.Equal(at(tc.want)) {
			t.Errorf("%s after %s: %v, want %s", tc.text, tc.after, got, tc.want)
		}
	}
}

func TestScheduleTakesTheConfiguredZoneNotTheMachines(t *testing.T) {
	machine := time.Local
	time.Local = zone(t, "Asia/Tokyo")
	t.Cleanup(func() { time.Local = machine })
	from := time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{"30 2 * * *", "@daily"} {
		inUTC, err := scan.ParseSchedule(text, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		inBerlin, err := scan.ParseSchedule(text, zone(t, "Europe/Berlin"))
		if err != nil {
			t.Fatal(err)
		}
		a, b := inUTC.Next(from.In(time.Local)), inBerlin.Next(from.In(time.Local))
		if h := a.UTC().Hour(); h != 2 && h != 0 {
			t.Errorf("%s in UTC ticks at %v", text, a.UTC())
		}
		if b.Minute() != a.Minute() || a.UTC().Hour() != b.In(zone(t, "Europe/Berlin")).Hour() {
			t.Errorf("%s: %v in UTC, %v in Berlin", text, a, b)
		}
	}
}

// A tick at an hour that the change of clocks leaves out or repeats comes once
// on that day.
func TestScheduleWhereClocksChange(t *testing.T) {
	for _, tc := range []struct {
		zone, text string
		from       time.Time // midnight UTC before
		want       []string  // in UTC
	}{
		{"Europe/Berlin", "30 2 * * *", time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), []string{"03-29 01:30", "03-30 00:30", "03-31 00:30"}},
		{"Europe/Berlin", "30 2 * * *", time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC), []string{"10-25 01:30", "10-26 01:30", "10-27 01:30"}},
		{"Europe/Berlin", "30 2 * * 0", time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), []string{"03-29 01:30", "04-05 00:30"}},
		{"Europe/Berlin", "0 0 * * *", time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), []string{"03-28 23:00", "03-29 22:00"}},
		{"Europe/Berlin", "30 2,3 * * *", time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), []string{"03-29 01:30", "03-30 00:30", "03-30 01:30"}},
		{"America/Sao_Paulo", "0 0 * * *", time.Date(2018, 11, 3, 12, 0, 0, 0, time.UTC), []string{"11-04 03:00", "11-05 02:00"}},
		{"America/Sao_Paulo", "0 0 * * *", time.Date(2018, 2, 16, 12, 0, 0, 0, time.UTC), []string{"02-17 02:00", "02-18 03:00", "02-19 03:00"}},
		// What runs every hour runs through the change as time passes.
		{"Asia/Kolkata", "0 * * * *", time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), []string{"03-29 00:30", "03-29 01:30"}},
		{"Europe/Berlin", "30 * * * *", time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), []string{"03-29 00:30", "03-29 01:30", "03-29 02:30"}},
		{"Europe/Berlin", "30 * * * *", time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC), []string{"10-25 00:30", "10-25 01:30", "10-25 02:30"}},
	} {
		s, err := scan.ParseSchedule(tc.text, zone(t, tc.zone))
		if err != nil {
			t.Fatal(err)
		}
		at := tc.from
		for i, want := range tc.want {
			at = s.Next(at)
			if got := at.UTC().Format("01-02 15:04"); got != want {
				t.Errorf("%s in %s, tick %d: %s UTC, want %s", tc.text, tc.zone, i, got, want)
			}
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, seed := range []string{"@every 30s", "0 0 * * 7", "TZ=", " TZ=x", "*/7 1-5,9 ? jan-DEC sun", "@", "@every @every", "30 2 29 2 *"} {
		f.Add(seed)
	}
	berlin := zone(f, "Europe/Berlin")
	from := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scan.ParseSchedule(text, berlin)
		if err != nil {
			return
		}
		for at, i := from, 0; i < 10; i++ {
			next := s.Next(at)
			if !next.After(at) {
				t.Fatalf("%q after %v: %v", text, at, next)
			}
			at = next
		}
	})
}

func TestWhatAScheduleMayNotMean(t *testing.T) {
	for text, want := range map[string]string{
		"*/7 * * * *":      `steps of 7 minutes begin anew with each hour`,
		"0 */5 * * *":      `steps of 5 hours begin anew with each day`,
		"0 0 */2 * *":      `steps of 2 days begin anew with each month`,
		"0 0 1 * 1":        `fires on either`,
		"*/15 * * * *":     "",
		"*/60 * * * *":     "",
		"0 */6 * * *":      "",
		"*/1 * * * *":      "",
		"5/15 * * * *":     "",
		"0 0 * * 1":        "",
		"0 0 1 * ?":        "",
		"@every 7m":        "",
		"@hourly":          "",
		"30 2 * * MON-FRI": "",
	} {
		got := strings.Join(schedule(t, text).Warnings(), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
