package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// TestLimitsAreJudgedInTheirStates pins, for every limit and state, whether a
// sandbox that has long overstepped the limit is reclaimed, by each action.
func TestLimitsAreJudgedInTheirStates(t *testing.T) {
	const (
		both   = "stop remove"
		remove = "remove"
		none   = ""
	)
	type perState map[providers.State]string
	only := func(action string, states ...providers.State) perState {
		p := perState{}
		for _, s := range states {
			p[s] = action
		}
		return p
	}
	uptime := perState{providers.StateStarting: both, providers.StateRunning: both, providers.StatePaused: both}
	age := perState{
		providers.StateStarting: both, providers.StateRunning: both, providers.StatePaused: both,
		// To stop what does not run changes nothing.
		providers.StateCreated: remove, providers.StateExited: remove, providers.StateDead: remove,
	}
	for limit, want := range map[string]perState{
		"limits: {max_uptime: 1m}":                         uptime,
		"limits: {max_age: 1m}":                            age,
		"limits: {ttl: {tag: life, max: 1d}}":              age,
		"tag_rules: {require: [owner], grace: 1m}":         age,
		"tag_rules: {allow: {env: prod}, grace: 1m}":       age,
		"tag_rules: {forbid: [env], grace: 1m}":            age,
		"limits: {max_idle: 1m}":                           only(both, providers.StateRunning),
		"limits: {max_stopped: 1m}":                        only(remove, providers.StateExited, providers.StateDead),
		"limits: {max_paused: 1m}":                         only(both, providers.StatePaused, providers.StateSuspended),
		"limits: {expires: {tag: until, max: 1d}}":         age,
		"limits: {heartbeat: {timeout: 1m}}":               only(both, providers.StateRunning),
		"limits: {max_uptime: 1m, max_age: 2m}":            age,
		"limits: {max_age: 1d, max_uptime: 23h}":           {},
		"limits: {ttl: {tag: no, max: 1m}}":                {},
		"tag_rules: {require: [env, empty, life]}":         {},
		"tag_rules: {require: [env, owner], grace: 1d}":    {},
		"tag_rules: {require: [env, owner], grace: 59m}":   age,
		"limits: {ttl: {tag: long, max: 1m}}":              age,
		"limits: {ttl: {tag: long, max: 3h}}":              {},
		"limits: {max_age: 1w, ttl: {tag: life, max: 1y}}": age,
	} {
		for _, state := range append(providers.States(), "", "hibernating") {
			for _, action := range []string{"stop", "remove"} {
				f := running(func(f *policy.Facts) {
					f.State, f.Tags["life"], f.Tags["long"], f.Tags["until"] = state, "1m", "2h", "2026-03-14T11:30:00Z"
					f.LastActive, f.Ended, f.PausedSince = ago(time.Hour), ago(time.Hour), ago(time.Hour)
					f.Pulse.LastBeat, f.Pulse.BlindUntil = ago(50*time.Minute), ago(55*time.Minute)
				})
				if strings.Contains(limit, "max_stopped") && action == "stop" {
					continue // refused: it could never act
				}
				d := load(t, rules("match: {everything: true}, "+limit+", action: {type: "+action+"}")).Evaluate(f, now)
				expect := policy.Keep
				if w := want[state]; w == both || w == action {
					expect = policy.Reclaim
				}
				if d.Verdict != expect {
					t.Errorf("%s in %q by %s: %+v", limit, state, action, d)
				}
				if expect == policy.Keep && want[state] == none && state != providers.StateUnknown && state != providers.StateChanging &&
					state.Valid() && d.Reason != policy.WithinLimits {
					t.Errorf("%s in %q by %s: reason %s", limit, state, action, d.Reason)
				}
			}
		}
	}
}

