package docker

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"golang.org/x/sync/errgroup"

	"github.com/reaperd/reaperd/pkg/providers"
)

// inventory remembers what was read of each container, so that a list which
// finds nothing new costs one call however many containers there are.
//
// A remembered container is read again when the list shows another state for
// it, and when an event was heard of it since. One that somebody restarts
// between two lists while nobody watches runs before and after, and so keeps
// its old Started and Restarts here until the next Get. That is safe: whoever
// acts on a sandbox reads it with Get first and judges again, and Get also
// corrects what is remembered.
type inventory struct {
	mu        sync.Mutex
	byID      map[string]*record
	events    uint64    // how many were heard
	lastEvent time.Time // when the last one was, by the engine's clock
}

// record is what is known of one container. Records are replaced, not changed.
type record struct {
	sandbox providers.Sandbox
	read    bool // sandbox came from an inspect at some time
	// asked is how many events had been heard when that inspect began, and heard
	// the number of the last one about this container: if that is higher, the
	// inspect may tell how things were before it.
	asked, heard uint64
	// pausedSince is when the container was paused, which only the event tells.
	// It is zero when it is not paused, or nobody watched all the time since.
	pausedSince time.Time
	// unreadUntil is set by an inspect that failed: until then List does not
	// ask again, since one wedged container can hold each inspect for ever.
	unreadUntil time.Time
}

func newInventory() inventory { return inventory{byID: map[string]*record{}} }

func (inv *inventory) get(id string) *record {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.byID[id]
}

// copied gives a record to change and put in the place of the one there is.
// The caller holds mu.
func (inv *inventory) copied(id string) *record {
	r := record{}
	if known := inv.byID[id]; known != nil {
		r = *known
	}
	return &r
}

// asking gives what learn and keep want to know of when a call was begun.
func (inv *inventory) asking() uint64 {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.events
}

// learn remembers what an inspect told and gives the sandbox with what the
// events tell filled in.
func (inv *inventory) learn(sb providers.Sandbox, asked uint64) providers.Sandbox {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	r := inv.copied(sb.ID)
	if sb.State == providers.StatePaused {
		sb.PausedSince = r.pausedSince
	} else if r.heard <= asked { // else it may have been paused since
		r.pausedSince = time.Time{}
	}
	r.sandbox, r.read, r.asked, r.unreadUntil = sb, true, asked, time.Time{}
	inv.byID[sb.ID] = r
	return sb
}

// hear takes account of an event and says whether it is of interest: the
// server's filters only narrow.
func (inv *inventory) hear(m events.Message) bool {
	id, at := m.Actor.ID, when(m)
	if m.Type != events.ContainerEventType || !slices.Contains(told, m.Action) || !fullID.MatchString(id) {
		return false
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.events++
	inv.lastEvent = at
	if m.Action == events.ActionDestroy || m.Action == events.ActionRemove {
		delete(inv.byID, id)
		return true
	}
	r := inv.copied(id)
	r.heard = inv.events
	switch m.Action {
	case events.ActionPause:
		r.pausedSince = at
	case events.ActionRename: // which a paused one may be
	default:
		r.pausedSince = time.Time{}
	}
	inv.byID[id] = r
	return true
}

// lastHeard is the time of the last event as the engine's API takes it, "" if
// there was none.
func (inv *inventory) lastHeard() string {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.lastEvent.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d.%09d", inv.lastEvent.Unix(), inv.lastEvent.Nanosecond())
}

// forgetPauses is for when events may have been missed: one that was unpaused
// and paused again would pass for paused all the while.
func (inv *inventory) forgetPauses() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for id, known := range inv.byID {
		if !known.pausedSince.IsZero() || !known.sandbox.PausedSince.IsZero() {
			r := *known
			r.pausedSince, r.sandbox.PausedSince = time.Time{}, time.Time{}
			inv.byID[id] = &r
		}
	}
}

// doubt remembers until when a container is not read again.
func (inv *inventory) doubt(id string, until time.Time) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	r := inv.copied(id)
	r.unreadUntil = until
	inv.byID[id] = r
}

func (inv *inventory) forget(id string) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	delete(inv.byID, id)
}

// keep forgets all containers that are not among those listed, unless there
// was an event of them since the list was asked for.
func (inv *inventory) keep(listed []container.Summary, asked uint64) {
	present := make(map[string]struct{}, len(listed))
	for i := range listed {
		present[listed[i].ID] = struct{}{}
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for id, r := range inv.byID {
		if _, ok := present[id]; !ok && r.heard <= asked {
			delete(inv.byID, id)
		}
	}
}

// List asks the engine for its containers in every state (GET
// /containers/json?all=1) and inspects those that are new, have changed their
// state or were heard of since.
func (p *Provider) List(ctx context.Context) ([]providers.Sandbox, error) {
	ctx, cancel := orElse(ctx, p.deadlines.list)
	defer cancel()
	asked := p.inventory.asking()
	listed, failed := call(ctx, p.conn, func(ctx context.Context, e *liveClient) ([]container.Summary, error) {
		return e.ContainerList(ctx, container.ListOptions{All: true})
	})
	if failed.is(http.StatusNotFound) { // not a sandbox that is gone: no engine at all
		return nil, fmt.Errorf("list containers: %s has no such call: %w", p.conn.where(), providers.ErrUnavailable)
	}
	if failed != nil {
		return nil, fmt.Errorf("list containers: %w", failed.translated())
	}
	// Who reaperd itself is need not be known here: Stop refuses until it is.
	_ = p.self.find(ctx, p)

	found := make([]*providers.Sandbox, len(listed)) // nil: it vanished
	var reads errgroup.Group
	reads.SetLimit(inspectsAtOnce)
	for i := range listed {
		s := &listed[i]
		if sb, fresh := p.remembered(s); fresh {
			found[i] = &sb
			continue
		}
		reads.Go(func() error {
			found[i] = p.read(ctx, s)
			return nil
		})
	}
	_ = reads.Wait() // each says in found how it went
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list containers: read their details: %w", err)
	}
	p.inventory.keep(listed, asked)
	p.activity.keep(listed)

	all := make([]providers.Sandbox, 0, len(found))
	for _, sb := range found {
		if sb != nil {
			all = append(all, *sb)
		}
	}
	return all, nil
}

