package scan

import (
	"sync"
	"time"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// remembered is for how long a pulse outlives the last sight of its sandbox: a
// list that wrongly came back empty must not make everything young again.
const remembered = 7 * 24 * time.Hour

// pulses is what reaperd itself remembers of one provider's sandboxes.
type pulses struct {
	leases *lease.Book

	mu     sync.Mutex
	kept   map[pulseKey]*pulse
	ids    ids
	lists  int
	origin lease.Origin // of what the stamps are
	dirty  bool         // something besides the last sights is not saved
}

type pulseKey struct{ id, revision string }

func keyOf(sb *providers.Sandbox) pulseKey { return pulseKey{sb.ID, sb.Revision} }

// pulse is what is remembered of one sandbox.
type pulse struct {
	firstSeen, lastSeen, stateSince, lastBeat stamp
	run

	state providers.State // when it was last seen and could be read
	list  int             // the number of the last list that had it
	ended end             // how it was recorded to have ended, if it was not seen alive since
	// told holds what was already counted and logged of this sandbox, so that
	// each such thing is told once.
	told map[string]bool

	foreign   bool  // its stamps are from before the machine's last start
	saved     bool  // whether all but lastSeen is as it was saved
	savedSeen stamp // lastSeen as it was saved
}

// stamp is a time in a third of the space: nanoseconds since 1970, 0 for none.
// There is one set for every sandbox that was seen within a week.
type stamp int64

func stampOf(t time.Time) stamp {
	if t.Before(time.Unix(0, 1)) || t.After(lastStamp) { // no time, as far as that goes
		return 0
	}
	return stamp(t.UnixNano())
}

// lastStamp is the end of what fits.
var lastStamp = time.Unix(0, 1<<63-1)

func (s stamp) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(s)).UTC()
}

// end is how a sandbox ended: by an action of reaperd's, or gone without it.
type end string

const (
	notEnded   end = ""
	goneItself end = "gone"
)

// outlived says whether a sandbox that ended so is alive again, by the state
// in which it was looked at.
func (e end) outlived(s providers.State) bool {
	switch e {
	case notEnded, goneItself, end(providers.ActionPause): // that one may be resumed by right
		return false
	default:
		return running(s) && !s.Satisfies(providers.Action(e))
	}
}

func (p *pulse) tell(what string) {
	if p.told == nil {
		p.told = map[string]bool{}
	}
	p.told[what] = true
}

func newPulses(leases *lease.Book) *pulses {
	return &pulses{leases: leases, kept: map[pulseKey]*pulse{}, ids: newIDs()}
}

// see joins each sandbox of a list with what is remembered of it, as items that
// are to be judged. One that
// stands in the list twice, as pages that shift make it, is taken once. back
// are those that had been ended and are listed as alive.
func (p *pulses) see(seen []providers.Sandbox, m moment) (items []policy.Item, back []providers.Sandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follow(m.origin)
	p.lists++
	items = make([]policy.Item, 0, len(seen))
	for i := range seen {
		sb := &seen[i]
		known := p.touch(sb, m.now)
		if known.list == p.lists {
			continue
		}
		known.list = p.lists
		if known.ended.outlived(sb.State) {
			back = append(back, *sb)
		}
		items = append(items, policy.Item{Facts: p.join(sb, known, m)})
	}
	for k, known := range p.kept {
		if m.now.Sub(known.lastSeen.time()) > remembered {
			delete(p.kept, k)
			p.ids.forget(k.id)
		}
	}
	return items, back
}

// look joins one sandbox, looked at by itself, with what is remembered of it.
// back says that it is alive again after reaperd had ended it.
func (p *pulses) look(sb providers.Sandbox, m moment) (f policy.Facts, back bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follow(m.origin)
	known := p.touch(&sb, m.now)
	back = known.ended.outlived(sb.State)
	if known.ended != notEnded && !sb.State.Satisfies(providers.Action(known.ended)) {
		known.ended = notEnded
		p.change(known)
	}
	return p.join(&sb, known, m), back
}

