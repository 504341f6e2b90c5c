package scan

import (
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestSinceWhenAStateHolds(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 30, 12, minute, 0, 0, time.UTC) }
	p := newPulses(lease.NewBook(time.Hour))
	for _, step := range []struct {
		minute int
		state  providers.State
		since  int
		why    string
	}{
		{0, providers.StateRunning, 0, "first seen so"},
		{1, providers.StateRunning, 0, "it still holds"},
		{2, providers.StateExited, 2, "it changed"},
		{3, providers.StateUnknown, 2, "what cannot be read says nothing"},
		{4, providers.StateExited, 2, "it held all the while, as far as can be told"},
		{5, providers.StateRunning, 5, "started again"},
		{1, providers.StateRunning, 1, "the clock was set back: no stamp may lie ahead"},
	} {
		sb := providers.Sandbox{Ref: providers.Ref{Provider: "p", ID: "a"}, Revision: "1", State: step.state}
		facts, _ := p.look(sb, moment{now: at(step.minute)})
		if got := facts.Pulse; !got.StateSince.Equal(at(step.since)) {
			t.Errorf("%s: since %s, want %s", step.why, got.StateSince, at(step.since))
		}
	}
}
