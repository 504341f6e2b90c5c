package scan

import (
	"maps"
	"slices"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/store"
)

// seenEvery is how far the kept last sight of a sandbox may lie behind, so
// that a state in which nothing happens is not written to.
const seenEvery = time.Hour

// toldEnded stands among what was told of a sandbox for that it ended.
const toldEnded = "ended"

// recall takes in what was remembered before this daemon began. What it has
// seen since, because that could not be read at once, is taken for the
// continuation of it.
func (p *pulses) recall(kept []store.Pulse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range kept {
		p.recallOne(&kept[i])
	}
}

func (p *pulses) recallOne(was *store.Pulse) {
	if was.FirstSeen.IsZero() {
		return // it says nothing; a pulse without it would keep for ever
	}
	k := pulseKey{was.ID, was.Revision}
	now := p.kept[k]
	if now == nil {
		now = &pulse{
			Pulse: policy.Pulse{FirstSeen: was.FirstSeen, StateSince: was.StateSince},
			state: was.State, lastSeen: was.LastSeen, savedSeen: was.LastSeen, saved: true,
		}
		p.kept[k] = now
	} else {
		sameState := now.state == was.State && now.StateSince.Equal(now.FirstSeen) && !was.StateSince.IsZero()
		if sameState && was.StateSince.Before(now.StateSince) {
			now.StateSince = was.StateSince
		}
		if was.FirstSeen.Before(now.FirstSeen) {
			now.FirstSeen = was.FirstSeen
		}
	}
	for _, what := range was.Told {
		if what == toldEnded {
			now.ended = true
			continue
		}
		now.tell(what)
	}
}

// unsaved gives what is new since it was last asked.
func (p *pulses) unsaved(provider string) []store.Pulse {
	p.mu.Lock()
	defer p.mu.Unlock()
	var fresh []store.Pulse
	for k, known := range p.kept {
		seen := known.lastSeen.Sub(known.savedSeen)
		if known.saved && seen >= 0 && seen < seenEvery {
			continue
		}
		known.saved, known.savedSeen = true, known.lastSeen
		fresh = append(fresh, store.Pulse{
			Provider: provider, ID: k.id, Revision: k.revision, FirstSeen: known.FirstSeen, LastSeen: known.lastSeen,
			State: known.state, StateSince: known.StateSince, Told: known.allTold(),
		})
	}
	return fresh
}

// notSaved takes back that they are saved.
func (p *pulses) notSaved(ps []store.Pulse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ps {
		if known := p.kept[pulseKey{ps[i].ID, ps[i].Revision}]; known != nil {
			known.saved = false
		}
	}
}

func (p *pulse) allTold() []string {
	all := slices.Sorted(maps.Keys(p.told))
	if p.ended {
		all = append(all, toldEnded)
	}
	return all
}
