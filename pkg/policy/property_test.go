package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// world makes random policies and sandboxes out of so few words that they
// often meet. The same seed makes the same world.
type world struct{ *rand.Rand }

func pick[T any](w world, from ...T) T { return from[w.IntN(len(from))] }

func (w world) clause() string {
	return pick(w,
		"tags: {env: dev}", "tags: {env: '*'}", "tags: {env: [dev, ''], team: x}", "tags: {team: ''}",
		"names: ['sbx-.*']", "names: [a, b]", "everything: true",
		"everything: true, kinds: [docker]", "everything: true, providers: [dev]", "everything: true, states: [running, exited, starting, created]",
		"tags: {env: dev}, names: ['sbx-.*'], states: [running, paused, exited]")
}

func (w world) entry() string {
	return pick(w, "tags: {env: prod}", "tags: {keep: '*'}", "names: ['keep-.*']", "kinds: [process]", "states: [exited, paused]",
		"tags: {team: x}, names: ['sbx-.*']", "providers: [local], tags: {env: dev}")
}

func (w world) length() string { return pick(w, "1m", "30m", "1h", "2h", "1d", "3d", "1y", "250y") }

func (w world) policy(mode string) string {
	b := "match: {" + w.clause() + "}, mode: " + mode
	if w.IntN(3) == 0 {
		b += ", unless: [{" + w.entry() + "}, {" + w.entry() + "}]"
	}
	var limits []string
	for _, limit := range []string{"max_uptime: " + w.length(), "max_age: " + w.length(), "ttl: {tag: life, max: " + w.length() + "}"} {
		if w.IntN(2) == 0 {
			limits = append(limits, limit)
		}
	}
	ruled := w.IntN(4) == 0
	if len(limits) == 0 && !ruled {
		limits = []string{"max_age: " + w.length()}
	}
	if limits != nil {
		b += ", limits: {" + strings.Join(limits, ", ") + "}"
	}
	if ruled {
		b += ", tag_rules: {require: [" + pick(w, "env", "owner", "team, env") + "], grace: " + pick(w, "0s", "10m", "2h") + "}"
	}
	return b + ", action: {type: " + pick(w, "stop", "remove, volumes: true") + "}"
}

func (w world) policies(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = w.policy(pick(w, "enforce", "enforce", "report"))
	}
	return out
}

func (w world) protections() []string {
	var out []string
	for range w.IntN(3) {
		p := w.entry()
		if w.IntN(2) == 0 {
			p += ", for: " + w.length()
		}
		out = append(out, "{"+p+"}")
	}
	return out
}

// set loads policies of which those that can never act are left out.
func (w world) set(t testing.TB, policies, protections []string) *policy.Set {
	t.Helper()
	text := rules(policies...)
	if len(protections) > 0 {
		text += "protect: [" + strings.Join(protections, ", ") + "]\n"
	}
	return load(t, text)
}

func (w world) time() time.Time {
	return pick(w, time.Time{}, time.Unix(0, 0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), w.past(), w.past(), w.past(), w.past())
}

func (w world) past() time.Time {
	return ago(time.Duration(w.Int64N(int64(pick(w, time.Minute, time.Hour, day, 400*day)))))
}

func (w world) facts() *policy.Facts {
	f := &policy.Facts{
		Sandbox: providers.Sandbox{
			Ref:  providers.Ref{Provider: pick(w, "dev", "dev", "local", ""), ID: "x"},
			Kind: pick(w, "docker", "docker", "process", ""), Name: pick(w, "sbx-1", "sbx-2", "a", "keep-1", ""),
			State: pick(w, append(providers.States(), providers.StateRunning, providers.StateRunning, providers.StateExited)...),
			Owner: pick(w, "", "", "", "", "", "", "", "swarm"), Self: w.IntN(20) == 0,
			Created: w.time(), Started: w.time(),
		},
		Pulse: policy.Pulse{FirstSeen: w.time()},
	}
	if w.IntN(8) > 0 {
		f.Tags = map[string]string{}
		for key, values := range map[string][]string{
			"env": {"dev", "dev", "prod", ""}, "team": {"x", ""}, "life": {"10m", "1h", "9y", "soon", ""}, "owner": {"ann"}, "keep": {"yes"},
		} {
			if w.IntN(3) > 0 {
				f.Tags[key] = values[w.IntN(len(values))]
			}
		}
	}
	return f
}