func TestUptimeCountsFromTheStartAndAgeFromCreation(t *testing.T) {
	restarted := running(func(f *policy.Facts) {
		f.Created, f.Started, f.Pulse.FirstSeen = ago(10*day), ago(10*time.Minute), ago(9*day)
	})
	for body, due := range map[string]time.Time{
		"limits: {max_uptime: 30m}":                     ago(-20 * time.Minute),
		"limits: {max_age: 30m}":                        ago(10*day - 30*time.Minute),
		"limits: {max_age: 11d, max_uptime: 30m}":       ago(-20 * time.Minute),
		"tag_rules: {require: [owner]}":                 ago(10*day - 10*time.Minute),
		"tag_rules: {require: [owner], grace: 0s}":      ago(10 * day),
		"limits: {max_age: 250y}":                       ago(10*day - 250*365*day),
		"limits: {max_age: 292y, max_uptime: 291y364d}": ago(10*day - 292*365*day),
	} {
		if d := load(t, rules("match: {everything: true}, "+body)).Evaluate(restarted, now); !d.Due.Equal(due) {
			t.Errorf("%s: due %v, want %v", body, d.Due, due)
		}
	}
}

// TestTimesThatCannotBe shows every limit a time that a provider could send
// and that cannot be right: the limit counts from first seen instead, so that
// the sandbox is neither reclaimed at once nor kept for ever.
func TestTimesThatCannotBe(t *testing.T) {
	wrong := map[string]time.Time{
		"missing":               {},
		"year 1":                time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
		"year 1 elsewhere":      time.Date(1, 1, 1, 0, 0, 0, 0, time.FixedZone("", 9*3600)),
		"unix zero":             time.Unix(0, 0),
		"unix minus one":        time.Unix(-1, 0),
		"seconds read as milli": time.UnixMilli(now.Unix()),
		"milli read as seconds": time.Unix(now.UnixMilli(), 0),
		"year 1999":             time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC),
		"year 9999":             time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		"year 9999, western":    time.Date(9999, 1, 1, 0, 0, 0, 0, time.FixedZone("", -9*3600)),
		"half a day ahead":      ago(-12 * time.Hour),
		"a year ahead":          ago(-365 * day),
		"the far end":           time.Unix(1<<62, 0),
	}
	for body, reason := range map[string]policy.Reason{
		"limits: {max_uptime: 2h}":                 policy.MaxUptime,
		"limits: {max_age: 2h}":                    policy.MaxAge,
		"limits: {ttl: {tag: life, max: 1d}}":      policy.TTLTag,
		"tag_rules: {require: [owner], grace: 2h}": policy.TagMissing,
		"tag_rules: {forbid: [env], grace: 2h}":    policy.TagForbidden,
	} {
		s := load(t, rules("match: {everything: true}, "+body))
		for name, when := range wrong {
			f := running(func(f *policy.Facts) { f.Created, f.Started, f.Tags["life"] = when, when, "2h" })
			due := f.Pulse.FirstSeen.Add(2 * time.Hour)
			d := s.Evaluate(f, now)
			if d.Verdict != policy.Keep || d.Reason != policy.WithinLimits || d.Limit != reason || !d.Due.Equal(due) || !d.UnknownAge {
				t.Errorf("%s, %s: %+v", body, name, d)
			}
			if d = s.Evaluate(f, due); d.Verdict != policy.Reclaim || d.Reason != reason || !d.UnknownAge {
				t.Errorf("%s, %s, when due: %+v", body, name, d)
			}
			f.Pulse.FirstSeen = time.Time{}
			if d = s.Evaluate(f, now); d.Verdict != policy.Keep || d.Reason != policy.UnknownAge || !d.Due.IsZero() || !d.UnknownAge {
				t.Errorf("%s, %s, never seen: %+v", body, name, d)
			}
		}
	}
}

