package simulation_test

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// world is the truth: every sandbox as it really is, whatever is told of it.
type world struct {
	seed  uint64
	scale scale
	clock *clock
	story *story
	judge *oracle

	mu     sync.Mutex
	places []*place
	births int
	leases map[string]*tenancy
}

// place is one provider's side of the world.
type place struct {
	*world
	name   string
	traits traits
	dry    bool // configured as a dry run

	boxes    map[string]*box // by id, those that are there
	all      []*box          // also those that are gone, in the order of birth
	recent   []*box          // those that a list may show
	by       map[[2]string]*box
	calls    map[string]int // by what was called
	troubles []trouble
	watchers map[*life]func(id string)
}

// traits are what a provider always is like, without being out of order.
type traits struct {
	latency  time.Duration // at most, of an answer
	lagNew   time.Duration // how long a new sandbox is in no list
	lagGone  time.Duration // how long a list may go on showing what is gone
	stopping time.Duration // how long an accepted stop may take
	twice    float64       // how likely a list has some sandboxes twice
	sayless  float64       // how likely the times of a sandbox are garbage
	skew     time.Duration // its clock's, against the truth
	tells    bool          // it tells of changes, and of the time
	probes   bool          // it can be asked whether it is fit
}

// box is one sandbox, from its birth to its end: another use of the same id is
// another box.
type box struct {
	*place
	id, revision string
	sandbox      providers.Sandbox // as it is now
	alive        bool
	born, died   time.Duration
	versions     []version // everything it ever was, the first one first

	// looping: its engine starts it again and again.
	looping bool
	// deaf until then: stops are accepted and change nothing.
	deafUntil time.Duration
	// ends is how often it ended or was paused by whomever, ours how often by a
	// stop of the daemon's.
	ends, ours int

	shown  shown
	seenBy *life
	// beats are its heartbeats that were heard, in true time, tried the last that
	// was sent.
	beats []time.Duration
	tried time.Duration
	kept  kept
	tale  []event
	last  string // what the last list showed of it, to tell changes only
}

// version is what a sandbox was from a moment on.
type version struct {
	at time.Duration
	providers.Sandbox
}

// shown is when the daemon could first know of what counts from first seen, in
// true time; negative while it could not.
type shown struct {
	first, since time.Duration // the sandbox; the state
	state        providers.State
}

// kept is since when the daemon's memory surely has it, in true time; negative
// while it has not.
type kept struct {
	first, since time.Duration
	state        providers.State
	// run is which run it has, and began when that began as far as it was told.
	run   string
	began time.Time
}

const never = time.Duration(-1)

func newWorld(seed uint64, sc scale) *world {
	c := newClock(max(30*time.Second, sc.interval/4))
	w := &world{seed: seed, scale: sc, clock: c, leases: map[string]*tenancy{}}
	w.story = &story{clock: c}
	w.judge = newOracle(w)
	return w
}

func (w *world) add(name string, t traits, dry bool) *place {
	p := &place{world: w, name: name, traits: t, dry: dry, boxes: map[string]*box{}, by: map[[2]string]*box{}, calls: map[string]int{},
		watchers: map[*life]func(id string){}}
	w.places = append(w.places, p)
	return p
}

// stamp is what the provider's clock shows.
func (p *place) stamp(at time.Duration) time.Time { return epoch.Add(at + p.traits.skew) }

// bear puts a new sandbox into the place. The world is locked.
func (p *place) bear(id string, sb providers.Sandbox, why string) *box {
	now := p.clock.Boot()
	p.births++
	b := &box{place: p, id: id, revision: "r" + strconv.Itoa(p.births), alive: true, born: now, kept: kept{first: never, since: never},
		shown: shown{first: never, since: never}, tried: never}
	sb.Ref, sb.Kind, sb.Revision, sb.Name = providers.Ref{Provider: p.name, ID: id}, simKind, b.revision, "name-"+id
	b.sandbox = sb
	b.versions = []version{{now, sb}}
	p.boxes[id] = b
	p.all, p.recent = append(p.all, b), append(p.recent, b)
	p.by[[2]string{id, b.revision}] = b
	b.tell("born %s: %s", why, show(sb))
	b.announce()
	return b
}

