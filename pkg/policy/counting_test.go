package policy_test

import (
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// TestWhatEachLimitCountsFrom takes away, one after another, what a limit can
// count from.
func TestWhatEachLimitCountsFrom(t *testing.T) {
	exited := func(f *policy.Facts) { f.State = providers.StateExited }
	suspended := func(f *policy.Facts) { f.State = providers.StateSuspended }
	year9999 := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		limit  string
		change []func(*policy.Facts)
		due    time.Time // zero: none
		reason policy.Reason
		from   string
		unsure bool // unknown age is told
	}{
		"stopped, ended": {"max_stopped: 2h", with(exited, func(f *policy.Facts) {
			f.Ended, f.Pulse.StateSince = ago(30*time.Minute), ago(20*time.Minute)
		}), ago(-90 * time.Minute), policy.MaxStopped, "ended", false},
		"stopped, end not told": {"max_stopped: 2h", with(exited, func(f *policy.Facts) {
			f.Pulse.StateSince = ago(20 * time.Minute)
		}), ago(-100 * time.Minute), policy.MaxStopped, "in this state", false},
		"stopped, end in the future": {"max_stopped: 2h", with(exited, func(f *policy.Facts) {
			f.Ended, f.Pulse.StateSince = ago(-time.Minute), ago(20*time.Minute)
		}), ago(-100 * time.Minute), policy.MaxStopped, "in this state", true},
		"stopped, no end, no state": {"max_stopped: 2h", with(exited), ago(59*time.Minute - 2*time.Hour), policy.MaxStopped, "first seen", true},
		"stopped, nothing": {"max_stopped: 2h", with(exited, func(f *policy.Facts) {
			f.Pulse.FirstSeen = time.Time{}
		}), time.Time{}, policy.UnknownAge, "", true},

		"paused, told": {"max_paused: 2h", with(suspended, func(f *policy.Facts) {
			f.PausedSince, f.Pulse.StateSince = ago(30*time.Minute), ago(20*time.Minute)
		}), ago(-90 * time.Minute), policy.MaxPaused, "paused", false},
		"paused, not told": {"max_paused: 2h", with(suspended, func(f *policy.Facts) {
			f.Pulse.StateSince = ago(20 * time.Minute)
		}), ago(-100 * time.Minute), policy.MaxPaused, "in this state", false},
		"paused in year 9999": {"max_paused: 2h", with(suspended, func(f *policy.Facts) {
			f.PausedSince = year9999
		}), ago(59*time.Minute - 2*time.Hour), policy.MaxPaused, "first seen", true},

		"idle": {"max_idle: 2h", with(func(f *policy.Facts) {
			f.LastActive = ago(10 * time.Minute)
		}), ago(-110 * time.Minute), policy.MaxIdle, "last active", false},
		"idle since it was started": {"max_idle: 2h", with(func(f *policy.Facts) {
			f.LastActive = ago(90 * time.Minute)
		}), ago(-60 * time.Minute), policy.MaxIdle, "started", false},
		"idle, start not believed": {"max_idle: 2h", with(func(f *policy.Facts) {
			f.LastActive, f.Started = ago(90*time.Minute), year9999
		}), ago(-61 * time.Minute), policy.MaxIdle, "first seen", true},
		"idle since it came to this state": {"max_idle: 2h", with(func(f *policy.Facts) {
			f.LastActive, f.Started, f.Pulse.StateSince = ago(90*time.Minute), time.Time{}, ago(5*time.Minute)
		}), ago(-115 * time.Minute), policy.MaxIdle, "in this state", true},
		"idle, nobody can say":    {"max_idle: 1m", nil, time.Time{}, policy.WithinLimits, "", false},
		"idle, active tomorrow":   {"max_idle: 1m", with(func(f *policy.Facts) { f.LastActive = ago(-day) }), time.Time{}, policy.WithinLimits, "", true},
		"idle, active in year 1":  {"max_idle: 1m", with(func(f *policy.Facts) { f.LastActive = time.Unix(0, 0) }), time.Time{}, policy.WithinLimits, "", true},
		"idle and never seen yet": {"max_idle: 1m", with(func(f *policy.Facts) { f.Pulse = policy.Pulse{} }), time.Time{}, policy.WithinLimits, "", false},
	} {
		s := load(t, rules("match: {everything: true}, limits: {"+tc.limit+"}, action: {type: remove}"))
		f := running(tc.change...)
		d := s.Evaluate(f, now)
		if !d.Due.Equal(tc.due) || d.UnknownAge != tc.unsure {
			t.Errorf("%s: %+v", name, d)
		}
		if l := s.Explain(f, now).Policies[0].Limits[0]; l.From != tc.from || (l.Note == "") != (tc.from != "") {
			t.Errorf("%s: %+v", name, l)
		}
		if tc.due.IsZero() {
			if d.Reason != tc.reason || s.Evaluate(f, now.Add(300*day)).Verdict != policy.Keep && tc.unsure == false {
				t.Errorf("%s: %+v", name, d)
			}
			continue
		}
		if d.Limit != tc.reason || !d.Next.Equal(d.Due) && !tc.unsure {
			t.Errorf("%s: %+v", name, d)
		}
		if f.Ended.After(now) {
			continue // believed once it has come
		}
		if d = s.Evaluate(f, tc.due); d.Verdict != policy.Reclaim || d.Reason != tc.reason {
			t.Errorf("%s, when due: %+v", name, d)
		}
		if d = s.Evaluate(f, tc.due.Add(-1)); d.Verdict != policy.Keep {
			t.Errorf("%s, before: %+v", name, d)
		}
	}
}

func with(changes ...func(*policy.Facts)) []func(*policy.Facts) { return changes }