// end follows Next to the moment at which the sandbox is reclaimed; zero:
// never.
func end(t *testing.T, s *policy.Set, f *policy.Facts) time.Time {
	t.Helper()
	at := now
	for range 100 {
		d := s.Evaluate(f, at)
		if d.Verdict == policy.Reclaim {
			return at
		}
		if d.Next.IsZero() {
			return time.Time{}
		}
		if !d.Next.After(at) {
			t.Fatalf("next %v is not after %v: %+v", d.Next, at, d)
		}
		at = d.Next
	}
	t.Fatal("next never comes to an end")
	return at
}

// sooner says whether a comes before b, zero being never.
func sooner(a, b time.Time) bool { return !a.IsZero() && (b.IsZero() || a.Before(b)) }

// forAll runs a property over many worlds and names the seed that breaks it.
func forAll(t *testing.T, property func(t *testing.T, w world)) {
	t.Helper()
	for seed := range uint64(400) {
		w := world{rand.New(rand.NewPCG(seed, 1))}
		if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { property(t, w) }) {
			return
		}
	}
}

func TestAnotherEnforcingPolicyNeverLengthensALife(t *testing.T) {
	forAll(t, func(t *testing.T, w world) {
		policies, protections := w.policies(1+w.IntN(4)), w.protections()
		more := slices.Insert(slices.Clone(policies), w.IntN(len(policies)+1), w.policy("enforce"))
		before, after := w.set(t, policies, protections), w.set(t, more, protections)
		for range 5 {
			f := w.facts()
			if was, is := end(t, before, f), end(t, after, f); sooner(was, is) {
				t.Fatalf("%v became %v of %+v by\n%q", was, is, f, more)
			}
		}
	})
}

func TestAnotherProtectionNeverShortensALife(t *testing.T) {
	forAll(t, func(t *testing.T, w world) {
		policies, protections := w.policies(1+w.IntN(4)), w.protections()
		more := append(slices.Clone(protections), pick(w, "{"+w.entry()+"}", "{"+w.entry()+", for: "+w.length()+"}"))
		sparing := slices.Clone(policies)
		if i := w.IntN(len(sparing)); !strings.Contains(sparing[i], "unless") {
			sparing[i] += ", unless: [{" + w.entry() + "}]"
		}
		plain := w.set(t, policies, protections)
		for _, after := range []*policy.Set{w.set(t, policies, more), w.set(t, sparing, protections)} {
			for range 5 {
				f := w.facts()
				if was, is := end(t, plain, f), end(t, after, f); sooner(is, was) {
					t.Fatalf("%v became %v of %+v by\n%q\n%q", was, is, f, sparing, more)
				}
			}
		}
	})
}

func TestReportModeChangesNoVerdict(t *testing.T) {
	forAll(t, func(t *testing.T, w world) {
		policies, protections := w.policies(1+w.IntN(4)), w.protections()
		more := append(slices.Clone(policies), w.policy("report"))
		before, after := w.set(t, policies, protections), w.set(t, more, protections)
		for range 5 {
			f := w.facts()
			was, is := before.Evaluate(f, now), after.Evaluate(f, now)
			was.Shadows, was.Malformed, was.UnknownAge = is.Shadows, is.Malformed, is.UnknownAge
			if diff := cmp.Diff(was, is); diff != "" {
				t.Fatalf("%+v by\n%q\n%s", f, more, diff)
			}
		}
	})
}

func TestKnowingLessNeverBringsTheEndNearer(t *testing.T) {
	forAll(t, func(t *testing.T, w world) {
		s := w.set(t, w.policies(1+w.IntN(4)), w.protections())
		for range 5 {
			f := w.facts()
			less := *f
			less.Tags = nil
			if was, is := end(t, s, f), end(t, s, &less); sooner(is, was) {
				t.Fatalf("without tags %v became %v of %+v", was, is, f)
			}
			less = *f
			less.Name, less.Kind = "", ""
			if was, is := end(t, s, f), end(t, s, &less); sooner(is, was) {
				t.Fatalf("without name and kind %v became %v of %+v", was, is, f)
			}
			// First seen is later than whatever can be believed.
			less = *f
			less.Pulse.FirstSeen = now
			full := less
			less.Created, less.Started = time.Time{}, time.Time{}
			if was, is := end(t, s, &full), end(t, s, &less); sooner(is, was) {
				t.Fatalf("without times %v became %v of %+v", was, is, f)
			}
		}
	})
}

