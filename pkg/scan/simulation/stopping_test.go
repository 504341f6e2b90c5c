package simulation_test

import (
	"fmt"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// carryOut does what a stop asks for, now or after a while.
func (c *line) carryOut(l luck, sb providers.Sandbox, action string, told bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.boxes[sb.ID]
	switch {
	case c.life.dead && l.next().chance(0.5):
		return errDead // the request was still on the daemon's side
	case b == nil:
		return fmt.Errorf("stop %s: %w", sb.ID, providers.ErrNotFound)
	case b.revision != sb.Revision:
		return fmt.Errorf("stop %s: %w", sb.ID, providers.ErrChanged)
	case b.sandbox.State == providers.StateChanging:
		return fmt.Errorf("stop %s: %w", sb.ID, providers.ErrBusy)
	case c.clock.Boot() < b.deafUntil:
		b.tell("is deaf to it")
		return nil
	}
	takes := l.next().next().between(0, c.traits.stopping)
	if takes < time.Second {
		b.obey(action, told && !c.life.dead)
	} else {
		if l.chance(0.5) {
			b.change("on its way to "+action, func(sb *providers.Sandbox) { sb.State = providers.StateChanging })
		}
		time.AfterFunc(takes, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			b.obey(action, false)
		})
	}
	c.life.dies("after stop")
	return nil
}

// obey is the end of a stop that the provider carries out. It is surely ours to
// account for if the daemon lived to see it at once: what ends later, or without
// an answer, may be due no more by then, or be forgotten in a crash.
func (b *box) obey(action string, surely bool) {
	ours := 0
	if surely {
		ours = 1
	}
	state := b.sandbox.State
	up := state == providers.StateRunning || state == providers.StatePaused || state == providers.StateStarting ||
		state == providers.StateChanging || state == providers.StateUnknown
	switch {
	case !b.alive:
		return
	case action == "remove":
		b.ours += ours
		b.die("removed by the daemon")
	case action == "stop" && (up || state == providers.StateSuspended):
		b.ours += ours
		b.end("stopped by the daemon")
	case action == "pause" && up && state != providers.StatePaused:
		b.ours += ours
		b.freeze("paused by the daemon", providers.StatePaused)
	}
	b.looping = b.looping && b.alive && b.sandbox.State == providers.StateRunning
}
