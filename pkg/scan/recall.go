package scan

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/store"
)

// seenEvery is how far the kept last sight of a sandbox may lie behind, so
// that a state in which nothing happens is not written to.
const seenEvery = time.Hour

// toldEnded begins, among what was told of a sandbox, how it ended.
const toldEnded = "ended "

// recall takes in what was remembered before this daemon began. What it has
// seen since, because that could not be read at once, is taken for the
// continuation of it.
func (p *pulses) recall(kept []store.Pulse, m moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follow(m.origin)
	for i := range kept {
		p.recallOne(&kept[i])
	}
}

func (p *pulses) recallOne(was *store.Pulse) {
	moved := *was
	by, known := was.Origin.To(p.origin)
	for _, t := range []*time.Time{&moved.FirstSeen, &moved.LastSeen, &moved.StateSince, &moved.LastBeat} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	was = &moved
	if stampOf(was.FirstSeen) == 0 {
		return // it says nothing; a pulse without it would keep for ever
	}
	k := pulseKey{was.ID, was.Revision}
	now := p.kept[k]
	if now == nil {
		seen := stampOf(was.LastSeen)
		now = &pulse{
			foreign:   !known,
			firstSeen: stampOf(was.FirstSeen), lastSeen: seen, savedSeen: seen,
			stateSince: stampOf(was.StateSince), state: was.State, saved: true,
			run: run{stampOf(was.UpSince), stampOf(was.Started), int32(was.Restarts)},
		}
		p.kept[k] = now
		if latest := p.ids.latest[was.ID]; latest == nil || latest.lastSeen < seen {
			p.ids.note(was.ID, now)
		}
	} else {
		now.foreign = now.foreign || !known
		now.goOn(was)
	}
	now.lastBeat = max(now.lastBeat, stampOf(was.LastBeat))
	for _, what := range was.Told {
		if how, is := strings.CutPrefix(what, toldEnded); is {
			now.ended = end(how)
			continue
		}
		now.tell(what)
	}
}

// goOn takes what was seen since for the continuation of what was before.
func (p *pulse) goOn(was *store.Pulse) {
	since := stampOf(was.StateSince)
	if p.state == was.State && p.stateSince == p.firstSeen && since != 0 {
		p.stateSince = min(p.stateSince, since)
	}
	before := run{stampOf(was.UpSince), stampOf(was.Started), int32(was.Restarts)}
	if before.continuedBy(p.run, was.State) {
		p.up = min(p.up, before.up)
	}
	p.firstSeen = min(p.firstSeen, stampOf(was.FirstSeen))
}

// unsaved gives what is new since it was last asked.
func (p *pulses) unsaved(provider string) []store.Pulse {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirty = false
	var fresh []store.Pulse
	for k, known := range p.kept {
		seen := known.lastSeen - known.savedSeen
		if known.saved && seen >= 0 && seen < stamp(seenEvery) {
			continue
		}
		known.saved, known.savedSeen = true, known.lastSeen
		origin := p.origin
		if known.foreign {
			origin = lease.Origin{}
		}
		fresh = append(fresh, store.Pulse{
			Origin:   origin,
			Provider: provider, ID: k.id, Revision: k.revision,
			FirstSeen: known.firstSeen.time(), LastSeen: known.lastSeen.time(),
			State: known.state, StateSince: known.stateSince.time(), LastBeat: known.lastBeat.time(),
			UpSince: known.up.time(), Started: known.started.time(), Restarts: int(known.restarts), Told: known.allTold(),
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
			p.change(known)
		}
	}
}

// changed says whether something besides last sights is not saved.
func (p *pulses) changed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dirty
}

func (p *pulse) allTold() []string {
	all := slices.Sorted(maps.Keys(p.told))
	if p.ended != notEnded {
		all = append(all, toldEnded+string(p.ended))
	}
	return all
}