func TestTimeOnlyMovesKeepToReclaimAndNextIsExact(t *testing.T) {
	forAll(t, func(t *testing.T, w world) {
		s := w.set(t, w.policies(1+w.IntN(4)), w.protections())
		for range 5 {
			f := w.facts()
			d := s.Evaluate(f, now)
			if !d.Next.IsZero() {
				if !d.Next.After(now) {
					t.Fatalf("next is not after now: %+v of %+v", d, f)
				}
				if got := s.Evaluate(f, d.Next); got.Verdict == d.Verdict {
					t.Fatalf("nothing changes at next: %+v, %+v of %+v", d, got, f)
				}
				if got := s.Evaluate(f, d.Next.Add(-1)); got.Verdict != d.Verdict {
					t.Fatalf("it changes before next: %+v, %+v of %+v", d, got, f)
				}
			} else if got := s.Evaluate(f, now.AddDate(600, 0, 0)); got.Verdict != d.Verdict {
				t.Fatalf("it changes though there is no next: %+v, %+v of %+v", d, got, f)
			}
			at, verdict := now, d.Verdict
			for range 10 {
				at = at.Add(time.Duration(w.Int64N(int64(pick(w, time.Hour, day, 100*day)))))
				got := s.Evaluate(f, at)
				if verdict == policy.Reclaim && got.Verdict == policy.Keep {
					t.Fatalf("time brought it back: %+v of %+v", got, f)
				}
				if (d.Next.IsZero() || at.Before(d.Next)) && got.Verdict != d.Verdict {
					t.Fatalf("it changes at %v, before next: %+v, %+v of %+v", at, d, got, f)
				}
				verdict = got.Verdict
			}
		}
	})
}

// With times in the future, which are believed once they have come, next is
// still never too late.
func TestNextIsNeverTooLate(t *testing.T) {
	forAll(t, func(t *testing.T, w world) {
		s := w.set(t, w.policies(1+w.IntN(4)), w.protections())
		for range 5 {
			f := w.facts()
			for _, at := range []*time.Time{&f.Created, &f.Started, &f.Pulse.FirstSeen} {
				if w.IntN(2) == 0 {
					*at = now.Add(time.Duration(w.Int64N(int64(pick(w, time.Minute, time.Hour, 3*day)))))
				}
			}
			d := s.Evaluate(f, now)
			for range 20 {
				at := now.Add(time.Duration(w.Int64N(int64(pick(w, time.Hour, day, 10*day)))))
				if !d.Next.IsZero() && w.IntN(3) == 0 {
					at = d.Next.Add(-1)
				}
				if !d.Next.IsZero() && !at.Before(d.Next) {
					continue
				}
				if got := s.Evaluate(f, at); got.Verdict != d.Verdict {
					t.Fatalf("it changes at %v, before next: %+v, %+v of %+v", at, d, got, f)
				}
			}
		}
	})
}

func TestDecisionsAgreeWithThemselves(t *testing.T) {
	kept := []policy.Reason{
		policy.Unmatched, policy.Protected, policy.WithinLimits, policy.UnknownAge, policy.InTransition, policy.NotOwned, policy.Self,
	}
	seen := map[policy.Reason]int{}
	forAll(t, func(t *testing.T, w world) {
		s := w.set(t, w.policies(1+w.IntN(4)), w.protections())
		for range 5 {
			f := w.facts()
			d := s.Evaluate(f, now)
			seen[d.Reason]++
			i := slices.IndexFunc(s.Policies(), func(p policy.Policy) bool { return p.Name == d.Policy })
			limit := d.Limit
			if d.Verdict == policy.Reclaim {
				limit = d.Reason
			}
			named := i >= 0 && slices.Contains(s.Policies()[i].Reasons, limit) && s.Policies()[i].Mode == policy.Enforce && s.Policies()[i].Action == d.Action
			var ok bool
			switch {
			case d.Verdict == policy.Reclaim:
				ok = named && d.Limit == "" && !d.Due.IsZero() && !d.Due.After(now) && d.Next.IsZero()
			case d.Reason == policy.WithinLimits && !d.Due.IsZero():
				ok = named && d.Due.After(now) && d.Next.Equal(d.Due)
			default:
				ok = slices.Contains(kept, d.Reason) && d.Policy == "" && d.Limit == "" && d.Due.IsZero() && d.Action == (providers.StopOptions{})
			}
			if !ok {
				t.Fatalf("%+v of %+v", d, f)
			}
			for _, shadow := range d.Shadows {
				if shadow.Due.After(now) || shadow.Due.IsZero() {
					t.Fatalf("%+v of %+v", d, f)
				}
			}
		}
	})
	for _, r := range append(kept, policy.MaxUptime, policy.MaxAge, policy.TTLTag, policy.TagMissing) {
		if seen[r] < 10 {
			t.Errorf("the worlds hardly know %s: %v", r, seen)
		}
	}
}
