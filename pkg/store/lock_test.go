package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func init() {
	roles["hold"] = func(path string) error {
		s, err := background(path)
		if err != nil {
			return err
		}
		fmt.Println("open")
		untilEnd()
		return s.Close()
	}
}

func refused(t *testing.T, path string, pid int) {
	t.Helper()
	_, err := Open(t.Context(), dsnOf(path), noon)
	for _, err := range []error{err, AcceptLost(t.Context(), dsnOf(path))} {
		l, ok := errors.AsType[*Locked](err)
		if !ok {
			t.Errorf("%v", err)
			continue
		}
		if want := fmt.Sprintf(`^pid %d on \S.*, since 2026-03-14T12:00:00Z$`, pid); !regexp.MustCompile(want).MatchString(l.By) {
			t.Errorf("by %q", l.By)
		}
		if !strings.Contains(err.Error(), l.By) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q does not say what or who", err)
		}
	}
}

func TestASecondDaemonIsRefused(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	refused(t, path, os.Getpid())
	link := filepath.Join(t.TempDir(), "other-name")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dsnOf(filepath.Join(link, "reaperd.db")), noon); err == nil {
		t.Error("by another name it was opened twice")
	}
	usable(t, s)
	shut(t, s)
	shut(t, open(t, path))
}

func TestTheLockDiesWithItsHolder(t *testing.T) {
	path := newPath(t)
	c := start(t, "hold", path)
	c.expect(t, "open")
	refused(t, path, c.Process.Pid)
	c.kill()
	s := open(t, path)
	if s.Lost() {
		t.Error("lost")
	}
	usable(t, s)
}

func TestARemovedLockFileIsLockedAnew(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	if err := os.Remove(path + lockSuffix); err != nil {
		t.Fatal(err)
	}
	usable(t, s)
	refused(t, path, os.Getpid())

	// And if another was quicker, nothing more is written.
	if err := os.Remove(path + lockSuffix); err != nil {
		t.Fatal(err)
	}
	other, err := takeLock(path+lockSuffix, "the quicker one")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Begin(t.Context(), intent("a"))
	if l, ok := errors.AsType[*Locked](err); !ok || l.By != "the quicker one" {
		t.Errorf("%v", err)
	}
	if err := other.release(); err != nil {
		t.Fatal(err)
	}
	usable(t, s)
}

func TestALockThatSaysNothingStillLocks(t *testing.T) {
	path := newPath(t)
	open(t, path)
	if err := os.Truncate(path+lockSuffix, 0); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), dsnOf(path), noon)
	if l, ok := errors.AsType[*Locked](err); !ok || l.By != "" || !strings.HasSuffix(err.Error(), "another reaperd has it open") {
		t.Errorf("%v", err)
	}
}