// change makes the sandbox something else. The world is locked.
func (b *box) change(why string, f func(sb *providers.Sandbox)) {
	f(&b.sandbox)
	b.versions = append(b.versions, version{b.clock.Boot(), b.sandbox})
	b.tell("%s: %s", why, show(b.sandbox))
	b.announce()
}

// announce tells those who watch that the sandbox changed.
func (b *box) announce() {
	for _, changed := range b.watchers {
		changed(b.id)
	}
}

// retag is change of one tag; the maps in earlier versions stay as they are.
func (b *box) retag(key, value string, present bool) {
	b.change("tagged", func(sb *providers.Sandbox) {
		tags := maps.Clone(sb.Tags)
		if tags == nil {
			tags = map[string]string{}
		}
		if tags[key] = value; !present {
			delete(tags, key)
		}
		sb.Tags = tags
	})
}

// die takes the sandbox out of the world. The world is locked.
func (b *box) die(why string) {
	b.alive, b.died = false, b.clock.Boot()
	b.ends++
	delete(b.place.boxes, b.id)
	b.tell("%s: gone", why)
	b.announce()
}

// end makes the sandbox exited. The world is locked.
func (b *box) end(why string) {
	b.ends++
	b.change(why, func(sb *providers.Sandbox) {
		sb.State, sb.Ended = providers.StateExited, b.stamp(b.clock.Boot())
	})
}

// freeze pauses the sandbox. The world is locked.
func (b *box) freeze(why string, state providers.State) {
	b.ends++
	b.change(why, func(sb *providers.Sandbox) {
		sb.State, sb.PausedSince = state, b.stamp(b.clock.Boot())
		if b.looping || luckOf(b.seed, b.id, b.revision, "pausedsince").chance(b.traits.sayless) {
			sb.PausedSince = time.Time{}
		}
	})
}

// at gives what the sandbox was at a moment; false if it was not there.
func (b *box) at(t time.Duration) (providers.Sandbox, bool) {
	if t < b.born || !b.alive && t >= b.died {
		return providers.Sandbox{}, false
	}
	for _, v := range slices.Backward(b.versions) {
		if v.at <= t {
			return v.Sandbox, true
		}
	}
	return providers.Sandbox{}, false
}

// settled is when it last changed, other than by its engine's starting it
// again.
func (b *box) settled() time.Duration {
	last := len(b.versions) - 1
	for last > 0 && b.versions[last].Restarts > b.versions[last-1].Restarts {
		last--
	}
	return b.versions[last].at
}

// entered is since when it is in its state.
func (b *box) entered() time.Duration {
	first := len(b.versions) - 1
	for first > 0 && b.versions[first-1].State == b.sandbox.State {
		first--
	}
	return b.versions[first].at
}

// lives says whether it is alive, to who does not hold the world.
func (b *box) lives() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.alive
}

// see notes that the daemon was shown the sandbox in this state just now.
func (b *box) see(l *life, sb providers.Sandbox) {
	b.seenBy = l
	s, now := &b.shown, b.clock.Boot()
	if s.first == never {
		s.first = now
	}
	if sb.State != s.state && sb.State != providers.StateUnknown {
		s.state, s.since = sb.State, now
	}
}

// keep notes that the memory has a pulse of it now.
func (b *box) keep(state providers.State) {
	now := b.clock.Boot()
	if b.kept.first == never {
		b.kept.first = now
	}
	if b.kept.state != state {
		b.kept.state, b.kept.since = state, now
	}
	if run := b.sandbox.Extra[tagRun]; run != b.kept.run {
		b.kept.run, b.kept.began = run, b.sandbox.Started
	}
}

// incarnation finds a sandbox by what never names two.
func (p *place) incarnation(id, revision string) *box { return p.by[[2]string{id, revision}] }

// place finds a place by its name.
func (w *world) place(name string) *place {
	for _, p := range w.places {
		if p.name == name {
			return p
		}
	}
	return nil
}