// remembered gives a listed container without reading it, if that can be done.
func (p *Provider) remembered(s *container.Summary) (sb providers.Sandbox, fresh bool) {
	r := p.inventory.get(s.ID)
	if r == nil {
		return providers.Sandbox{}, false
	}
	if !r.unreadUntil.IsZero() {
		if p.now().Before(r.unreadUntil) {
			return p.unread(s), true
		}
		return providers.Sandbox{}, false
	}
	if r.heard > r.asked || otherState(r.sandbox, s.State) {
		return providers.Sandbox{}, false
	}
	sb = r.sandbox
	if name := ownName(s.Names); name != "" && name != sb.Name { // renamed, which changes no state
		sb.Name = name
		sb.Extra = map[string]string{providers.ExtraInstanceID: instanceID(sb)}
	}
	return sb, true
}

// otherState says whether a list shows another state than an inspect told.
// Podman 4.3.1 lists as stopped what it inspects as exited.
func otherState(sb providers.Sandbox, listed string) bool {
	return sb.RawState != listed && (listed != "stopped" || sb.RawState != container.StateExited)
}

// read inspects a listed container. It gives nil for one that is gone, and one
// of unknown state for one that cannot be read.
func (p *Provider) read(ctx context.Context, s *container.Summary) *providers.Sandbox {
	limit := p.deadlines.inspect
	if until, has := ctx.Deadline(); has { // a list in a hurry is not to be lost over this one
		limit = min(limit, time.Until(until)/2)
	}
	own, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sb, _, failed := p.inspect(own, s.ID)
	switch {
	case failed == nil:
		return &sb
	case failed.is(http.StatusNotFound):
		return nil
	case ctx.Err() != nil: // the whole list ran out of time, not this container
		return nil
	case !failed.noEntry: // that says nothing of this container
		p.inventory.doubt(s.ID, p.now().Add(p.deadlines.blind))
	}
	sb = p.unread(s)
	return &sb
}

func (p *Provider) unread(s *container.Summary) providers.Sandbox {
	var known *providers.Sandbox
	if r := p.inventory.get(s.ID); r != nil && r.read {
		known = &r.sandbox
	}
	sb := unread(p.name, *s, known)
	sb.Self = sb.Self || p.self.isID(s.ID)
	return sb
}

// Get inspects one container (GET /containers/{id}/json). It takes full ids
// only: a name or the start of an id may mean another container tomorrow.
func (p *Provider) Get(ctx context.Context, id string) (providers.Sandbox, error) {
	if !fullID.MatchString(id) {
		return providers.Sandbox{}, fmt.Errorf("get %s: not a full container id: %w", clip(id), providers.ErrNotFound)
	}
	ctx, cancel := orElse(ctx, p.deadlines.get)
	defer cancel()
	_ = p.self.find(ctx, p) // as in List
	sb, _, failed := p.inspect(ctx, id)
	if failed != nil {
		return providers.Sandbox{}, fmt.Errorf("get %s: %w", short(id), failed.translated())
	}
	return sb, nil
}

// inspect reads one container and remembers it.
func (p *Provider) inspect(ctx context.Context, id string) (providers.Sandbox, container.InspectResponse, *callError) {
	asked := p.inventory.asking()
	c, failed := p.rawInspect(ctx, id)
	if failed == nil && c.ID != id { // a name that looks like an id
		failed = &callError{exchange: exchange{status: http.StatusNotFound}, err: providers.ErrNotFound}
	}
	if failed.is(http.StatusNotFound) {
		p.inventory.forget(id)
	}
	if failed != nil {
		return providers.Sandbox{}, container.InspectResponse{}, failed
	}
	sb := sandbox(p.name, c)
	if sb.Owner == "" && p.holdsPod(ctx, c) {
		sb.Owner = ownerPod
	}
	sb.Self = p.self.includes(c)
	return p.inventory.learn(sb, asked), c, nil
}

func (p *Provider) rawInspect(ctx context.Context, id string) (container.InspectResponse, *callError) {
	return call(ctx, p.conn, func(ctx context.Context, e *liveClient) (container.InspectResponse, error) {
		c, err := e.ContainerInspect(ctx, id)
		if err == nil {
			err = complete(c)
		}
		return c, err
	})
}
