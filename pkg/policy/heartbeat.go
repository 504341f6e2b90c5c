package policy

import (
	"strings"
	"time"
)

// LeaseTag is the tag in which a sandbox names the lease that covers it.
const LeaseTag = "reaperd.lease"

const (
	notListening = "heartbeats cannot be heard here"
	openLease    = "a lease has no end that could be told"
	neverBeat    = "it never sent a heartbeat, names no lease, and none is required"
)

// heartbeat sets the deadline by which a sign of life is due.
func (l *limit) heartbeat(f *Facts, o *origin) ruling {
	p := &f.Pulse
	if !plausible(p.BlindUntil) {
		return ruling{none: notListening}
	}
	var ends, released time.Time
	for i := range p.Leases {
		switch lease := &p.Leases[i]; {
		case plausible(lease.Released):
			released = later(released, lease.Released)
		case plausible(lease.Ends):
			ends = later(ends, lease.Ends)
		default:
			return ruling{none: openLease}
		}
	}
	if ends.IsZero() && !released.IsZero() {
		return l.afterRelease(released, f, o)
	}
	if o.state != runningState {
		return ruling{none: notJudged}
	}
	v := ruling{due: ends, since: ends, from: "lease end", reason: LeaseExpired}
	if beat := l.silent(p.LastBeat); plausible(p.LastBeat) && beat.After(v.due) {
		v = ruling{due: beat, since: p.LastBeat, from: "last beat", reason: HeartbeatLost}
	}
	if v.due.IsZero() {
		if none := l.unasked(f, o); none != "" {
			return ruling{none: none}
		}
		v.reason = HeartbeatNever
	}
	// Whoever could not have been heard yet is not silent.
	l.extend(&v, p.BlindUntil, "end of blindness")
	if plausible(p.FirstSeen) {
		l.extend(&v, p.FirstSeen, "first seen")
	}
	if o.believes(f.Started) {
		l.extend(&v, f.Started, "started")
	} else {
		o.unbelieved = true
	}
	return v
}

// afterRelease: what every lease let go of is due at once, unless it beats for
// itself, or was started or first seen only later.
func (l *limit) afterRelease(released time.Time, f *Facts, o *origin) ruling {
	v := ruling{due: released, since: released, from: "release", reason: LeaseReleased}
	if plausible(f.Pulse.LastBeat) {
		l.extend(&v, f.Pulse.LastBeat, "last beat")
		l.extend(&v, f.Pulse.BlindUntil, "end of blindness")
	}
	// A clock that was set back leaves both at the same instant.
	if plausible(f.Pulse.FirstSeen) && !f.Pulse.FirstSeen.Before(released) {
		l.extend(&v, f.Pulse.FirstSeen, "first seen")
	}
	if f.Started.After(released) && o.believes(f.Started) {
		l.extend(&v, f.Started, "started")
	}
	return v
}

// extend moves the deadline to one timeout after t, if that is later.
func (l *limit) extend(v *ruling, t time.Time, name string) {
	if due := l.silent(t); due.After(v.due) {
		v.due, v.since, v.from = due, t, name
	}
}

// silent gives the end of a silence that begins at t.
func (l *limit) silent(t time.Time) time.Time { return t.Add(l.after) }

// unasked says why nothing is asked of one that never sent a heartbeat, or "".
func (l *limit) unasked(f *Facts, o *origin) string {
	key, names := f.Tags[LeaseTag]
	switch {
	case l.required:
		return ""
	case f.Tags == nil:
		o.unsaid = true
		return tagsUnsaid
	case !names:
		return neverBeat
	case !ValidLeaseKey(key):
		o.malformed(LeaseTag)
		return tagUnclear
	}
	return ""
}

// ValidLeaseKey says whether key can name a lease: 1 to 64 of A-Z, a-z, 0-9,
// dot, underscore and hyphen.
func ValidLeaseKey(key string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	return key != "" && len(key) <= 64 && strings.Trim(key, allowed) == ""
}
