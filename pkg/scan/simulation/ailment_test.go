package simulation_test

import (
	"context"
	"errors"
	"slices"
	"time"
)

// ailment is what a daemon can know of a provider's being unfit.
type ailment struct {
	late []string // the sandboxes whose calls, the last in a row, ran out of time
	// since is when the third of them did; never: it is fit.
	since time.Duration
}

func (l *life) ailment(p *place) *ailment {
	a := l.ailing[p.name]
	if a == nil {
		a = &ailment{since: never}
		l.ailing[p.name] = a
	}
	return a
}

// called takes in how a call for a sandbox went. The world is locked.
func (l *life) called(p *place, id string, err error) {
	a := l.ailment(p)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		if !slices.Contains(a.late, id) {
			a.late = append(a.late, id)
		}
		if len(a.late) >= 3 && a.since == never {
			a.since = l.clock.Boot()
			l.story.tell("%s cannot be fit: the calls of three ran out of time", p.name)
		}
	default:
		a.late = nil
	}
}

// fit takes in that the place answered what shows that it is fit.
func (l *life) fit(p *place) {
	a := l.ailment(p)
	a.late, a.since = nil, never
}
