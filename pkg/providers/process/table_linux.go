package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reaperd/reaperd/pkg/providers"
)

// table is the process table as /proc shows it. Walks take turns.
type table struct {
	turn  chan struct{}
	space string // our PID namespace
	files reader
}

func newTable() *table { return &table{turn: make(chan struct{}, 1)} }

// query is what a walk looks for and does on its way. All of it runs inside
// the walk's turn.
type query struct {
	only *key // nil: every sandbox
	// visit, if set, is called for each member as soon as it is found, with a
	// pidfd of it that was opened before the member was looked at: a signal
	// sent through it reaches that process or none.
	visit func(m *member, pidfd int) error
	// urgent asks for a walk that others' load does not slow down.
	urgent bool
	// then is called at the end of a complete walk.
	then func(*census)
}

// census is what a walk found.
type census struct {
	members map[key][]member // oldest first
	self    map[key]bool     // the sandboxes that reaperd is in
	// unreadable counts processes that may not be looked at or cannot be made
	// out. missed counts those that another walk may find more about, most of
	// which have ended since.
	unreadable, missed int
	// sighted counts those that carried the id looked for and ended before
	// more could be read of them.
	sighted int
	held    []int // pidfds of visited members, the first maxHeld
}

// maxHeld bounds the descriptors of one stop, whatever size its sandbox has.
const maxHeld = 512

func (c *census) close() {
	for _, fd := range c.held {
		_ = unix.Close(fd)
	}
	c.held = nil
}

// unwind is how long a walk may take to notice that its context has ended.
const unwind = time.Second

// walk goes over the whole process table once. Reading /proc can hang on a
// process that is itself stuck in the kernel, and no system call offers a
// timeout; so the reading is done aside, and one that hangs is left behind. It
// keeps its turn: at most one ever waits there, and the calls after it time out.
func (t *table) walk(ctx context.Context, q query) (census, error) {
	// Nobody's turn comes when the context has already ended.
	if err := ctx.Err(); err != nil {
		return census{}, err
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return census{}, fmt.Errorf("%w: waiting for /proc: %w", providers.ErrUnavailable, ctx.Err())
	}
	type result struct {
		census
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-t.turn }()
		if q.urgent {
			hurry()
		}
		c, err := t.pass(ctx, q)
		done <- result{c, err}
	}()
	select {
	case r := <-done:
		return r.census, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(unwind)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.census, r.err
	case <-timer.C:
		return census{}, fmt.Errorf("%w: reading /proc hangs: %w", providers.ErrUnavailable, ctx.Err())
	}
}

// hurry puts the calling goroutine before all ordinary processes, where that is
// allowed: what forks as fast as it can is only caught by who is no slower. The
// thread ends with the goroutine, and the privilege with the thread.
func hurry() {
	runtime.LockOSThread()
	// Refused to whoever may not, who then runs as before.
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
}

// pass is one walk. It gives a census or an error, never both, and looks at
// its context between any two processes.
func (t *table) pass(ctx context.Context, q query) (c census, err error) {
	c = census{members: map[key][]member{}, self: map[key]bool{}}
	defer func() {
		if err != nil {
			c.close()
			c = census{}
		}
	}()
	if err := t.anchor(); err != nil {
		return c, err
	}
	ours, err := t.lineage()
	if err != nil {
		return c, err
	}
	// With capabilities of its own, reaperd may not read its own /proc/PID/environ.
	if id := os.Getenv("REAPERD_SANDBOX"); validID(id) {
		c.self[key{uint32(os.Getuid()), id}] = true
	}
	pids, err := openPIDs()
	if err != nil {
		return c, err
	}
	defer pids.close()
	for {
		pid, err := pids.next()
		if err != nil {
			return c, err
		}
		if pid == 0 {
			break
		}
		if err := ctx.Err(); err != nil {
			return c, err
		}
		if err := t.look(pid, ours[pid], q, &c); err != nil {
			return c, err
		}
	}
	for _, ms := range c.members {
		slices.SortFunc(ms, func(a, b member) int { return a.compare(b.process) })
	}
	// A caller that has gone does not want its answer remembered.
	if err := ctx.Err(); err != nil {
		return c, err
	}
	if q.then != nil {
		q.then(&c)
	}
	return c, nil
}

// look takes one process into the census. An error ends the walk: it is never
// about the process.
func (t *table) look(pid int, ours bool, q query, c *census) error {
	dir := "/proc/" + strconv.Itoa(pid)
	id, err := t.files.sandbox(unix.AT_FDCWD, dir+"/")
	if err != nil {
		return c.miss(err, ours)
	}
	if id == "" || q.only != nil && id != q.only.id {
		return nil
	}
	fd := -1
	if q.visit != nil && !ours {
		fd, err = unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			c.sighted++
			return nil
		}
		if err != nil {
			return unavailable(fmt.Errorf("pidfd_open: %w", err))
		}
		defer func() {
			if fd >= 0 {
				_ = unix.Close(fd)
			}
		}()
	}
	m, ok, err := t.files.member(pid, dir, t.space)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		c.sighted++
		return nil
	}
	if err != nil {
		return c.miss(err, ours)
	}
	if !ok || q.only != nil && m.key != *q.only {
		return nil
	}
	if ours {
		c.self[m.key] = true
		return nil
	}
	c.members[m.key] = append(c.members[m.key], m)
	if q.visit == nil {
		return nil
	}
	if err := q.visit(&m, fd); errors.Is(err, unix.ESRCH) {
		c.sighted++
	} else if err != nil {
		return err
	}
	if len(c.held) < maxHeld {
		c.held, fd = append(c.held, fd), -1
	}
	return nil
}

// miss accounts for a process that could not be looked at. What is not about
// the process but about us, such as too many open files, it gives back.
func (c *census) miss(err error, ours bool) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH):
		c.missed++
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		if !ours {
			c.unreadable++
		}
	case errors.Is(err, unix.EIO), errors.Is(err, errUnclear):
		c.unreadable++
		c.missed++
	default:
		return unavailable(err)
	}
	return nil
}

// anchor makes sure that the pids in /proc are those that our signals go to.
func (t *table) anchor() error {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return unavailable(err)
	}
	if self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("%w: /proc shows another PID namespace than reaperd's own", providers.ErrUnavailable)
	}
	if t.space == "" {
		if t.space, err = os.Readlink("/proc/self/ns/pid"); err != nil {
			return unavailable(err)
		}
	}
	return nil
}

// lineage gives the processes that are never members: reaperd, what it was
// started by, and so on up to PID 1. A sandbox that any of them carries is one
// that reaperd is in.
func (t *table) lineage() (map[int]bool, error) {
	ours := map[int]bool{1: true}
	for pid := os.Getpid(); pid > 0 && !ours[pid]; {
		ours[pid] = true
		s, err := t.files.stat(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/")
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EACCES) {
			break // an ancestor that has just ended, or is hidden from us (hidepid)
		}
		if err != nil {
			return nil, unavailable(err)
		}
		pid = s.parent
	}
	return ours, nil
}

// bootID names this boot of this machine.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", unavailable(err)
	}
	return strings.TrimSpace(string(b)), nil
}

// unavailable translates an error of the system's at the kind's edge.
func unavailable(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %w", providers.ErrDenied, err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: ending processes safely needs pidfds (Linux 5.3): %w", providers.ErrUnsupported, err)
	default:
		return fmt.Errorf("%w: %w", providers.ErrUnavailable, err)
	}
}
