package docker

import (
	"net/http"
	"sync"
	"time"
)

// Skew is by how much the engine's clock is ahead of ours, by the Date header
// of its answers.
func (p *Provider) Skew() (ahead time.Duration, known bool) { return p.conn.skew.ahead() }

// skew narrows down by how much the engine's clock is ahead of ours. Each
// answer proves a little: its Date was written between the request and the
// answer, and is cut to whole seconds. All of them together prove more, down to
// about the time that a call takes, and a slow one proves next to nothing.
//
// Two spans of time follow each other, so that a clock that drifts is followed
// and no single answer has to be kept: when the current one is over it becomes
// the one before, and what that said is forgotten.
type skew struct {
	mu              sync.Mutex
	current, before span
}

// span is what the answers of some time prove together: that the engine's
// clock is ahead by least to most. The zero value proves nothing.
type span struct {
	began       time.Time
	least, most time.Duration
}

const (
	spanLasts = 2 * time.Minute
	// A Date further away than this is not a clock's, and what is computed with
	// it would not fit a duration.
	farthest = 100 * 365 * 24 * time.Hour
)

// note takes account of an answer. Sent and received are by our clock.
func (s *skew) note(sent, received time.Time, header http.Header) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil || date.Sub(received).Abs() > farthest {
		return
	}
	answer := span{began: received, least: date.Sub(received), most: date.Add(time.Second).Sub(sent)}
	if answer.empty() { // our own clock was set back meanwhile
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch age := received.Sub(s.current.began); {
	case age >= 2*spanLasts:
		s.current, s.before = span{}, span{}
	case age >= spanLasts:
		s.current, s.before = span{}, s.current
	}
	s.current = s.current.and(answer)
	if s.current.and(s.before).empty() { // one of the two clocks was set
		s.current, s.before = answer, span{}
	}
}

// ahead gives the least skew that explains the answers.
func (s *skew) ahead() (ahead time.Duration, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	proven := s.current.and(s.before)
	switch {
	case proven.began.IsZero():
		return 0, false
	case proven.least > 0:
		return proven.least, true
	case proven.most < 0:
		return proven.most, true
	default:
		return 0, true
	}
}

// and gives what both prove together. It began when s did.
func (s span) and(other span) span {
	switch {
	case s.began.IsZero():
		return other
	case other.began.IsZero():
		return s
	default:
		return span{began: s.began, least: max(s.least, other.least), most: min(s.most, other.most)}
	}
}

func (s span) empty() bool { return s.least > s.most }
