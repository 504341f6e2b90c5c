package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/reaperd/reaperd/pkg/providers"
)

// told are the events that Watch tells of: those after which a container
// exists or not, is in another state or has another name. In which order they
// come was seen on Docker Engine 20.10:
//
//   - a restart by hand is kill, die, stop, start, restart; one of the engine's
//     own is die, start. The state is the new one by the time of die and start,
//     and restart only repeats what start said.
//   - stop mostly repeats die, but is all that is heard when somebody stops a
//     crash loop while the engine waits to start it again.
//   - kill says that a signal was sent, which may be any; if it ends the
//     container, die follows. So it is with oom.
//   - update changes limits and the restart policy, which no decision is made on.
//   - health_status and exec_… change nothing that is read, and a health check
//     causes three of the latter each time. Of some of these activity keeps
//     account; see worked.
//
// Podman says died and remove for die and destroy, in its filters as well.
var told = []events.Action{
	events.ActionCreate, events.ActionStart, events.ActionPause, events.ActionUnPause, events.ActionDie, "died",
	events.ActionStop, events.ActionRename, events.ActionDestroy, events.ActionRemove,
}

var (
	errStreamEnded = errors.New("the engine ended the stream of events")
	errDropped     = errors.New("the connection to the engine was given up")
)

// Watch follows the engine's events of containers (GET /events). It ends with
// an error when the stream breaks, as it does when the engine restarts, and
// gives nil once ctx has ended. A stream that was begun after an earlier one
// broke first tells what happened in between, as far as the engine remembers:
// 20.10 keeps the last 256 events, and none over its own restart.
//
// A stream that silently carries nothing any more looks like one of an engine
// where nothing happens. That is left as it is: the truth is what List says,
// and events only make it come sooner.
func (p *Provider) Watch(ctx context.Context, changed func(id string)) error {
	// From here on containers can be paused and unpaused unseen.
	defer p.inventory.forgetPauses()
	failed := do(ctx, p.conn, func(ctx context.Context, l *liveClient) error { return p.follow(ctx, l, changed) })
	switch {
	case ctx.Err() != nil:
		return nil
	case failed.is(http.StatusNotFound): // as in List
		return fmt.Errorf("watch events: %s has no such call: %w", p.conn.where(), providers.ErrUnavailable)
	default:
		return fmt.Errorf("watch events: %w", failed.translated())
	}
}

// follow passes on one stream of events until it breaks, and says why it did.
// The stream has a connection of its own for as long as it lives, and no
// deadline but ctx.
func (p *Provider) follow(ctx context.Context, l *liveClient, changed func(id string)) error {
	ctx, cancel := context.WithCancel(ctx)
	o := events.ListOptions{Since: p.inventory.lastHeard(), Filters: filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)))}
	for _, action := range slices.Concat(told, worked) {
		o.Filters.Add("event", string(action))
	}
	heard, ended := l.Events(ctx, o)
	p.activity.listen(p.now())
	defer func() {
		p.activity.deafen()
		cancel()
		for range ended { // until the client's own goroutine is over
		}
	}()
	presence := time.NewTicker(presence)
	defer presence.Stop()
	for {
		select {
		case <-presence.C:
			p.activity.present(p.now())
		case m := <-heard:
			p.activity.hear(m, p.now())
			if p.inventory.hear(m) {
				changed(m.Actor.ID)
			}
		case err := <-ended:
			if err == nil || errors.Is(err, io.EOF) {
				return errStreamEnded
			}
			return err
		case <-l.dropped:
			return errDropped
		}
	}
}

// when gives an event's time by the engine's clock.
func when(m events.Message) time.Time {
	t := time.Unix(0, m.TimeNano)
	if m.TimeNano == 0 {
		t = time.Unix(m.Time, 0)
	}
	return plausible(t)
}
