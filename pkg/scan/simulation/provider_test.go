package simulation_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// simKind is the kind of every simulated provider.
const simKind = "sim"

// callTimeout is what the daemon gives every list and look.
const callTimeout = 10 * time.Second

// line is one daemon's way to one place: a providers.Provider.
type line struct {
	life *life
	*place
}

// call begins one call: its luck, and for how long the answer takes.
func (c *line) call(op, id string) (luck, time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.dead || c.life.dies("before "+op) {
		return 0, 0, errDead
	}
	c.calls[op+id]++
	l := luckOf(c.seed, c.place.name, op, id, strconv.Itoa(c.calls[op+id]))
	return l, l.next().between(time.Millisecond, c.traits.latency), nil
}

// List implements providers.Provider.
func (c *line) List(ctx context.Context) ([]providers.Sandbox, error) {
	all, err := c.list(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.dead {
		return nil, errDead
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		c.answered()
	}
	c.judge.listed(c, all, err)
	if err != nil {
		return nil, err
	}
	if !c.traits.probes || c.life.unprobed[c.place] {
		c.life.fit(c.place)
	}
	return all, nil
}

func (c *line) list(ctx context.Context) ([]providers.Sandbox, error) {
	l, latency, err := c.call("list", "")
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	what := c.troubled(l, listFails, listHangs, listPanics, listSlow, allFails, allHangs)
	c.mu.Unlock()
	switch what {
	case listHangs, allHangs:
		return nil, hang(ctx)
	case listPanics:
		c.mu.Lock()
		c.judge.listed(c, nil, errBroken)
		c.mu.Unlock()
		panic("simulated: the provider's code panics")
	}
	if !pass(ctx, latency) {
		return nil, ctx.Err()
	}
	if what == listFails || what == allFails {
		return nil, failure(l)
	}
	all := c.snapshot(l)
	if what == listSlow && !pass(ctx, l.next().next().between(0, callTimeout+callTimeout/4)) {
		return nil, ctx.Err()
	}
	return all, nil
}

// snapshot is what a list says that is made now.
func (c *line) snapshot(l luck) []providers.Sandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Boot()
	if c.troubled(l, listEmpty) != "" {
		return []providers.Sandbox{}
	}
	at := now
	if c.troubled(l, listStale) != "" {
		at -= l.next().between(0, c.scale.interval)
	}
	byID := map[string]providers.Sandbox{}
	c.recent = slices.DeleteFunc(c.recent, func(b *box) bool {
		return !b.alive && now-b.died > c.traits.lagGone+c.scale.interval
	})
	for _, b := range c.recent {
		sb, there := b.at(at)
		if !there && !b.alive && at < b.died+c.traits.lagGone { // the dead go on being shown
			sb, there = b.versions[len(b.versions)-1].Sandbox, true
		}
		own := luckOf(uint64(l), b.id)
		if !there || at < b.born+c.traits.lagNew || c.troubled(own, listLoses) != "" {
			continue
		}
		byID[b.id] = sb
	}
	all := slices.SortedFunc(maps.Values(byID), func(a, b providers.Sandbox) int { return cmp.Compare(a.ID, b.ID) })
	if len(all) > 1 && l.next().next().next().chance(c.traits.twice) { // pages that shift
		all = append(all, all[len(all)/2:]...)
	}
	return all
}

// Get implements providers.Provider.
func (c *line) Get(ctx context.Context, id string) (providers.Sandbox, error) {
	until, bounded := ctx.Deadline()
	glance := bounded && time.Until(until) < callTimeout-time.Millisecond // which says nothing of the place
	sb, err := c.get(ctx, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.incarnation(id, sb.Revision)
	switch {
	case c.life.dead:
		return providers.Sandbox{}, errDead
	case err == nil && ctx.Err() != nil:
		err = ctx.Err()
	case b != nil:
		c.answered()
		b.see(c.life, sb)
		b.tell("looked at: %s", show(sb))
	}
	if last := c.boxes[id]; err != nil && last != nil {
		last.tell("looked at: %v", err)
	}
	if !glance {
		c.life.called(c.place, id, err)
	}
	return sb, err
}

func (c *line) get(ctx context.Context, id string) (providers.Sandbox, error) {
	l, latency, err := c.call("get", id)
	if err != nil {
		return providers.Sandbox{}, err
	}
	c.mu.Lock()
	c.life.looks[c.place.name+"/"+id] = c.clock.Boot()
	what := c.troubled(l, getFails, getHangs, getSlow, allFails, allHangs)
	c.mu.Unlock()
	switch what {
	case getHangs, allHangs:
		return providers.Sandbox{}, hang(ctx)
	case getFails, allFails:
		err = failure(l)
	}
	if !pass(ctx, latency) {
		return providers.Sandbox{}, ctx.Err()
	}
	if err != nil {
		return providers.Sandbox{}, err
	}
	c.mu.Lock()
	b, there := c.boxes[id]
	var sb providers.Sandbox
	if there {
		sb = b.sandbox
	}
	c.mu.Unlock()
	if what == getSlow && !pass(ctx, l.next().next().between(0, callTimeout)) {
		return providers.Sandbox{}, ctx.Err()
	}
	if !there {
		return providers.Sandbox{}, fmt.Errorf("get %s: %w", id, providers.ErrNotFound)
	}
	return sb, nil
}

// Stop implements providers.Provider.
func (c *line) Stop(ctx context.Context, sb providers.Sandbox, o providers.StopOptions) error {
	err := c.stop(ctx, sb, o)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.dead {
		return errDead
	}
	if b := c.incarnation(sb.ID, sb.Revision); b != nil {
		b.tell("the %s answered: %v", o.Action, err)
	}
	c.life.called(c.place, sb.ID, err)
	return err
}

func (c *line) stop(ctx context.Context, sb providers.Sandbox, o providers.StopOptions) error {
	l, latency, err := c.call("stop", sb.ID)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if b := c.boxes[sb.ID]; b != nil && b.revision == sb.Revision {
		b.tell("told to %s", o.Action)
		c.judge.arrival(c.life, b, string(o.Action))
	}
	what := c.troubled(l, stopFails, stopHangs, stopCut, stopMute, stopLies, allFails, allHangs)
	c.mu.Unlock()
	switch what {
	case stopHangs, allHangs:
		return hang(ctx)
	case stopLies:
		pass(ctx, latency)
		return nil
	case stopFails, allFails:
		pass(ctx, latency)
		return failure(l)
	}
	if !pass(ctx, latency) {
		return ctx.Err()
	}
	if err := c.carryOut(l, sb, string(o.Action), what == ""); err != nil {
		return err
	}
	pass(ctx, l.next().next().between(time.Millisecond, c.traits.latency))
	switch what {
	case stopMute:
		return hang(ctx)
	case stopCut:
		return fmt.Errorf("simulated, cut after it was done: %w", providers.ErrUnavailable)
	}
	return nil
}
