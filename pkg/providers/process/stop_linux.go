package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reaperd/reaperd/pkg/providers"
)

// Stop ends every member. ActionStop and ActionRemove mean the same here: an
// ended process leaves nothing to remove, nor has it volumes or networks of its
// own to delete with it. Nil says that no member is left. It gives
// ErrUnsupported for the sandbox that reaperd itself is in.
func (p *Provider) Stop(ctx context.Context, sb providers.Sandbox, o providers.StopOptions) error {
	if err := p.stop(ctx, sb, o); err != nil {
		return fmt.Errorf("stop %s: %w", sb.ID, err)
	}
	return nil
}

func (p *Provider) stop(ctx context.Context, sb providers.Sandbox, o providers.StopOptions) error {
	switch {
	case o.Action != providers.ActionStop && o.Action != providers.ActionRemove:
		return fmt.Errorf("action %q: %w", o.Action, providers.ErrUnsupported)
	case o.Images, o.Snapshot:
		return fmt.Errorf("processes have no images and no snapshots: %w", providers.ErrUnsupported)
	}
	// Signal 0 reaches nobody and still says whether we may.
	left := 0
	now, err := p.find(ctx, sb.ID, func(_ *member, pidfd int) error {
		left++
		return send(pidfd, 0)
	})
	switch {
	case err != nil:
		return err
	case now.Revision != sb.Revision:
		return providers.ErrChanged
	case now.Self:
		return fmt.Errorf("reaperd itself is in this sandbox: %w", providers.ErrUnsupported)
	}
	k, _ := parseKey(sb.ID)
	h := hunt{table: p.table, key: k, left: left, asked: map[process]bool{}, frozen: map[process]bool{}}
	defer h.close()
	err = h.run(ctx, o.Grace)
	if err != nil && len(h.frozen) > 0 {
		// Half a stop must not leave it frozen: a sandbox that does nothing
		// would wait for ever for one that thinks it is paused.
		err = errors.Join(err, h.thaw(ctx))
	}
	if err != nil {
		return fmt.Errorf("%d of its processes left: %w", h.left, err)
	}
	return nil
}

const (
	// look is how long a wait for known members goes on before looking for
	// new ones; breath the least time between two looks at a busy one.
	look   = 250 * time.Millisecond
	breath = 20 * time.Millisecond
	// rounds is how often to try to freeze all before killing what there is.
	rounds = 16
	// sure is how many looks in a row must find nobody: one can just miss what
	// forks and exits in a loop. unsure is how many do although each of them
	// missed processes that ended under its eyes: on a busy machine those are
	// always there, and almost never members. breeding takes the place of unsure
	// once members were born under our eyes: then they may well be.
	sure     = 3
	unsure   = 8
	breeding = 100
)

// hunt is one stop under way. What carries the key while it lasts is what it
// ends; members that are born meanwhile are found by looking again.
type hunt struct {
	table         *table
	key           key
	asked, frozen map[process]bool
	held          []int   // pidfds of the members last seen
	left          int     // how many those were
	empty         int     // looks in a row that found nobody
	missed        bool    // the last look missed processes
	newest        process // of all members seen
	breeds        bool    // members were born since the hunt began
}

// gone says that no member is left.
func (h *hunt) gone() bool {
	if h.breeds {
		return h.empty >= breeding || h.empty >= sure && !h.missed
	}
	return h.empty >= unsure || h.empty >= sure && !h.missed
}

func (h *hunt) close() {
	c := census{held: h.held}
	c.close()
	h.held = nil
}

func (h *hunt) run(ctx context.Context, grace time.Duration) error {
	if grace > 0 {
		if gone, err := h.ask(ctx, grace); gone || err != nil {
			return err
		}
	}
	return h.kill(ctx)
}

