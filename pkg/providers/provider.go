// Package providers holds the seam between reaperd and the places where
// sandboxes live: the types every kind speaks, the errors it answers with, the
// dry-run wrapper, and the registry of kinds. It does no I/O of its own.
package providers

import (
	"context"
	"time"
)

// Provider is one configured place where sandboxes live: an engine socket, an
// account, the local process table. Implementations are safe for concurrent
// use, honour the context's deadline on every call, never log, and translate
// what went wrong into this package's sentinel errors.
type Provider interface {
	// List gives the whole inventory or an error, never both: a caller that
	// receives nil has seen everything there is. A sandbox whose details could
	// not be read is in the list with State unknown; one that vanished while
	// the list was made is not.
	List(ctx context.Context) ([]Sandbox, error)
	// Get reads one sandbox afresh, past every cache, and agrees with List on
	// every field. It gives ErrNotFound when the sandbox is gone.
	Get(ctx context.Context, id string) (Sandbox, error)
	// Stop carries out o.Action on the sandbox that sb describes; every change
	// reaperd makes goes through it. It acts only if the sandbox still has
	// sb.Revision, and gives ErrChanged otherwise. ErrNotFound (already gone)
	// and ErrChanged are answers, not failures. It gives ErrUnsupported,
	// before anything is touched, for an action or option that the kind cannot
	// honour. A nil error says that the provider accepted the stop, not that
	// the sandbox is gone: the caller verifies that with Get.
	Stop(ctx context.Context, sb Sandbox, o StopOptions) error
}

// Watcher is a Provider that can tell of changes as they happen.
type Watcher interface {
	// Watch calls changed with the id of each sandbox that may have changed,
	// until ctx ends or the stream breaks, and says why it broke. What changed
	// while nobody watched, only the next List tells. changed does not block.
	Watch(ctx context.Context, changed func(id string)) error
}

// Prober is a Provider that can be asked cheaply whether it is fit to stop
// anything, in a way that fails or hangs when it is not.
type Prober interface {
	Probe(ctx context.Context) error
}

// Timekeeper is a Provider whose answers tell the time by its own clock.
type Timekeeper interface {
	// Skew is by how much the provider's clock is ahead of this machine's, by
	// its latest answers: the least that explains them, and so 0 as long as
	// they can be true. known is false before there was one that told.
	Skew() (ahead time.Duration, known bool)
}

// ActivitySampler is a Provider that can tell when a sandbox last did work.
type ActivitySampler interface {
	// Activity looks afresh and gives the time of the last activity by the
	// provider's own clock, zero if it cannot say. What was done while it did not
	// look, or could not, it takes for activity.
	Activity(ctx context.Context, sb Sandbox) (time.Time, error)
}

// Counter is a Provider that counts what it sends to the place.
type Counter interface {
	// Calls is how many requests were sent so far, by what they ask for: each of
	// a closed set of words, from the start.
	Calls() map[string]uint64
}

// Witness is a Provider that can tell what a sandbox was doing.
type Witness interface {
	// Evidence gives what tells of the sandbox's end, while it is still there.
	// What of it cannot be had is left out; it is an error only if nothing can.
	// Texts are as the sandbox wrote them, and not to be trusted.
	Evidence(ctx context.Context, sb Sandbox, lines int) (Evidence, error)
}

// Evidence is what a sandbox left to tell of its end.
type Evidence struct {
	// Output is the end of what it wrote, the last lines asked for at most.
	Output []string `json:"output,omitempty"`
	// ExitCode is that of one that has ended; nil: it runs, or cannot say.
	ExitCode *int `json:"exit_code,omitempty"`
	// Processes are those that run in it, the busiest first where that can be
	// said, as a person would want to read them.
	Processes []string `json:"processes,omitempty"`
}

// Identifier is a Provider that knows which place it talks to, so that one
// place configured under two names can be told.
type Identifier interface {
	// Identity gives a string that is the same for two providers exactly when
	// they reach the same place (a Docker engine's own id, say).
	Identity(ctx context.Context) (string, error)
}

// BlindSpot is a Provider whose lists may pass over things that it was not
// allowed to look at.
type BlindSpot interface {
	// Unreadable is how many candidates the last completed List could not
	// read. They are not in its result: what cannot be read is not guessed.
	Unreadable() int
}

// Action is what is done to a sandbox that violates a policy.
type Action string

// The closed set of actions.
const (
	ActionStop   Action = "stop"   // end it, keep what it wrote
	ActionRemove Action = "remove" // end it and delete it with its writable layer
	ActionPause  Action = "pause"  // freeze it; where a kind can
)

// StopOptions says how Stop shall act. A kind refuses with ErrUnsupported any
// set option that it cannot honour; none is silently ignored.
type StopOptions struct {
	Action Action
	// Grace is how long the sandbox has, from the polite signal to the kill.
	// Zero kills at once.
	Grace time.Duration
	// Volumes also deletes the anonymous volumes of a removed sandbox.
	// Named volumes are never deleted.
	Volumes bool
	// Networks also deletes the empty networks of a removed sandbox's project.
	Networks bool
	// Images also deletes unused images that carry the sandbox's tags.
	Images bool
	// Snapshot saves the sandbox's state before it is stopped.
	Snapshot bool
}

// As finds the optional interface T on p or on what p wraps, as errors.As does
// for errors.
func As[T any](p Provider) (T, bool) {
	for {
		if t, ok := p.(T); ok {
			return t, true
		}
		w, ok := p.(interface{ Unwrap() Provider })
		if !ok {
			var none T
			return none, false
		}
		p = w.Unwrap()
	}
}
