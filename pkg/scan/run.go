package scan

import (
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// run is one run of a sandbox through all its provider's own restarts of it.
// Without it a crash loop would look freshly started for ever, since a provider
// tells the start of the last try.
type run struct {
	up       stamp // when it began; 0: its provider does not say
	started  stamp // the start that was last told
	restarts int32 // how many restarts of the provider's own were last told
}

// follow gives the run in which a sandbox is, which was in state before when
// it was last seen. Whatever is in doubt begins a new run: then the sandbox
// lives longer, never shorter.
func (r run) follow(sb *providers.Sandbox, before providers.State) run {
	now := run{stampOf(sb.Started), stampOf(sb.Started), int32(min(sb.Restarts, 1<<31-1))}
	older := now.started != 0 && now.started < r.started && now.restarts < r.restarts
	if sb.State == providers.StateUnknown || older {
		return r // what could not be read says nothing, nor does a list that is older than what was seen since
	}
	if r.continuedBy(now, before) && r.up < now.up {
		now.up = r.up
	}
	return now
}

// continuedBy: a provider counts its own restarts, and begins to count anew
// when somebody else starts the sandbox. It raises the count before it waits to
// start it again.
func (r run) continuedBy(now run, before providers.State) bool {
	switch {
	case r.up == 0 || now.up == 0 || now.restarts == 0:
		return false
	case now.started == r.started:
		return true
	case before == providers.StateStarting:
		return now.restarts >= r.restarts
	case before.Ended(): // it had given up; somebody else started it
		return false
	default:
		return now.restarts > r.restarts
	}
}

// startOf is when the present run of the sandbox, as it is told, began.
func (r run) startOf(sb *providers.Sandbox) time.Time {
	if r.up != 0 && r.up < r.started && r.started == stampOf(sb.Started) {
		return r.up.time()
	}
	return sb.Started
}
