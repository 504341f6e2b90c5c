package policy

import "github.com/reaperd/reaperd/pkg/providers"

// stateSet is a set of states.
type stateSet uint16

var allStates = providers.States()

// setOf gives the set of these states. One that is not of the closed set of
// states is in none.
func setOf(states ...providers.State) stateSet {
	var set stateSet
	for _, s := range states {
		for i := range allStates {
			if allStates[i] == s {
				set |= 1 << i
			}
		}
	}
	return set
}

// String gives the states as alternatives.
func (set stateSet) String() string {
	var words []stateWord
	for i, s := range allStates {
		if set&(1<<i) != 0 {
			words = append(words, stateWord(s))
		}
	}
	return orList(words)
}

// The states in which limits are judged. A sandbox that changes is left alone
// until that is over, and of one in a state that is not known nothing is
// known. What is suspended was put aside on purpose, and to end it destroys
// what was saved: only its own limit judges it.
var (
	runningState = setOf(providers.StateRunning)
	pausedStates = setOf(providers.StatePaused, providers.StateSuspended)
	endedStates  = setOf(providers.StateExited, providers.StateDead)
	upStates     = setOf(providers.StateStarting, providers.StateRunning, providers.StatePaused)
	agingStates  = upStates | endedStates | setOf(providers.StateCreated)
	judgedStates = agingStates | pausedStates
)

// satisfying gives the states in which the action would change nothing.
func satisfying(a providers.Action) stateSet {
	var set stateSet
	for _, s := range allStates {
		if s.Satisfies(a) {
			set |= setOf(s)
		}
	}
	return set
}
