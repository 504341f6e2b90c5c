package simulation_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// event is one line of a story.
type event struct {
	at   time.Duration
	wall time.Time
	text string
}

// story is what happened to everybody: the clock, the daemon, the providers.
// What happened to one sandbox stands in its own tale.
type story struct {
	clock *clock

	mu     sync.Mutex // also for the tales: not all who tell hold the world
	events []event
}

func (s *story) tell(format string, args ...any) {
	e := s.event(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *story) event(format string, args ...any) event {
	at := s.clock.Boot()
	return event{at, s.clock.wallAt(at), fmt.Sprintf(format, args...)}
}

func (b *box) tell(format string, args ...any) {
	e := b.story.event("  "+format, args...)
	b.story.mu.Lock()
	defer b.story.mu.Unlock()
	b.tale = append(b.tale, e)
}

// life tells the life of one sandbox, and what happened around it, in order.
func (w *world) life(b *box) string {
	w.story.mu.Lock()
	defer w.story.mu.Unlock()
	var all []event
	all = append(all, w.story.events...)
	if b != nil {
		all = append(all, b.tale...)
		from := b.born - w.scale.interval
		to := w.clock.Boot()
		if !b.alive {
			to = b.died + w.scale.interval
		}
		all = slices.DeleteFunc(all, func(e event) bool { return e.at < from || e.at > to || w.elsewhere(e, b.place) })
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	most := 120 // the end of a life says most
	if *withLogs {
		most = len(all)
	}
	var out strings.Builder
	if skip := len(all) - most; skip > 0 {
		fmt.Fprintf(&out, "  (%d lines before are left out)\n", skip)
		all = all[skip:]
	}
	for _, e := range all {
		fmt.Fprintf(&out, "%s (wall %s) %s\n", clockText(e.at), e.wall.Format("01-02 15:04:05.000"), e.text)
	}
	return out.String()
}

// elsewhere says whether it happened at another place.
func (w *world) elsewhere(e event, p *place) bool {
	for _, other := range w.places {
		if other != p && strings.HasPrefix(e.text, other.name) {
			return true
		}
	}
	return false
}

// clockText writes a true time as days and a time of day.
func clockText(d time.Duration) string {
	days := d / (24 * time.Hour)
	return fmt.Sprintf("day %d %s", days, time.Unix(0, 0).UTC().Add(d-days*24*time.Hour).Format("15:04:05.000"))
}

// show writes what there is to know of a sandbox.
func show(sb providers.Sandbox) string {
	tags := "unsaid"
	if sb.Tags != nil {
		var all []string
		for _, k := range slices.Sorted(maps.Keys(sb.Tags)) {
			all = append(all, k+"="+sb.Tags[k])
		}
		tags = "{" + strings.Join(all, " ") + "}"
	}
	var times []string
	for _, t := range []struct {
		name string
		time.Time
	}{{"created", sb.Created}, {"started", sb.Started}, {"ended", sb.Ended}, {"paused", sb.PausedSince}} {
		if !t.IsZero() {
			times = append(times, t.name+" "+t.Format("2006-01-02 15:04:05"))
		}
	}
	extra := ""
	if sb.Owner != "" {
		extra += " owner=" + sb.Owner
	}
	if sb.Self {
		extra += " self"
	}
	return fmt.Sprintf("%s %s %s%s, %s", sb.Revision, sb.State, tags, extra, strings.Join(times, ", "))
}
