package simulation_test

import (
	"strconv"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// basis is what the oracle grants that the daemon could know of a sandbox
// beyond what its provider tells. Zero times are not known.
type basis struct {
	first, since time.Time // when it was first seen; and in its state
	run          time.Time // when its owner last started it, if its engine did since
	beat         time.Time // its last heartbeat
	heard        time.Time // since when the daemon hears; zero: it does not
	lease        *tenure   // the one that its tag names, if it was ever made
	// slack is how wrong what the daemon stamped itself may be.
	slack time.Duration
	// ahead is by how much the provider's clock is, skewed that this is too much.
	ahead  time.Duration
	skewed bool
}

// tenure is how a lease stands.
type tenure struct{ ends, released time.Time }

// claim is one rule's say that a sandbox is due.
type claim struct {
	rule  *rule
	since time.Time // the deadline
	// stamped: it counts from a time that the provider told.
	stamped bool
	// released: it is somebody's word, whatever the clocks say.
	released bool
	silence  bool
}

// due gives every rule in force by which the sandbox is due at now. It is the
// policies of design section 3 in their plainest words, and knows nothing of
// pkg/policy.
func (b *rulebook) due(sb providers.Sandbox, now time.Time, k basis) []claim {
	if !k.run.IsZero() && k.run.Before(sb.Started) {
		sb.Started = k.run // an engine's own restart begins no run
	}
	for _, t := range []*time.Time{&sb.Created, &sb.Started, &sb.Ended, &sb.PausedSince} {
		if t.Year() > 2000 && t.Year() < 9000 {
			*t = t.Add(-k.ahead)
		}
	}
	if sb.Self || sb.Owner != "" || sb.State == "changing" || sb.State == "unknown" || b.protected(sb, now, k) {
		return nil
	}
	var all []claim
	for i := range b.rules {
		r := &b.rules[i]
		if r.report || !r.matches(sb) || r.idle(sb.State) {
			continue
		}
		for _, c := range r.deadlines(sb, now, k) {
			if !c.since.IsZero() && !c.since.After(now) && (c.silence || !k.skewed) {
				c.rule = r
				all = append(all, c)
			}
		}
	}
	return all
}

// protected: what is tagged so, or may be because its tags are not told.
func (b *rulebook) protected(sb providers.Sandbox, now time.Time, k basis) bool {
	if !b.protects || sb.Tags != nil && sb.Tags[tagProtect] != "true" {
		return false
	}
	if b.protectFor == 0 {
		return true
	}
	from := k.first
	if credible(sb.Created, now) {
		from = sb.Created
	}
	return from.IsZero() || from.Add(b.protectFor).After(now)
}

func (r *rule) matches(sb providers.Sandbox) bool {
	team, tagged := sb.Tags[tagTeam]
	switch {
	case !tagged, r.team != "*" && r.team != team:
		return false
	case r.place != "" && r.place != sb.Provider, r.state != "" && r.state != string(sb.State):
		return false
	}
	return r.spares == "" || sb.Tags[tagEnv] != r.spares
}

// idle says that its action would change nothing.
func (r *rule) idle(state providers.State) bool {
	switch state {
	case "created", "exited", "dead":
		return r.action != "remove"
	case "paused", "suspended":
		return r.action == "pause"
	}
	return false
}

// deadlines gives those that the rule sets for the sandbox.
func (r *rule) deadlines(sb providers.Sandbox, now time.Time, k basis) []claim {
	var all []claim
	from := func(stamp, otherwise time.Time, d time.Duration) {
		if credible(stamp, now) {
			all = append(all, claim{since: stamp.Add(d), stamped: true})
		} else if !otherwise.IsZero() {
			all = append(all, claim{since: otherwise.Add(d)})
		}
	}
	state, up, ended := sb.State, false, false
	switch state {
	case "starting", "running", "paused":
		up = true
	case "exited", "dead":
		ended = true
	}
	if r.maxUptime > 0 && up {
		from(sb.Started, k.first, r.maxUptime)
	}
	if r.maxStopped > 0 && ended {
		from(sb.Ended, k.since, r.maxStopped)
	}
	if r.maxPaused > 0 && (state == "paused" || state == "suspended") {
		from(sb.PausedSince, k.since, r.maxPaused)
	}
	if state == "suspended" {
		return all
	}
	if r.maxAge > 0 {
		from(sb.Created, k.first, r.maxAge)
	}
	if wish, ok := wishes[sb.Tags[tagTTL]]; ok && r.ttl > 0 {
		from(sb.Created, k.first, min(wish, r.ttl))
	}
	if r.expires > 0 {
		all = append(all, r.expiry(sb, now, k)...)
	}
	if r.silence > 0 {
		all = append(all, r.silent(sb, now, k)...)
	}
	_, owned := sb.Tags[tagOwner]
	_, cursed := sb.Tags[tagCursed]
	if r.require == tagOwner && !owned || r.forbid == tagCursed && cursed {
		from(sb.Created, k.first, r.tagGrace)
	}
	return all
}

// expiry is the deadline of the tag that holds a time.
func (r *rule) expiry(sb providers.Sandbox, now time.Time, k basis) []claim {
	text, tagged := sb.Tags[tagExpires]
	if !tagged {
		return nil
	}
	wish, err := time.Parse(time.RFC3339, text)
	if err != nil {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil
		}
		wish = time.Unix(seconds, 0)
	}
	from, stamped := k.first, false
	if credible(sb.Created, now) {
		from, stamped = sb.Created, true
	}
	if from.IsZero() || wish.Before(from) || wish.Year() < 2000 || wish.Year() >= 9999 {
		return nil
	}
	if latest := from.Add(r.expires); latest.Before(wish) {
		wish = latest
	}
	return []claim{{since: wish, stamped: stamped}}
}

// silent is the deadline of the next sign of life.
func (r *rule) silent(sb providers.Sandbox, now time.Time, k basis) []claim {
	if k.heard.IsZero() || k.first.IsZero() {
		return nil
	}
	key, names := sb.Tags[tagLease]
	due, since := time.Time{}, []time.Time{k.heard, k.first}
	c := claim{silence: true}
	if credible(sb.Started, now) {
		since = append(since, sb.Started)
	}
	switch {
	case names && k.lease != nil && !k.lease.released.IsZero():
		due, c.released = k.lease.released, true
		late := []time.Time{k.beat}
		if !k.beat.IsZero() {
			late = append(late, k.heard)
		}
		for _, t := range since[1:] { // deaf or not, a release is known
			if t.After(due) {
				late = append(late, t)
			}
		}
		since = late
	case sb.State != "running":
		return nil
	case names && k.lease != nil:
		due = k.lease.ends
	case k.beat.IsZero() && !r.required && (!names || key == badKey):
		return nil
	}
	if !k.beat.IsZero() {
		since = append(since, k.beat)
	}
	for _, t := range since {
		if end := t.Add(r.silence); !t.IsZero() && end.After(due) {
			due, c.released = end, false
		}
	}
	c.since = due.Add(-k.slack)
	return []claim{c}
}

// credible says whether a provider's time can be so.
func credible(t, now time.Time) bool {
	return t.Year() >= 2000 && t.Year() < 9999 && !t.After(now)
}

// wishes are the texts that stories put into the tag reaperd.ttl and that mean
// something.
var wishes = map[string]time.Duration{
	"90m": 90 * time.Minute, "6h": 6 * time.Hour, "1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "2w": 14 * 24 * time.Hour,
}

// nonsense are the texts that mean nothing.
var nonsense = []string{"soon", "", "-1h", "0", "0s", "400", "forever", "1h; rm", "1.5h"}
