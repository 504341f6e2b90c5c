package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/pkg/providers"
)

// supported refuses what this kind does not do.
func supported(o providers.StopOptions) error {
	switch {
	case o.Action != providers.ActionStop && o.Action != providers.ActionRemove && o.Action != providers.ActionPause:
		return fmt.Errorf("action %q: %w", o.Action, providers.ErrUnsupported)
	case o.Networks:
		return fmt.Errorf("networks: %w", providers.ErrUnsupported)
	case o.Images:
		return fmt.Errorf("images: %w", providers.ErrUnsupported)
	case o.Snapshot:
		return fmt.Errorf("snapshot: %w", providers.ErrUnsupported)
	case o.Volumes && o.Action != providers.ActionRemove:
		return fmt.Errorf("volumes go with action remove only: %w", providers.ErrUnsupported)
	case o.Grace < 0:
		return fmt.Errorf("grace %v is negative: %w", o.Grace, providers.ErrUnsupported)
	}
	return nil
}

// Stop stops or removes one container. A stop takes its restart policy away
// first, or it would come back with the engine's next start, and unpauses a
// paused one, which could not hear the signal. A removal with grace zero is one
// forced DELETE, else a stop and then a forced DELETE. A pause freezes it.
func (p *Provider) Stop(ctx context.Context, sb providers.Sandbox, o providers.StopOptions) error {
	err := supported(o)
	if err == nil && sb.Self {
		err = errSelf
	}
	if err == nil && !fullID.MatchString(sb.ID) {
		err = fmt.Errorf("not a full container id: %w", providers.ErrNotFound)
	}
	if err == nil {
		err = p.stop(ctx, sb, o)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", clip(string(o.Action)), clip(short(sb.ID)), err)
	}
	return nil
}

var errSelf = fmt.Errorf("reaperd itself lives in it or shares its namespaces: %w", providers.ErrUnsupported)

func (p *Provider) stop(ctx context.Context, sb providers.Sandbox, o providers.StopOptions) error {
	c, err := p.lookAgain(ctx, sb)
	if err != nil {
		return err
	}
	state := stateOf(c.State.Status)
	if revived(sb.State, state) {
		return fmt.Errorf("it was %s when it was judged, and is %s: %w", sb.State, state, providers.ErrChanged)
	}
	switch o.Action {
	case providers.ActionPause:
		return p.pause(ctx, c)
	case providers.ActionStop:
		_, err := p.end(ctx, c, o.Grace)
		return err
	}
	ended := false
	if o.Grace > 0 || lingers(c) {
		if ended, err = p.end(ctx, c, o.Grace); err != nil {
			return err
		}
	}
	return p.remove(ctx, c, o.Volumes, ended)
}

// lingers says whether a forced DELETE does not kill at once: that of Podman
// 4.3.1 is a stop that waits for as long as the container was created to be
// waited for, 10 s if by its CLI.
func lingers(c container.InspectResponse) bool {
	return byPodman(c) && c.Config.StopTimeout != nil && *c.Config.StopTimeout > 0
}

// revived says whether somebody set going again what was judged as one that
// does not run: whoever did wants it, and it may be within its limits now.
func revived(judged, now providers.State) bool {
	switch now {
	case providers.StateStarting, providers.StateRunning:
		return judged.Ended() || judged == providers.StateCreated || judged == providers.StatePaused
	case providers.StatePaused:
		return judged.Ended() || judged == providers.StateCreated
	default:
		return false
	}
}

// lookAgain inspects the container and refuses what must not be touched.
func (p *Provider) lookAgain(ctx context.Context, sb providers.Sandbox) (container.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, p.deadlines.get)
	defer cancel()
	now, c, failed := p.inspect(ctx, sb.ID)
	switch {
	case failed != nil:
		return c, failed.translated()
	case now.Revision != sb.Revision:
		return c, fmt.Errorf("created %s, not %s: %w", now.Revision, clip(sb.Revision), providers.ErrChanged)
	}
	if err := p.self.find(ctx, p); err != nil {
		return c, fmt.Errorf("find out in which container reaperd itself lives: %w", err)
	}
	if p.self.includes(c) {
		return c, errSelf
	}
	return c, nil
}

// end stops a container that may still run. ended says that this call did it.
func (p *Provider) end(ctx context.Context, c container.InspectResponse, grace time.Duration) (ended bool, err error) {
	switch stateOf(c.State.Status) {
	case providers.StateExited, providers.StateDead, providers.StateCreated:
		return false, nil
	case providers.StateChanging:
		return false, fmt.Errorf("state %s: %w", c.State.Status, providers.ErrBusy)
	}
	if err := p.stops.take(ctx); err != nil {
		return false, fmt.Errorf("wait for a turn to stop: %w", err)
	}
	defer p.stops.free()
	if err := p.prepare(ctx, c); err != nil {
		return false, err
	}
	return p.signal(ctx, c.ID, grace)
}

// pause freezes a container that runs (POST /containers/{id}/pause). One that
// is frozen already, or has ended, is left as it is.
func (p *Provider) pause(ctx context.Context, c container.InspectResponse) error {
	state := stateOf(c.State.Status)
	switch {
	case state.Satisfies(providers.ActionPause):
		return nil
	case state == providers.StateChanging:
		return fmt.Errorf("state %s: %w", c.State.Status, providers.ErrBusy)
	}
	failed := p.bounded(ctx, p.deadlines.change, func(ctx context.Context, e *liveClient) error {
		return e.ContainerPause(ctx, c.ID)
	})
	if failed.is(http.StatusConflict) { // somebody paused it, or it does not run just now
		_, err := p.settled(ctx, c.ID, failed, func(s providers.State) bool { return s.Satisfies(providers.ActionPause) })
		return err
	}
	return failed.translated()
}