func TestAgesThatCanBeToldAreTold(t *testing.T) {
	s := load(t, rules("match: {everything: true}, limits: {max_age: 2h}"))
	for name, change := range map[string]func(*policy.Facts){
		"plain":              func(*policy.Facts) {},
		"never seen":         func(f *policy.Facts) { f.Pulse.FirstSeen = time.Time{} },
		"seen later":         func(f *policy.Facts) { f.Pulse.FirstSeen = now },
		"start not told":     func(f *policy.Facts) { f.Started = time.Time{} },
		"another time zone":  func(f *policy.Facts) { f.Created = f.Created.In(time.FixedZone("JST", 9*3600)) },
		"created right now":  func(f *policy.Facts) { f.Created = now },
		"created years back": func(f *policy.Facts) { f.Created = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		f := running(change)
		d := s.Evaluate(f, now)
		if d.UnknownAge || !d.Due.Equal(f.Created.Add(2*time.Hour)) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestOneUnknownTimeLeavesTheOtherLimits(t *testing.T) {
	s := load(t, rules("match: {everything: true}, limits: {max_uptime: 1m, max_age: 3h}"))
	f := running(func(f *policy.Facts) { f.Started, f.Pulse.FirstSeen = time.Time{}, time.Time{} })
	d := s.Evaluate(f, now)
	want := policy.Decision{
		Verdict: policy.Keep, Policy: "p0", Reason: policy.WithinLimits, Limit: policy.MaxAge, Action: stop,
		Due: f.Created.Add(3 * time.Hour), Next: f.Created.Add(3 * time.Hour), UnknownAge: true,
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWishesInTags(t *testing.T) {
	bounded := load(t, rules("match: {everything: true}, limits: {ttl: {tag: life, max: 1d}, max_age: 3h}"))
	alone := load(t, rules("match: {everything: true}, limits: {ttl: {tag: life, max: 1d}}"))
	for value, tc := range map[string]struct {
		after     time.Duration // of a sandbox without max_age; zero: no deadline
		malformed bool
	}{
		"30m":      {after: 30 * time.Minute},
		"1d":       {after: day},
		"2d":       {after: day},
		"99999h":   {after: day},
		"250y":     {after: day},
		"9999999w": {malformed: true},
		"soon":     {malformed: true},
		"forever":  {malformed: true},
		"":         {malformed: true},
		" 30m":     {malformed: true},
		"-1h":      {malformed: true},
		"0":        {malformed: true},
		"0s":       {malformed: true},
		"1h; rm":   {malformed: true},
		"1.5h":     {malformed: true},
		"400":      {malformed: true},
		"30m\x00":  {malformed: true},
		"٣٠m":      {malformed: true},
		"1D":       {malformed: true},
	} {
		f := running(func(f *policy.Facts) { f.Tags["life"] = value })
		var due time.Time
		if tc.after > 0 {
			due = f.Created.Add(tc.after)
		}
		d := alone.Evaluate(f, now)
		if !d.Due.Equal(due) || (d.Malformed != nil) != tc.malformed || tc.after > time.Hour && d.Limit != policy.TTLTag {
			t.Errorf("%q: %+v", value, d)
		}
		if tc.malformed && (d.Verdict != policy.Keep || d.Reason != policy.WithinLimits || !cmp.Equal(d.Malformed, []string{"life"})) {
			t.Errorf("%q: %+v", value, d)
		}
		if d = bounded.Evaluate(f, f.Created.Add(3*time.Hour)); d.Verdict != policy.Reclaim {
			t.Errorf("%q takes the other limits away: %+v", value, d)
		}
	}
	without := running()
	if d := alone.Evaluate(without, now); d.Malformed != nil || !d.Due.IsZero() || d.Reason != policy.WithinLimits {
		t.Errorf("without the tag: %+v", d)
	}
}

func TestMalformedTagsAreNamedOnceAndInOrder(t *testing.T) {
	s := load(t, rules(
		"match: {everything: true}, limits: {ttl: {tag: z, max: 1d}}",
		"match: {everything: true}, limits: {ttl: {tag: a, max: 1d}}, mode: report",
		"match: {everything: true}, limits: {ttl: {tag: z, max: 2d}}",
		"match: {tags: {env: prod}}, limits: {ttl: {tag: unread, max: 2d}}",
	))
	f := running(func(f *policy.Facts) { f.Tags["z"], f.Tags["a"], f.Tags["unread"] = "soon", "soon", "soon" })
	if d := s.Evaluate(f, now); !cmp.Equal(d.Malformed, []string{"a", "z"}) {
		t.Errorf("%q", d.Malformed)
	}
}
