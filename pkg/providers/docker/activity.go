package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/reaperd/reaperd/pkg/providers"
)

// What a container may do and still count as idle.
const (
	// idleShare is the part of one core, in percent. Servers that wait for
	// requests wake now and then.
	idleShare = 1
	// idleSent and idleReceived are bytes between two samples. A bridge carries
	// what neighbours ask all, and the answers that a kernel gives by itself; an
	// answer to somebody's request is longer.
	idleSent, idleReceived = 256, 4 << 10
	// Two samples are taken to be this far apart at least, since in an instant
	// any process can use a whole core, and at most: after a long time without
	// samples the little that idleness is allowed may have been one burst.
	leastApart, mostApart = time.Second, time.Minute
	// mostExecs is how many of a container's execs are looked at. One with more
	// of them is in use.
	mostExecs = 16
	// presence is how often reaperd notes that it is there. After absence without
	// that it was not, as when its process was stopped, and may not have heard yet
	// what happened meanwhile.
	presence, absence = 30 * time.Second, 90 * time.Second
)

// errUncounted is of a container whose processor time nobody counts: what runs
// has used some.
var errUncounted = errors.New("the engine does not tell its processor time")

// worked are the events beside those told after which a container did work, or
// somebody worked with it. They change nothing that is read of it. exec_start
// is followed by a colon and the command. Podman says exec and exec_died.
var worked = []events.Action{
	events.ActionExecStart, events.ActionExecDie, events.ActionExecDetach, "exec", "exec_died",
	events.ActionAttach, events.ActionDetach, events.ActionResize, events.ActionCopy,
	events.ActionArchivePath, events.ActionExtractToDir, events.ActionExport, events.ActionCommit,
}

// activity is what is known of when containers last did work: those that were
// sampled, and no others. All of its times are by our own clock, which counts on
// when somebody sets it: a clock that is set makes nobody idle.
type activity struct {
	mu sync.Mutex
	// heard is since when events are heard without a break. What was done before
	// nobody knows. Zero: they are not heard now.
	heard time.Time
	there time.Time // when reaperd last was, while it hears them
	byID  map[string]*work
}

// work is what is known of one container.
type work struct {
	last    time.Time // when it did some, by an event or a sample
	sampled time.Time // when used was read
	used    usage
	// check is the command of its health check, which the engine runs as an exec
	// like any other, and checking the id of the last that began.
	check, checking string
}

// usage is what a container has used up since it was started.
type usage struct{ cpu, sent, received uint64 }

func newActivity() activity { return activity{byID: map[string]*work{}} }

// listen notes that from now on events are heard.
func (a *activity) listen(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard, a.there = now, now
}

// present notes that reaperd is there, and begins anew if it was not.
func (a *activity) present(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.heard.IsZero() {
		return
	}
	if now.Sub(a.there) > absence {
		a.heard = now
	}
	a.there = now
}

// deafen notes that they are not.
func (a *activity) deafen() { a.listen(time.Time{}) }

func (a *activity) listens() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.heard.IsZero()
}

// hear takes account of an event as of now: it may be told late, never early.
func (a *activity) hear(m events.Message, now time.Time) {
	action, command, _ := strings.Cut(string(m.Action), ": ")
	if m.Type != events.ContainerEventType || !slices.Contains(told, m.Action) && !slices.Contains(worked, events.Action(action)) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch w := a.byID[m.Actor.ID]; {
	case w == nil:
	case m.Action == events.ActionDestroy || m.Action == events.ActionRemove:
		delete(a.byID, m.Actor.ID)
	case !w.checks(events.Action(action), command, m.Actor.Attributes["execID"]):
		w.last = now
	}
}

// checks says whether an event is of a health check, which is nobody's work. A
// person may run the very same command; as long as that runs, samples find it.
func (w *work) checks(action events.Action, command, exec string) bool {
	switch {
	case exec == "":
		return false
	case action == events.ActionExecStart && w.check != "" && command == w.check:
		w.checking = exec
		return true
	default:
		return action == events.ActionExecDie && exec == w.checking
	}
}

// check notes the command of a container's health check.
func (a *activity) check(id, command string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.byID[id]; w != nil {
		w.check = command
	}
}

// checkOf gives the command of a container's health check as the engine tells
// of it (daemon/health.go of Docker Engine); "" if it has none.
func checkOf(c *container.Config) string {
	if c.Healthcheck == nil || len(c.Healthcheck.Test) < 2 {
		return ""
	}
	command := c.Healthcheck.Test[1:]
	if c.Healthcheck.Test[0] == "CMD-SHELL" {
		shell := []string(c.Shell)
		if len(shell) == 0 {
			shell = []string{"/bin/sh", "-c"}
		}
		command = slices.Concat(shell, command)
	}
	return strings.Join(command, " ")
}

// works says whether a container has used more since its last sample than an
// idle one does. One that was not sampled before is taken to work, since nobody
// knows what it did.
func (a *activity) works(id string, used usage, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.byID[id]
	if w == nil || used.cpu < w.used.cpu || used.sent < w.used.sent || used.received < w.used.received {
		return true // counts that go back are of another run
	}
	apart := min(max(now.Sub(w.sampled), leastApart), mostApart)
	return used.cpu-w.used.cpu > uint64(apart)*idleShare/100 ||
		used.sent-w.used.sent > idleSent || used.received-w.used.received > idleReceived
}

