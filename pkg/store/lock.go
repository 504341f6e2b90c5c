package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const lockSuffix = ".lock"

// Locked says that another reaperd has the state open.
type Locked struct {
	// By names it as it named itself: pid, host, and since when. It may be
	// empty, or for an instant that of an earlier one.
	By string
}

// Error says who has the state.
func (l *Locked) Error() string {
	if l.By == "" {
		return "another reaperd has it open"
	}
	return "another reaperd has it open: " + l.By
}

// holder is how this process names itself in the lock.
func holder(what string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	return fmt.Sprintf("pid %d on %s, %s", os.Getpid(), host, what)
}

// lock is a locked file beside the state. The kernel gives the lock up when
// its holder dies, however that happens; what stands in the file is for
// people. The file stays: one that was removed could be locked twice.
type lock struct {
	path, note string

	mu sync.Mutex
	f  *os.File
}

func takeLock(path, note string) (*lock, error) {
	l := &lock{path: path, note: note}
	if err := l.take(); err != nil {
		return nil, err
	}
	return l, nil
}

// lockTries bounds how often a lock file is lost to somebody who removes it.
const lockTries = 10

func (l *lock) take() error {
	for range lockTries {
		f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		if err := flock(f); err != nil {
			return errors.Join(err, f.Close())
		}
		if !isAt(f, l.path) {
			_ = f.Close() // nothing was written to it
			continue
		}
		if err := sign(f, l.note); err != nil {
			return errors.Join(err, f.Close())
		}
		l.f = f
		return nil
	}
	return fmt.Errorf("%s: somebody keeps removing it", l.path)
}

func flock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		by := make([]byte, 512)
		n, _ := f.ReadAt(by, 0) // it is only for the message
		return &Locked{By: strings.TrimSpace(string(by[:n]))}
	}
	if err != nil {
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}

func sign(f *os.File, note string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(note+"\n"), 0)
	return err
}

func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

// hold takes the lock again if somebody removed its file, since the next
// daemon would make and lock another.
func (l *lock) hold() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isAt(l.f, l.path) {
		return nil
	}
	old := l.f
	if err := l.take(); err != nil {
		return err
	}
	return old.Close()
}

func (l *lock) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.f.Truncate(0) // so that nobody reads an old name; unlocking is what counts
	// To close alone would leave the lock to a child that was forked a moment
	// ago, until it runs its own program.
	err := unix.Flock(int(l.f.Fd()), unix.LOCK_UN)
	return errors.Join(err, l.f.Close())
}