// prepare makes a stop last and be heard. What it cannot do does not prevent
// the stop; only a context that is over does, and a paused one that is gone.
func (p *Provider) prepare(ctx context.Context, c container.InspectResponse) error {
	if h := c.HostConfig; h != nil && h.RestartPolicy.Name != "" && !h.RestartPolicy.IsNone() {
		// The literal "no": an empty name changes nothing. The engine refuses it
		// for a container that it removes by itself or that is dead. Podman 4.3.1
		// has no such call and answers 404: if it is the container that is gone, the
		// stop will tell.
		failed := p.bounded(ctx, p.deadlines.change, func(ctx context.Context, e *liveClient) error {
			_, err := e.ContainerUpdate(ctx, c.ID, container.UpdateConfig{
				RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
			})
			return err
		})
		if err := failed.translated(); err != nil && ctx.Err() != nil {
			return fmt.Errorf("set the restart policy to no: %w", err)
		}
	}
	if c.State.Paused {
		failed := p.bounded(ctx, p.deadlines.change, func(ctx context.Context, e *liveClient) error {
			return e.ContainerUnpause(ctx, c.ID)
		})
		if err := fatal(ctx, failed); err != nil {
			return fmt.Errorf("unpause: %w", err)
		}
	}
	return nil
}

// fatal says whether a failed preparation also ends the stop.
func fatal(ctx context.Context, failed *callError) error {
	if failed.is(http.StatusNotFound) || failed != nil && ctx.Err() != nil {
		return failed.translated()
	}
	return nil
}

// signal asks the engine to stop the container (POST /containers/{id}/stop,
// which answers 304 for one that has stopped), and to kill it if that takes
// longer than the engine was told it may.
func (p *Provider) signal(ctx context.Context, id string, grace time.Duration) (ended bool, err error) {
	seconds := int((grace + time.Second - 1) / time.Second)
	limit := time.Duration(seconds)*time.Second + p.deadlines.margin
	if until, has := ctx.Deadline(); has {
		// The caller's time has to suffice for the kill too, but not at the
		// sandbox's expense.
		limit = max(min(limit, time.Until(until)-p.deadlines.kill), time.Duration(seconds)*time.Second)
	}
	failed := p.bounded(ctx, limit, func(ctx context.Context, e *liveClient) error {
		return e.ContainerStop(ctx, id, container.StopOptions{Timeout: &seconds})
	})
	switch {
	case failed == nil:
		return true, nil
	case failed.is(http.StatusConflict):
		return p.settled(ctx, id, failed, func(s providers.State) bool { return s.Ended() })
	case !failed.timedOut() || ctx.Err() != nil:
		return false, fmt.Errorf("stop: %w", failed.translated())
	}
	killed := p.bounded(ctx, p.deadlines.kill, func(ctx context.Context, e *liveClient) error {
		return e.ContainerKill(ctx, id, "KILL")
	})
	switch {
	case killed == nil, killed.is(http.StatusNotFound): // gone because of the stop that we began
		return true, nil
	case killed.is(http.StatusConflict): // "is not running"
		return p.settled(ctx, id, killed, func(s providers.State) bool { return s.Ended() })
	default:
		return false, fmt.Errorf("kill, after the stop took longer than %v: %w", limit, killed.translated())
	}
}

// remove deletes the container (DELETE /containers/{id}), by force (force=1)
// unless it did not run when it was looked at: the engine then refuses with a
// 409 one that somebody has started since. ended says that our own stop ended it
// just before.
func (p *Provider) remove(ctx context.Context, c container.InspectResponse, volumes, ended bool) error {
	if err := p.removes.take(ctx); err != nil {
		return fmt.Errorf("wait for a turn to remove: %w", err)
	}
	defer p.removes.free()
	state := stateOf(c.State.Status)
	force := state != providers.StateExited && state != providers.StateCreated
	failed := p.bounded(ctx, p.deadlines.remove, func(ctx context.Context, e *liveClient) error {
		return e.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: force, RemoveVolumes: volumes})
	})
	switch {
	case failed.is(http.StatusNotFound) && ended:
		return nil // it went because of us
	case failed.is(http.StatusConflict) && ended && c.HostConfig != nil && c.HostConfig.AutoRemove:
		return nil // the engine is removing it because of us
	case failed.is(http.StatusConflict): // somebody is removing it already
		_, err := p.settled(ctx, c.ID, failed, func(providers.State) bool { return false })
		return err
	case failed != nil:
		return failed.translated()
	}
	p.inventory.forget(c.ID)
	return nil
}

// settled decides what a 409 means by looking at the container, not at the
// words: one that is gone, or in a state that is fine, is what was wanted.
func (p *Provider) settled(ctx context.Context, id string, failed *callError, fine func(providers.State) bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, p.deadlines.get)
	defer cancel()
	sb, _, looked := p.inspect(ctx, id)
	switch {
	case looked.is(http.StatusNotFound):
		return true, nil
	case looked != nil:
		return false, errors.Join(failed.translated(), looked.translated())
	case fine(sb.State):
		return true, nil
	default:
		return false, failed.translated()
	}
}

// bounded is do with a deadline of its own.
func (p *Provider) bounded(ctx context.Context, d time.Duration, f func(context.Context, *liveClient) error) *callError {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx, p.conn, f)
}
