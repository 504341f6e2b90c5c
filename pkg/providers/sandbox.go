package providers

import (
	"slices"
	"time"
)

// Ref names one sandbox: the configured provider's name and the id that the
// provider knows it by.
type Ref struct {
	Provider string
	ID       string
}

// String gives "provider/id".
func (r Ref) String() string { return r.Provider + "/" + r.ID }

// Sandbox is one instance on a provider, as last observed. The zero value of
// every field means "cannot say", and nothing is reclaimed on the strength of
// a field that cannot say.
type Sandbox struct {
	Ref
	Kind     string // the provider's kind: docker, process, …
	Name     string // what a person calls it
	Image    string // what it runs, as the provider writes it
	Endpoint string // kind://address, for people
	State    State
	RawState string // the provider's own word for State
	// Tags are the sandbox's labels or metadata. Nil: the provider did not
	// say. Empty: it has none.
	Tags map[string]string
	// Created is when the sandbox came to be, Started when it was last started,
	// by whomever, Ended when it exited, PausedSince when it was frozen,
	// LastActive when it last did work, Expires when the provider itself will
	// end it.
	Created, Started, Ended, PausedSince, LastActive, Expires time.Time
	// Restarts is how often the provider has by itself started it again since
	// somebody else did: the starts of a crash loop, which begin no new run.
	// 0: none, or cannot say.
	Restarts int
	// Revision differs only when the id was reused for something else, never
	// on an engine's own restart.
	Revision string
	// Owner is the controller that would replace the sandbox if it were
	// stopped (swarm, pod, warm pool); "" if there is none.
	Owner string
	// Self says that stopping this sandbox would stop reaperd itself.
	Self bool
	// Extra holds what only people and scripts want to see. No decision is
	// made on it. ExtraInstanceID names the one key that faces look for.
	Extra map[string]string
}

// ExtraInstanceID is the key in Sandbox.Extra under which a kind keeps the id
// that people use for the sandbox where that differs from Ref.ID.
const ExtraInstanceID = "instance_id"

// InstanceID is the id shown to people and accepted from them: the kind's own
// if it has one, else "<kind>_<id>".
func (s *Sandbox) InstanceID() string {
	if id := s.Extra[ExtraInstanceID]; id != "" {
		return id
	}
	return s.Kind + "_" + s.ID
}

// State is what a sandbox is doing, in reaperd's words.
type State string

// The closed set of states.
const (
	StateCreated   State = "created"   // exists, never started
	StateStarting  State = "starting"  // on its way up, crash loops among them
	StateRunning   State = "running"   //
	StatePaused    State = "paused"    // frozen, but its resources are held
	StateSuspended State = "suspended" // stored; stopping destroys what is stored
	StateChanging  State = "changing"  // any transition: left alone until it is over
	StateExited    State = "exited"    // ended, still lying around
	StateDead      State = "dead"      // ended, and the provider could not clear it away
	StateUnknown   State = "unknown"   // could not be read, or is not known: kept
)

var states = []State{
	StateCreated, StateStarting, StateRunning, StatePaused, StateSuspended,
	StateChanging, StateExited, StateDead, StateUnknown,
}

// States gives every state, in the order of a sandbox's life.
func States() []State { return slices.Clone(states) }

// Valid says whether s is one of the closed set.
func (s State) Valid() bool { return slices.Contains(states, s) }

// Ended says whether a sandbox in this state has stopped running for good
// unless somebody starts it again.
func (s State) Ended() bool { return s == StateExited || s == StateDead }

// Satisfies says whether a sandbox in this state already is what the action
// would make of it, so that carrying it out would change nothing.
func (s State) Satisfies(a Action) bool {
	switch a {
	case ActionStop:
		return s.Ended() || s == StateCreated
	case ActionPause:
		return s == StatePaused || s == StateSuspended || s.Ended() || s == StateCreated
	default:
		return false
	}
}
