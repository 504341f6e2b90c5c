package simulation_test

import (
	"context"
	"errors"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// provider is the place as this daemon is configured to reach it, with what
// its kind can do beyond the least.
func (l *life) provider(p *place) providers.Provider {
	c := &line{life: l, place: p}
	switch {
	case p.traits.tells && p.traits.probes:
		return tellingProber{teller{c}}
	case p.traits.tells:
		return teller{c}
	case p.traits.probes:
		return prober{c}
	}
	return c
}

// teller is a line that tells of changes and of the time.
type teller struct{ *line }

// Watch implements providers.Watcher. Its stream breaks now and then.
func (c teller) Watch(ctx context.Context, changed func(id string)) error {
	l, _, err := c.call("watch", "")
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.watchers[c.life] = changed
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, c.life)
	}()
	if !pass(ctx, l.next().between(time.Second, 20*c.scale.interval)) {
		return ctx.Err()
	}
	return errBroken
}

// Skew implements providers.Timekeeper, by the last answer.
func (c teller) Skew() (ahead time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life.measured(c.place)
}

// measured is by how much the place is ahead of the daemon's wall clock, by
// what its last answer said. The world is locked.
func (l *life) measured(p *place) (ahead time.Duration, known bool) {
	ahead, known = l.ahead[p.name]
	return ahead, known
}

// answered takes the time out of an answer. The world is locked.
func (c *line) answered() {
	if c.traits.tells {
		c.life.ahead[c.place.name] = c.traits.skew - c.clock.wrong()
	}
}

// tellingProber is both.
type tellingProber struct{ teller }

// Probe implements providers.Prober.
func (c tellingProber) Probe(ctx context.Context) error { return prober{c.line}.Probe(ctx) }

// prober is a line that can be asked whether the place is fit.
type prober struct{ *line }

// Probe implements providers.Prober.
func (c prober) Probe(ctx context.Context) error {
	l, latency, err := c.call("probe", "")
	if err != nil {
		return err
	}
	c.mu.Lock()
	what := c.troubled(l, stopHangs, allHangs, stopFails, allFails)
	c.mu.Unlock()
	switch what {
	case stopHangs, allHangs:
		return hang(ctx)
	case stopFails, allFails:
		err := failure(l)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.life.unprobed[c.place] = errors.Is(err, providers.ErrDenied) || errors.Is(err, providers.ErrUnsupported) || errors.Is(err, providers.ErrNotFound)
		return err
	}
	if !pass(ctx, latency) {
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.dead {
		return errDead
	}
	c.life.unprobed[c.place] = false
	c.life.fit(c.place)
	return nil
}