// ask sends each member, once, the signal to end, and says whether all have
// done so within the grace.
func (h *hunt) ask(ctx context.Context, grace time.Duration) (gone bool, err error) {
	polite, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	for round := 0; ; round++ {
		err := h.sweep(ctx, func(m *member, pidfd int) error {
			if h.asked[m.process] {
				return nil
			}
			h.asked[m.process] = true
			err := send(pidfd, unix.SIGTERM)
			if err == nil && m.stopped {
				err = send(pidfd, unix.SIGCONT) // or it could not act on it
			}
			return err
		})
		switch {
		case err != nil:
			return false, err
		case h.gone():
			return true, nil
		case h.left == 0:
			continue
		case polite.Err() != nil:
			return false, ctx.Err()
		}
		if round > 2 {
			if err := wait(polite, nil, breath); err != nil {
				return false, err
			}
		}
		if err := wait(polite, h.held, look); err != nil {
			return false, err
		}
	}
}

// kill ends the members for good. It freezes them first: what is stopped does
// not fork, so the killing does not race with births.
func (h *hunt) kill(ctx context.Context) error {
	for {
		err := h.freeze(ctx)
		switch {
		case err != nil:
			return err
		case h.gone():
			return nil
		case h.left == 0:
			continue
		}
		if err := h.sweep(ctx, func(_ *member, pidfd int) error { return send(pidfd, unix.SIGKILL) }); err != nil {
			return err
		}
		// Whoever is stuck in the kernel dies when it leaves it; ctx ends the wait.
		if err := wait(ctx, h.held, look); err != nil {
			return err
		}
	}
}

// freeze stops members until a look finds none that still runs, or has tried
// often enough.
func (h *hunt) freeze(ctx context.Context) error {
	for range rounds {
		running := 0
		err := h.sweep(ctx, func(m *member, pidfd int) error {
			if m.stopped {
				return nil
			}
			running++
			h.frozen[m.process] = true
			return send(pidfd, unix.SIGSTOP)
		})
		if err != nil || h.left == 0 || running == 0 && !h.missed {
			return err
		}
	}
	return nil
}

// thaw lets go on what freeze has stopped, also when ctx has ended.
func (h *hunt) thaw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unwind)
	defer cancel()
	return h.sweep(ctx, func(m *member, pidfd int) error {
		if !h.frozen[m.process] {
			return nil
		}
		return send(pidfd, unix.SIGCONT)
	})
}

// sweep is one look that visits each member there is now.
func (h *hunt) sweep(ctx context.Context, visit func(*member, int) error) error {
	c, err := h.table.walk(ctx, query{only: &h.key, visit: visit, urgent: h.breeds})
	if err != nil {
		return err
	}
	members := c.members[h.key] // oldest first
	if n := len(members); n > 0 && members[n-1].compare(h.newest) > 0 {
		h.breeds = h.breeds || h.newest != process{}
		h.newest = members[n-1].process
	}
	h.breeds = h.breeds || c.sighted > 0
	h.close()
	h.held, h.left, h.missed = c.held, len(members)+c.sighted, c.missed > 0
	h.empty++
	if h.left > 0 {
		h.empty = 0
	}
	return nil
}

// send signals through a pidfd. For one that has ended meanwhile it gives ESRCH.
func send(pidfd int, s unix.Signal) error {
	err := unix.PidfdSendSignal(pidfd, s, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return unavailable(fmt.Errorf("signal %d: %w", s, err))
	}
	return err
}

// wait returns when all these processes have ended, when ctx has, or after so
// long. Its error is the system's, never the context's.
func wait(ctx context.Context, pidfds []int, atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return unavailable(err)
	}
	defer func() { _ = unix.Close(wake) }()
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 1}) // any number but 0, in either byte order
	})
	defer func() {
		if !stop() {
			<-woken // it still uses the descriptor
		}
	}()
	fds := []unix.PollFd{{Fd: int32(wake), Events: unix.POLLIN}}
	for _, fd := range pidfds {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	// Only a breath's wait has nobody to wait for.
	for len(fds) > 1 || len(pidfds) == 0 {
		if _, err := unix.Poll(fds, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return unavailable(err)
		}
		if fds[0].Revents != 0 {
			return nil
		}
		living := fds[:1]
		for _, fd := range fds[1:] {
			if fd.Revents == 0 {
				living = append(living, fd)
			}
		}
		fds = living
	}
	return nil
}