// again brings the pulse in facts up to date, without another sight.
func (p *pulses) again(f *policy.Facts, m moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follow(m.origin)
	if known := p.kept[keyOf(&f.Sandbox)]; known != nil {
		f.Pulse = p.pulse(&f.Sandbox, known, m)
	}
}

// end notes how the sandbox ended, and says whether that was known: a list may
// go on showing what is gone.
func (p *pulses) end(sb providers.Sandbox, how end) (known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.kept[keyOf(&sb)]
	if k == nil {
		return false
	}
	known = k.ended == how || k.ended == end(providers.ActionRemove)
	if k.ended != how {
		k.ended = how
		p.change(k)
	}
	return known
}

// change notes that there is something to save.
func (p *pulses) change(known *pulse) {
	known.saved = false
	p.dirty = true
}

// over says whether the sandbox with that id was recorded to be gone.
func (p *pulses) over(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.ids.latest[id]
	return known != nil && (known.ended == goneItself || known.ended == end(providers.ActionRemove))
}

// follow has our own stamps follow a clock that was set, so that what they are
// of is as long ago as before. Of those that an earlier run of the machine left
// nobody knows whether its clock was right before that or is now: they move only
// where that lengthens a life.
func (p *pulses) follow(origin lease.Origin) {
	if p.origin == origin {
		return
	}
	by := stamp(0)
	if !p.origin.Zero.IsZero() {
		by = stamp(origin.Zero.Sub(p.origin.Zero))
	}
	p.origin = origin
	if by == 0 {
		return
	}
	for _, known := range p.kept {
		if known.foreign && by < 0 {
			continue
		}
		for _, t := range []*stamp{&known.firstSeen, &known.lastSeen, &known.stateSince, &known.lastBeat, &known.savedSeen} {
			if *t != 0 {
				*t += by
			}
		}
		p.change(known)
	}
}

func (p *pulses) touch(sb *providers.Sandbox, at time.Time) *pulse {
	now := stampOf(at)
	k := keyOf(sb)
	known := p.kept[k]
	if known == nil {
		known = &pulse{firstSeen: now}
		p.kept[k] = known
		p.dirty = true
	}
	p.ids.note(sb.ID, known)
	// The run is followed before the state is, of which it asks what it was.
	if next := known.follow(sb, known.state); next != known.run {
		known.run = next
		p.change(known)
	}
	// A state that could not be read says nothing: the one before it may well
	// still hold.
	if sb.State != known.state && sb.State != providers.StateUnknown {
		known.state, known.stateSince = sb.State, now
		p.change(known)
	}
	for _, t := range []*stamp{&known.firstSeen, &known.stateSince, &known.lastBeat} {
		if *t > now { // a clock that had run ahead has stamped it
			*t = now
			p.change(known)
		}
	}
	known.lastSeen = now
	return known
}

// join gives the facts of a sandbox. It shares nothing with what is remembered.
func (p *pulses) join(sb *providers.Sandbox, known *pulse, m moment) policy.Facts {
	f := policy.Facts{Sandbox: *sb, Pulse: p.pulse(sb, known, m)}
	f.Started = known.startOf(sb)
	inOurTime(&f.Sandbox, m.ahead)
	return f
}

func (p *pulses) pulse(sb *providers.Sandbox, known *pulse, m moment) policy.Pulse {
	out := policy.Pulse{
		FirstSeen: known.firstSeen.time(), StateSince: known.stateSince.time(), LastBeat: known.lastBeat.time(),
		BlindUntil: m.heard,
	}
	if key, names := sb.Tags[policy.LeaseTag]; names {
		out.Leases = p.leases.Cover(key, m.now)
	}
	return out
}

// firstTime says whether what is told of the sandbox for the first time.
func (p *pulses) firstTime(sb providers.Sandbox, what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.kept[keyOf(&sb)]
	if known == nil || known.told[what] {
		return false
	}
	known.tell(what)
	p.change(known)
	return true
}
