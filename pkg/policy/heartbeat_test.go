package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

const minute = time.Minute

// TestHeartbeats judges a sandbox that was started an hour ago and seen a
// minute later, by a reaperd that has listened for 50 minutes.
func TestHeartbeats(t *testing.T) {
	lease := func(ends time.Time) policy.Lease { return policy.Lease{Key: "k", Ends: ends} }
	released := func(at time.Time) policy.Lease { return policy.Lease{Key: "k", Ends: ago(-day), Released: at} }
	for name, tc := range map[string]struct {
		change   func(*policy.Facts)
		required bool
		due      time.Time // zero: none
		reason   policy.Reason
		from     string // or the note
	}{
		"beats":                  {func(f *policy.Facts) { f.Pulse.LastBeat = ago(minute) }, false, ago(-4 * minute), policy.HeartbeatLost, "last beat"},
		"stopped beating":        {func(f *policy.Facts) { f.Pulse.LastBeat = ago(30 * minute) }, false, ago(25 * minute), policy.HeartbeatLost, "last beat"},
		"stopped, required":      {func(f *policy.Facts) { f.Pulse.LastBeat = ago(30 * minute) }, true, ago(25 * minute), policy.HeartbeatLost, "last beat"},
		"beat before a restart":  {func(f *policy.Facts) { f.Pulse.LastBeat, f.Started = ago(30*minute), ago(2*minute) }, false, ago(-3 * minute), policy.HeartbeatLost, "started"},
		"beat before we slept":   {func(f *policy.Facts) { f.Pulse.LastBeat, f.Pulse.BlindUntil = ago(30*minute), now }, false, ago(-5 * minute), policy.HeartbeatLost, "end of blindness"},
		"beat before it is seen": {func(f *policy.Facts) { f.Pulse.LastBeat, f.Pulse.FirstSeen = ago(30*minute), ago(minute) }, false, ago(-4 * minute), policy.HeartbeatLost, "first seen"},
		"start cannot be said":   {func(f *policy.Facts) { f.Pulse.LastBeat, f.Started = ago(30*minute), time.Time{} }, false, ago(25 * minute), policy.HeartbeatLost, "last beat"},
		"start in the future":    {func(f *policy.Facts) { f.Pulse.LastBeat, f.Started = ago(30*minute), ago(-day) }, false, ago(25 * minute), policy.HeartbeatLost, "last beat"},

		"never beat":             {func(*policy.Facts) {}, false, time.Time{}, "", "it never sent a heartbeat, names no lease, and none is required"},
		"never beat, required":   {func(*policy.Facts) {}, true, ago(45 * minute), policy.HeartbeatNever, "end of blindness"},
		"new, required":          {func(f *policy.Facts) { f.Started, f.Pulse.FirstSeen = ago(minute), ago(2*minute) }, true, ago(-4 * minute), policy.HeartbeatNever, "started"},
		"new to us, required":    {func(f *policy.Facts) { f.Pulse.FirstSeen = ago(minute) }, true, ago(-4 * minute), policy.HeartbeatNever, "first seen"},
		"never seen, required":   {func(f *policy.Facts) { f.Started, f.Pulse.FirstSeen = time.Time{}, time.Time{} }, true, ago(45 * minute), policy.HeartbeatNever, "end of blindness"},
		"no tags":                {func(f *policy.Facts) { f.Tags = nil }, false, time.Time{}, "", "the tags cannot be said"},
		"no tags, required":      {func(f *policy.Facts) { f.Tags = nil }, true, ago(45 * minute), policy.HeartbeatNever, "end of blindness"},
		"no tags, beat":          {func(f *policy.Facts) { f.Tags, f.Pulse.LastBeat = nil, ago(30*minute) }, false, ago(25 * minute), policy.HeartbeatLost, "last beat"},
		"names a lease":          {func(f *policy.Facts) { f.Tags["reaperd.lease"] = "job-4711" }, false, ago(45 * minute), policy.HeartbeatNever, "end of blindness"},
		"names no lease":         {func(f *policy.Facts) { f.Tags["reaperd.lease"] = "" }, false, time.Time{}, "", "the tag cannot be understood"},
		"names no possible one":  {func(f *policy.Facts) { f.Tags["reaperd.lease"] = "a/b" }, false, time.Time{}, "", "the tag cannot be understood"},
		"names too long a one":   {func(f *policy.Facts) { f.Tags["reaperd.lease"] = strings.Repeat("a", 65) }, false, time.Time{}, "", "the tag cannot be understood"},
		"names a lease of 64":    {func(f *policy.Facts) { f.Tags["reaperd.lease"] = strings.Repeat("a", 64) }, false, ago(45 * minute), policy.HeartbeatNever, "end of blindness"},
		"malformed and required": {func(f *policy.Facts) { f.Tags["reaperd.lease"] = "a b" }, true, ago(45 * minute), policy.HeartbeatNever, "end of blindness"},

		"a live lease":  {func(f *policy.Facts) { f.Pulse.Leases = []policy.Lease{lease(ago(-minute))} }, false, ago(-minute), policy.LeaseExpired, "lease end"},
		"a lease ended": {func(f *policy.Facts) { f.Pulse.Leases = []policy.Lease{lease(ago(minute))} }, false, ago(minute), policy.LeaseExpired, "lease end"},
		"several, one lives": {func(f *policy.Facts) {
			f.Pulse.Leases = []policy.Lease{lease(ago(minute)), lease(ago(-9 * minute)), lease(ago(day))}
		}, false, ago(-9 * minute), policy.LeaseExpired, "lease end"},
		"a lease ended, beats": {func(f *policy.Facts) {
			f.Pulse.Leases, f.Pulse.LastBeat = []policy.Lease{lease(ago(10 * minute))}, ago(minute)
		}, false, ago(-4 * minute), policy.HeartbeatLost, "last beat"},
		"a lease lives, silent": {func(f *policy.Facts) {
			f.Pulse.Leases, f.Pulse.LastBeat = []policy.Lease{lease(ago(-minute))}, ago(30*minute)
		}, false, ago(-minute), policy.LeaseExpired, "lease end"},
		"seen after its lease": {func(f *policy.Facts) {
			f.Pulse.Leases, f.Pulse.FirstSeen = []policy.Lease{lease(ago(10 * minute))}, ago(2*minute)
		}, false, ago(-3 * minute), policy.LeaseExpired, "first seen"},
		"a lease without an end":  {func(f *policy.Facts) { f.Pulse.Leases = []policy.Lease{lease(ago(minute)), lease(time.Time{})} }, true, time.Time{}, "", "a lease has no end that could be told"},
		"without end, one let go": {func(f *policy.Facts) { f.Pulse.Leases = []policy.Lease{released(ago(minute)), lease(time.Time{})} }, true, time.Time{}, "", "a lease has no end that could be told"},

		"released":          {func(f *policy.Facts) { f.Pulse.Leases = []policy.Lease{released(ago(minute))} }, false, ago(minute), policy.LeaseReleased, "release"},
		"released just now": {func(f *policy.Facts) { f.Pulse.Leases = []policy.Lease{released(now)} }, false, now, policy.LeaseReleased, "release"},
		"all released": {func(f *policy.Facts) {
			f.Pulse.Leases = []policy.Lease{released(ago(minute)), released(ago(9 * minute))}
		}, false, ago(minute), policy.LeaseReleased, "release"},
		"one of two released": {func(f *policy.Facts) { f.Pulse.Leases = []policy.Lease{released(ago(minute)), lease(ago(-9 * minute))} }, false, ago(-9 * minute), policy.LeaseExpired, "lease end"},
		"released, one ended": {func(f *policy.Facts) { f.Pulse.Leases = []policy.Lease{released(ago(minute)), lease(ago(20 * minute))} }, false, ago(20 * minute), policy.LeaseExpired, "lease end"},
		"released, beats itself": {func(f *policy.Facts) {
			f.Pulse.Leases, f.Pulse.LastBeat = []policy.Lease{released(ago(minute))}, ago(2*minute)
		}, false, ago(-3 * minute), policy.LeaseReleased, "last beat"},
		"released soon after the start": {func(f *policy.Facts) {
			f.Pulse.Leases, f.Started, f.Pulse.FirstSeen = []policy.Lease{released(ago(minute))}, ago(3*minute), ago(2*minute)
		}, false, ago(minute), policy.LeaseReleased, "release"},
		"released, start in the future": {func(f *policy.Facts) {
			f.Pulse.Leases, f.Started = []policy.Lease{released(ago(minute))}, ago(-day)
		}, false, ago(minute), policy.LeaseReleased, "release"},
		"released, then started": {func(f *policy.Facts) {
			f.Pulse.Leases, f.Started = []policy.Lease{released(ago(10 * minute))}, ago(minute)
		}, false, ago(-4 * minute), policy.LeaseReleased, "started"},
		"released, then seen": {func(f *policy.Facts) {
			f.Pulse.Leases, f.Pulse.FirstSeen = []policy.Lease{released(ago(10 * minute))}, ago(minute)
		}, false, ago(-4 * minute), policy.LeaseReleased, "first seen"},
		"released, beats itself, then we slept": {func(f *policy.Facts) {
			f.Pulse.Leases, f.Pulse.LastBeat, f.Pulse.BlindUntil = []policy.Lease{released(ago(30 * minute))}, ago(20*minute), now
		}, false, ago(-5 * minute), policy.LeaseReleased, "end of blindness"},
		"released and seen, by a clock that was set back": {func(f *policy.Facts) {
			f.Pulse.Leases, f.Pulse.FirstSeen = []policy.Lease{released(ago(minute))}, ago(minute)
		}, false, ago(-4 * minute), policy.LeaseReleased, "first seen"},
		"released, then we slept": {func(f *policy.Facts) { f.Pulse.Leases, f.Pulse.BlindUntil = []policy.Lease{released(ago(minute))}, now }, false, ago(minute), policy.LeaseReleased, "release"},

		"nobody listens": {func(f *policy.Facts) { f.Pulse.BlindUntil, f.Pulse.LastBeat = time.Time{}, ago(30*minute) }, true, time.Time{}, "", "heartbeats cannot be heard here"},
		"nobody listens, released": {func(f *policy.Facts) {
			f.Pulse.BlindUntil, f.Pulse.Leases = time.Time{}, []policy.Lease{released(ago(minute))}
		}, true, time.Time{}, "", "heartbeats cannot be heard here"},
	} {
		text := "match: {everything: true}, limits: {heartbeat: {timeout: 5m}}"
		if tc.required {
			text = "match: {everything: true}, limits: {heartbeat: {timeout: 5m, required: true}}"
		}
		s := load(t, rules(text))
		f := running(func(f *policy.Facts) { f.Pulse.BlindUntil = ago(50 * minute) }, tc.change)
		d := s.Evaluate(f, now)
		l := s.Explain(f, now).Policies[0].Limits[0]
		told := l.From
		if tc.due.IsZero() {
			told = l.Note
		}
		if !d.Due.Equal(tc.due) || told != tc.from {
			t.Errorf("%s: %+v, %+v", name, d, l)
		}
		if (d.Malformed != nil) != (l.Note == "the tag cannot be understood") {
			t.Errorf("%s: malformed %q", name, d.Malformed)
		}
		if tc.due.IsZero() {
			if d = s.Evaluate(f, now.Add(300*day)); d.Verdict != policy.Keep || d.Reason != policy.WithinLimits {
				t.Errorf("%s, much later: %+v", name, d)
			}
			continue
		}
		if got := s.Evaluate(f, later(tc.due, now)); got.Verdict != policy.Reclaim || got.Reason != tc.reason || !got.Due.Equal(tc.due) {
			t.Errorf("%s, when due: %+v", name, got)
		}
		if tc.due.After(now) && (d.Verdict != policy.Keep || d.Limit != tc.reason) {
			t.Errorf("%s, before: %+v", name, d)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// TestAReleaseIsJudgedWhereverSomethingIsLeft: silence says nothing of what
// does not run, but what was let go is not wanted in any state.
func TestAReleaseIsJudgedWhereverSomethingIsLeft(t *testing.T) {
	s := load(t, rules("match: {everything: true}, limits: {heartbeat: {timeout: 5m, required: true}}, action: {type: remove}"))
	for _, state := range providers.States() {
		kept := state == providers.StateChanging || state == providers.StateUnknown || state == providers.StateSuspended
		for what, change := range map[string]func(*policy.Facts){
			"released": func(f *policy.Facts) { f.Pulse.Leases = []policy.Lease{{Key: "k", Released: ago(minute)}} },
			"ended":    func(f *policy.Facts) { f.Pulse.Leases = []policy.Lease{{Key: "k", Ends: ago(minute)}} },
			"silent":   func(f *policy.Facts) { f.Pulse.LastBeat = ago(40 * minute) },
			"mute":     func(*policy.Facts) {},
		} {
			want := state == providers.StateRunning || what == "released" && !kept
			f := running(func(f *policy.Facts) { f.State, f.Pulse.BlindUntil = state, ago(50*minute) }, change)
			if d := s.Evaluate(f, now); (d.Verdict == policy.Reclaim) != want {
				t.Errorf("%s in %s: %+v", what, state, d)
			}
		}
	}
}

func TestBeatingDoesNotLengthenALife(t *testing.T) {
	s := load(t, rules("match: {everything: true}, limits: {max_uptime: 1h, heartbeat: {timeout: 5m}}"))
	f := running(func(f *policy.Facts) {
		f.Pulse.BlindUntil, f.Pulse.LastBeat, f.Pulse.Leases = ago(50*minute), now, []policy.Lease{{Key: "k", Ends: ago(-day)}}
	})
	if d := s.Evaluate(f, now); d.Verdict != policy.Reclaim || d.Reason != policy.MaxUptime {
		t.Errorf("%+v", d)
	}
}

func TestAHeartbeatCanGiveFourReasons(t *testing.T) {
	s := load(t, rules("match: {everything: true}, limits: {heartbeat: {timeout: 5m}}"))
	want := []policy.Reason{policy.HeartbeatLost, policy.HeartbeatNever, policy.LeaseExpired, policy.LeaseReleased}
	if diff := cmp.Diff(want, s.Policies()[0].Reasons); diff != "" {
		t.Error(diff)
	}
}
