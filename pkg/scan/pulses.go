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
	mu   sync.Mutex
	kept map[pulseKey]*pulse
}

type pulseKey struct{ id, revision string }

type pulse struct {
	policy.Pulse
	lastSeen time.Time
	// told holds what was already counted and logged of this sandbox, so that
	// each such thing is told once.
	told map[string]bool
}

func newPulses() *pulses { return &pulses{kept: map[pulseKey]*pulse{}} }

// see joins each sandbox with what is remembered of it.
func (p *pulses) see(seen []providers.Sandbox, now time.Time) []policy.Facts {
	p.mu.Lock()
	defer p.mu.Unlock()
	facts := make([]policy.Facts, len(seen))
	for i, sb := range seen {
		facts[i] = policy.Facts{Sandbox: sb, Pulse: p.touch(sb, now).Pulse}
	}
	for k, known := range p.kept {
		if now.Sub(known.lastSeen) > remembered {
			delete(p.kept, k)
		}
	}
	return facts
}

// look joins one sandbox, seen at now, with what is remembered of it.
func (p *pulses) look(sb providers.Sandbox, now time.Time) policy.Facts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return policy.Facts{Sandbox: sb, Pulse: p.touch(sb, now).Pulse}
}

func (p *pulses) touch(sb providers.Sandbox, now time.Time) *pulse {
	k := pulseKey{sb.ID, sb.Revision}
	known := p.kept[k]
	if known == nil {
		known = &pulse{Pulse: policy.Pulse{FirstSeen: now}}
		p.kept[k] = known
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
	if known.told == nil {
		known.told = map[string]bool{}
	}
	known.told[what] = true
	return true
}