// sampled takes in a sample and gives when the container last did work; zero,
// cannot say, while events are not heard.
func (a *activity) sampled(id string, used usage, busy bool, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.byID[id]
	if w == nil {
		w = &work{last: now}
		a.byID[id] = w
	}
	if busy {
		w.last = now
	}
	if busy || now.Sub(w.sampled) >= leastApart { // else too little could go unseen many times
		w.sampled, w.used = now, used
	}
	switch {
	case a.heard.IsZero():
		return time.Time{}
	case a.heard.After(w.last):
		return a.heard
	default:
		return w.last
	}
}

// missed notes that a sample failed: the container may have been at work.
func (a *activity) missed(id string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.byID[id]; w != nil {
		w.last = now
	}
}

// keep forgets all containers that are not among those listed. If one of them
// is there after all, its first sample begins anew.
func (a *activity) keep(listed []container.Summary) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.byID) == 0 {
		return
	}
	present := make(map[string]*work, len(a.byID))
	for i := range listed {
		if w := a.byID[listed[i].ID]; w != nil {
			present[listed[i].ID] = w
		}
	}
	a.byID = present
}

// Activity samples a running container (GET /containers/{id}/stats, and for one
// that seems idle its execs) and gives when it last did work: the latest of what
// the samples and the events tell. It counts from the first sample and from when
// events began to be heard, since nobody knows what was before, and cannot say
// anything while they are not heard. A sample that fails counts as work.
func (p *Provider) Activity(ctx context.Context, sb providers.Sandbox) (time.Time, error) {
	p.activity.present(p.now())
	if !p.activity.listens() {
		return time.Time{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.deadlines.sample)
	defer cancel()
	used, err := p.usage(ctx, sb.ID)
	busy := err == nil && p.activity.works(sb.ID, used, p.now())
	if err == nil && !busy {
		busy, err = p.executes(ctx, sb.ID)
	}
	now := p.now()
	if err != nil {
		p.activity.missed(sb.ID, now)
		return time.Time{}, fmt.Errorf("activity of %s: %w", short(sb.ID), err)
	}
	last := p.activity.sampled(sb.ID, used, busy, now)
	if last.IsZero() {
		return last, nil
	}
	ahead, _ := p.Skew() // a provider's times are by its own clock
	return now.Add(ahead - now.Sub(last)).UTC().Round(0), nil
}

// usage reads what a container has used up. Where the engine does not know
// one-shot (before API 1.41), it takes it about two seconds.
func (p *Provider) usage(ctx context.Context, id string) (usage, error) {
	used, failed := call(ctx, p.conn, func(ctx context.Context, e *liveClient) (usage, error) {
		r, err := e.ContainerStatsOneShot(ctx, id)
		if err != nil {
			return usage{}, err
		}
		defer func() { _ = r.Body.Close() }() // it was only read
		return readUsage(io.LimitReader(r.Body, mostStatsBytes))
	})
	switch {
	case failed != nil:
		return usage{}, failed.translated()
	case used.cpu == 0:
		return usage{}, fmt.Errorf("%w: %w", errUncounted, providers.ErrUnsupported)
	}
	return used, nil
}

// mostStatsBytes bounds an answer with statistics, which has about 3 KiB.
const mostStatsBytes = 1 << 20

func readUsage(r io.Reader) (usage, error) {
	var stats struct {
		CPU struct {
			Usage struct {
				Total uint64 `json:"total_usage"` // nanoseconds
			} `json:"cpu_usage"`
		} `json:"cpu_stats"`
		Networks map[string]struct {
			Received uint64 `json:"rx_bytes"`
			Sent     uint64 `json:"tx_bytes"`
		} `json:"networks"`
	}
	if err := json.NewDecoder(r).Decode(&stats); err != nil {
		return usage{}, err
	}
	used := usage{cpu: stats.CPU.Usage.Total}
	for _, n := range stats.Networks {
		used.sent += n.Sent
		used.received += n.Received
	}
	return used, nil
}

// executes says whether an exec runs in the container, or more of them are
// there than are looked at. One that was created and never started does not.
func (p *Provider) executes(ctx context.Context, id string) (bool, error) {
	c, failed := p.rawInspect(ctx, id)
	if failed != nil {
		return false, failed.translated()
	}
	p.activity.check(id, checkOf(c.Config))
	if len(c.ExecIDs) > mostExecs {
		return true, nil
	}
	for _, exec := range c.ExecIDs {
		e, failed := call(ctx, p.conn, func(ctx context.Context, e *liveClient) (container.ExecInspect, error) {
			return e.ContainerExecInspect(ctx, exec)
		})
		switch {
		case failed.is(http.StatusNotFound): // over in between
		case failed != nil:
			return false, failed.translated()
		case e.Running:
			return true, nil
		}
	}
	return false, nil
}
