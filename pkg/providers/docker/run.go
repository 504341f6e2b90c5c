package docker

import (
	"time"

	"github.com/docker/docker/api/types/container"
)

// run is one run of a container through all the engine's own restarts of it.
// Without it a crash loop would look freshly started for ever: the engine moves
// StartedAt with each restart.
type run struct {
	first    time.Time // StartedAt when the run was first seen
	last     time.Time // StartedAt when it was last seen
	restarts int       // RestartCount when it was last seen
	status   string    // the engine's word when it was last seen
}

// follow gives the run that an inspect shows, given the one that the inspect
// before showed; nil if there was none. The engine counts its own restarts in
// RestartCount, raises it before it waits to start the container again, and
// sets it back to 0 when somebody else starts it. Whatever is in doubt begins a
// new run: then the sandbox lives longer, never shorter.
func follow(before *run, s *container.State, restarts int) run {
	now := run{first: parseTime(s.StartedAt), last: parseTime(s.StartedAt), restarts: restarts, status: s.Status}
	if before != nil && before.continuedBy(now) && before.first.Before(now.first) {
		now.first = before.first
	}
	return now
}

func (r *run) continuedBy(now run) bool {
	switch {
	case r.first.IsZero() || now.first.IsZero() || now.restarts == 0:
		return false
	case now.last.Equal(r.last):
		return true
	case r.status == container.StateRestarting:
		return now.restarts >= r.restarts
	case stateOf(r.status).Ended(): // the engine had given up; somebody else started it
		return false
	default:
		return now.restarts > r.restarts
	}
}
