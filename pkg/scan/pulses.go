package scan

import (
	"sync"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// remembered is for how long a pulse outlives the last sight of its sandbox: a
// list that wrongly came back empty must not make everything young again.
const remembered = 7 * 24 * time.Hour

// pulses is what reaperd itself remembers of one provider's sandboxes.
type pulses struct {
	mu    sync.Mutex
	kept  map[pulseKey]*pulse
	lists int
}

type pulseKey struct{ id, revision string }

type pulse struct {
	policy.Pulse
	lastSeen time.Time
	state    providers.State // when it was last seen and could be read
	list     int             // the number of the last list that had it
	// ended: it was recorded as reclaimed or gone, and not looked at alive since.
	ended bool
	// told holds what was already counted and logged of this sandbox, so that
	// each such thing is told once.
	told map[string]bool

	saved     bool      // whether all but lastSeen is as it was saved
	savedSeen time.Time // lastSeen as it was saved
}

func (p *pulse) tell(what string) {
	if p.told == nil {
		p.told = map[string]bool{}
	}
	p.told[what] = true
}

func newPulses() *pulses { return &pulses{kept: map[pulseKey]*pulse{}} }

// see joins each sandbox of a list with what is remembered of it. One that
// stands in the list twice, as pages that shift make it, is taken once.
func (p *pulses) see(seen []providers.Sandbox, now time.Time) []policy.Facts {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists++
	facts := make([]policy.Facts, 0, len(seen))
	for i := range seen {
		known := p.touch(&seen[i], now)
		if known.list == p.lists {
			continue
		}
		known.list = p.lists
		facts = append(facts, policy.Facts{Sandbox: seen[i], Pulse: known.Pulse})
	}
	for k, known := range p.kept {
		if now.Sub(known.lastSeen) > remembered {
			delete(p.kept, k)
		}
	}
	return facts
}

// look joins one sandbox, looked at by itself at now, with what is remembered
// of it.
func (p *pulses) look(sb providers.Sandbox, now time.Time) policy.Facts {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.touch(&sb, now)
	known.saved = known.saved && !known.ended
	known.ended = false
	return policy.Facts{Sandbox: sb, Pulse: known.Pulse}
}

// end notes that the sandbox ended, and says whether that was known: a list
// may go on showing what is gone.
func (p *pulses) end(sb providers.Sandbox) (known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.kept[pulseKey{sb.ID, sb.Revision}]
	if k == nil {
		return false
	}
	known, k.ended = k.ended, true
	k.saved = k.saved && known
	return known
}

func (p *pulses) touch(sb *providers.Sandbox, now time.Time) *pulse {
	k := pulseKey{sb.ID, sb.Revision}
	known := p.kept[k]
	if known == nil {
		known = &pulse{Pulse: policy.Pulse{FirstSeen: now}}
		p.kept[k] = known
	}
	// A state that could not be read says nothing: the one before it may well
	// still hold.
	if sb.State != known.state && sb.State != providers.StateUnknown {
		known.state, known.StateSince, known.saved = sb.State, now, false
	}
	// What a clock that had run ahead has stamped.
	if now.Before(known.FirstSeen) {
		known.FirstSeen, known.saved = now, false
	}
	if now.Before(known.StateSince) {
		known.StateSince, known.saved = now, false
	}
	known.lastSeen = now
	return known
}

// firstTime says whether what is told of the sandbox for the first time.
func (p *pulses) firstTime(sb providers.Sandbox, what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.kept[pulseKey{sb.ID, sb.Revision}]
	if known == nil || known.told[what] {
		return false
	}
	known.tell(what)
	known.saved = false
	return true
}
