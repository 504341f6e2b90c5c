package policy

import (
	"strconv"
	"strings"
	"time"

	"github.com/reaperd/reaperd/internal/duration"
)

// ruling is what a limit says of one sandbox.
type ruling struct {
	due    time.Time // zero: no deadline, and none says why
	reason Reason    // that the deadline gives
	since  time.Time // what it counts from, and what that is
	from   string
	none   string
}

// Why a limit gives no deadline.
const (
	notJudged  = "not judged in this state"
	noTime     = "no time to count from"
	noActivity = "nobody can say when it was last active"
	tagAbsent  = "the tag is absent"
	tagUnclear = "the tag cannot be understood"
	tagsUnsaid = "the tags cannot be said"
	tagsInRule = "the tags are as they shall be"
)

// judge gives the deadline that the limit sets.
func (l *limit) judge(f *Facts, o *origin) ruling {
	if l.states&o.state == 0 {
		return ruling{none: notJudged}
	}
	switch l.reason {
	case MaxUptime:
		since, from := o.from(f.Started, "started")
		return l.counting(since, from, l.after)
	case MaxAge:
		return l.fromCreation(f, o, l.after)
	case MaxIdle:
		return l.idle(f, o)
	case MaxStopped:
		since, from := o.fromState(f.Ended, "ended", f.Pulse.StateSince)
		return l.counting(since, from, l.after)
	case MaxPaused:
		since, from := o.fromState(f.PausedSince, "paused", f.Pulse.StateSince)
		return l.counting(since, from, l.after)
	case TTLTag:
		return l.ttl(f, o)
	case ExpiresTag:
		return l.expires(f, o)
	case HeartbeatLost:
		return l.heartbeat(f, o)
	default:
		if none := l.rules.kept(l.reason, f.Tags); none != "" {
			o.unsaid = o.unsaid || f.Tags == nil
			return ruling{none: none}
		}
		return l.fromCreation(f, o, l.after)
	}
}

// counting sets the deadline a while after a time; from is "" if there is none.
func (l *limit) counting(since time.Time, from string, after time.Duration) ruling {
	if from == "" {
		return ruling{none: noTime}
	}
	return ruling{due: since.Add(after), reason: l.reason, since: since, from: from}
}

func (l *limit) fromCreation(f *Facts, o *origin, after time.Duration) ruling {
	since, from := o.from(f.Created, "created")
	return l.counting(since, from, after)
}

// idle counts from the last activity, or the start of the run if that was
// later. Unlike the other limits it has no deadline where the activity is not
// told: that none was seen is no idleness.
func (l *limit) idle(f *Facts, o *origin) ruling {
	if !o.believes(f.LastActive) {
		o.unbelieved = o.unbelieved || !f.LastActive.IsZero()
		return ruling{none: noActivity}
	}
	since, from := f.LastActive, "last active"
	run, name := o.from(f.Started, "started")
	if state := f.Pulse.StateSince; name != "started" && plausible(state) && state.After(run) {
		run, name = state, "in this state"
	}
	if run.After(since) {
		since, from = run, name
	}
	return l.counting(since, from, l.after)
}

// ttl reads how long the sandbox wants to live. A wish that cannot be
// understood is noted, and neither kills nor protects.
func (l *limit) ttl(f *Facts, o *origin) ruling {
	text, none := l.wish(f, o)
	if none != "" {
		return ruling{none: none}
	}
	wish, err := duration.Parse(text)
	if err != nil {
		o.malformed(l.tag)
		return ruling{none: tagUnclear}
	}
	return l.fromCreation(f, o, min(wish, l.after))
}

// expires reads until when the sandbox wants to live. Of a time before it came
// to be nobody can say what was meant.
func (l *limit) expires(f *Facts, o *origin) ruling {
	text, none := l.wish(f, o)
	if none != "" {
		return ruling{none: none}
	}
	wish, ok := parseTime(text)
	if !ok {
		o.malformed(l.tag)
		return ruling{none: tagUnclear}
	}
	v := l.fromCreation(f, o, l.after)
	switch {
	case v.due.IsZero():
	case wish.Before(v.since):
		o.malformed(l.tag)
		return ruling{none: tagUnclear}
	case wish.Before(v.due):
		v.due, v.since, v.from = wish, wish, "its tag"
	}
	return v
}

// wish gives the text of the tag that the limit reads, or why there is none.
func (l *limit) wish(f *Facts, o *origin) (text, none string) {
	text, present := f.Tags[l.tag]
	switch {
	case f.Tags == nil:
		o.unsaid = true
		return "", tagsUnsaid
	case !present:
		return "", tagAbsent
	}
	return text, ""
}

// parseTime reads a time in RFC 3339, its zone also without a colon, in lower
// case or left out, which is UTC; or in unix seconds.
func parseTime(s string) (time.Time, bool) {
	if seconds, err := strconv.ParseInt(s, 10, 64); err == nil {
		t := time.Unix(seconds, 0).UTC()
		return t, s[0] != '+' && plausible(t)
	}
	const layout = "2006-01-02T15:04:05"
	if len(s) < len(layout) {
		return time.Time{}, false
	}
	clock, zone := s, ""
	if i := strings.IndexAny(s[len(layout):], "Zz+-"); i >= 0 {
		clock, zone = s[:len(layout)+i], s[len(layout)+i:]
	}
	offset, ok := parseZone(zone)
	if !ok || clock[10] != 'T' && clock[10] != 't' {
		return time.Time{}, false
	}
	day, err := time.Parse("2006-01-02", clock[:10])
	if err != nil {
		return time.Time{}, false
	}
	// Not both at once: a lower-case t would need a copy of the text.
	hour, err := time.Parse("15:04:05", clock[11:])
	if err != nil || clock[13] != ':' || strings.Contains(clock, ",") {
		return time.Time{}, false
	}
	t := day.Add(hour.Sub(midnight) - offset)
	return t, plausible(t)
}

// midnight is what a time of day is parsed as a time after.
var midnight = time.Date(0, time.January, 1, 0, 0, 0, 0, time.UTC)

// parseZone reads "", Z, ±hh:mm or ±hhmm.
func parseZone(s string) (time.Duration, bool) {
	if s == "" || s == "Z" || s == "z" {
		return 0, true
	}
	if len(s) == len("+hh:mm") && s[3] == ':' {
		s = s[:3] + s[4:]
	}
	if len(s) != len("+hhmm") || strings.Trim(s[1:], "0123456789") != "" || s[1:3] > "23" || s[3:] > "59" {
		return 0, false
	}
	hours, minutes := time.Duration(10*(s[1]-'0')+s[2]-'0'), time.Duration(10*(s[3]-'0')+s[4]-'0')
	offset := hours*time.Hour + minutes*time.Minute
	if s[0] == '-' {
		offset = -offset
	}
	return offset, true
}
