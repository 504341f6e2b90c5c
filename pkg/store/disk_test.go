package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// smallDisk mounts a file system of that size and gives its folder.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		enginetest.SkipOrFail(t, "to mount a small disk needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		enginetest.SkipOrFail(t, fmt.Sprintf("a small disk could not be mounted: %v", err))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// stuff fills the disk up and gives the file that does.
func stuff(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(dir, "stuffing")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestAFullDiskIsAnErrorAndLosesNothing(t *testing.T) {
	dir := smallDisk(t, "4m")
	path := filepath.Join(dir, "reaperd.db")
	s := open(t, path)
	first := begin(t, s, intent("before"))
	stuffing := stuff(t, dir)
	var failed error
	for range 3000 { // the log has room of its own for a while
		if _, failed = s.Begin(t.Context(), intent("while full")); failed != nil {
			break
		}
	}
	if !errors.Is(failed, syscall.ENOSPC) || !strings.Contains(failed.Error(), path) {
		t.Fatalf("on a full disk: %v", failed)
	}
	if err := s.SavePulses(t.Context(), pulsesOf(3000)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("pulses on a full disk: %v", err)
	}
	all := history(t, s, Filter{})
	if len(all) == 0 || all[len(all)-1].ID != first {
		t.Errorf("what was there cannot be read: %d entries", len(all))
	}
	if err := os.Remove(stuffing); err != nil {
		t.Fatal(err)
	}
	usable(t, s) // without a restart
	shut(t, s)
	again := open(t, path)
	if again.Lost() || len(history(t, again, Filter{})) != len(all)+1 {
		t.Errorf("lost %v, %d entries, had %d", again.Lost(), len(history(t, again, Filter{})), len(all)+1)
	}
}

func TestAFullDiskAtTheStart(t *testing.T) {
	dir := smallDisk(t, "4m")
	path := filepath.Join(dir, "reaperd.db")
	fill(t, path, 20)
	was := read(t, path)
	stuffing := stuff(t, dir)
	s, err := Open(t.Context(), dsnOf(path), noon)
	if err == nil { // it may need no room
		shut(t, s)
	} else if !errors.Is(err, syscall.ENOSPC) || !slices.Equal(read(t, path), was) {
		t.Errorf("%v", err)
	}
	if _, err := Open(t.Context(), dsnOf(filepath.Join(dir, "new.db")), noon); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a new one: %v", err)
	}
	// Nor is a damaged one moved before there is room to say so.
	bad := filepath.Join(dir, "bad.db")
	if err := os.Truncate(stuffing, 4096); err != nil {
		t.Fatal(err)
	}
	write(t, bad, []byte("no database"))
	if err := os.Remove(stuffing); err != nil {
		t.Fatal(err)
	}
	stuffing = stuff(t, dir)
	if _, err := Open(t.Context(), dsnOf(bad), noon); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a damaged one: %v", err)
	}
	if err := os.Remove(stuffing); err != nil {
		t.Fatal(err)
	}
	if s := open(t, bad); !s.Lost() {
		t.Error("the loss was forgotten")
	}
	if s := open(t, path); s.Lost() || len(history(t, s, Filter{})) != 20 {
		t.Error("the sound one was lost")
	}
}

func TestAReadOnlyDisk(t *testing.T) {
	dir := smallDisk(t, "4m")
	path := filepath.Join(dir, "reaperd.db")
	fill(t, path, 5)
	was := read(t, path)
	if err := unix.Mount("none", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, filepath.Join(dir, "none.db"), filepath.Join(dir, "no", "folder", "x.db")} {
		if _, err := Open(t.Context(), dsnOf(p), noon); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), p) {
			t.Errorf("%v", err)
		}
	}
	if err := AcceptLost(t.Context(), dsnOf(path)); !errors.Is(err, ErrReadOnly) {
		t.Errorf("AcceptLost: %v", err)
	}
	if !slices.Equal(read(t, path), was) {
		t.Error("it was changed")
	}
}

func init() {
	roles["open"] = func(path string) error {
		s, err := background(path)
		fmt.Println(errors.Is(err, ErrReadOnly), err)
		if err == nil {
			return s.Close()
		}
		return nil
	}
	// locklater keeps a writer's lock on a file that is open elsewhere.
	roles["locklater"] = func(path string) error {
		db, err := connect(path, forWriting)
		if err != nil {
			return err
		}
		if _, err := db.ExecContext(bg, `BEGIN IMMEDIATE`); err != nil {
			return err
		}
		fmt.Println("locked")
		untilEnd()
		return db.Close()
	}
	// lock keeps another program's lock on the whole file.
	roles["lock"] = func(path string) error {
		db, err := connect(path, forWriting)
		if err != nil {
			return err
		}
		if _, err := db.ExecContext(bg, `PRAGMA locking_mode = EXCLUSIVE`); err != nil {
			return err
		}
		if _, err := db.ExecContext(bg, `BEGIN EXCLUSIVE`); err != nil {
			return err
		}
		fmt.Println("locked")
		untilEnd()
		return db.Close()
	}
}

func TestAFileTakenAwayWhileOpen(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	begin(t, s, intent("a"))
	moved := path + "-elsewhere"
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(t.Context(), intent("b")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "taken away while open") {
		t.Errorf("removed: %v", err)
	}
	write(t, path, nil)
	if err := s.SavePulses(t.Context(), pulsesOf(1)); err == nil || !strings.Contains(err.Error(), "replaced while open") {
		t.Errorf("replaced: %v", err)
	}
	if err := os.Rename(moved, path); err != nil {
		t.Fatal(err)
	}
	usable(t, s)
}

// immutable makes a file one that not even root can write, or takes that back.
func immutable(name string, on bool) error {
	const immutableFlag = 0x10 // FS_IMMUTABLE_FL of linux/fs.h
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		if flags &^= immutableFlag; on {
			flags |= immutableFlag
		}
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
	}
	return errors.Join(err, f.Close())
}

func TestAFileThatBecomesUnwritableWhileOpen(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	id := begin(t, s, intent("a"))
	if err := immutable(path+"-wal", true); err != nil {
		enginetest.SkipOrFail(t, fmt.Sprintf("a file could not be made immutable: %v", err))
	}
	t.Cleanup(func() { _ = immutable(path+"-wal", false) })
	if _, err := s.Begin(t.Context(), intent("b")); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("unwritable: %v", err)
	}
	if all := history(t, s, Filter{}); len(all) != 1 || all[0].ID != id {
		t.Errorf("it cannot be read: %+v", all)
	}
	if err := immutable(path+"-wal", false); err != nil {
		t.Fatal(err)
	}
	usable(t, s)
}

func TestAnotherProgramsLock(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	fill(t, path, 3)
	c := start(t, "lock", path)
	c.expect(t, "locked")
	began := time.Now()
	_, err := Open(t.Context(), dsnOf(path), noon)
	if err == nil || !strings.Contains(err.Error(), "another program keeps it locked") || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took < busyWait/2 || took > 3*busyWait {
		t.Errorf("it waited %s", took)
	}
	c.kill()
	s := open(t, path)
	if s.Lost() || len(history(t, s, Filter{})) != 3 {
		t.Error("lost")
	}

	// Of a lock that comes later, the end of the context ends the wait.
	c = start(t, "locklater", path)
	c.expect(t, "locked")
	ctx, cancel := deadline(t, 50*time.Millisecond)
	defer cancel()
	began = time.Now()
	if _, err := s.Begin(ctx, intent("a")); err == nil {
		t.Error("begun in spite of the lock")
	}
	if took := time.Since(began); took > busyWait/2 {
		t.Errorf("it waited %s", took)
	}
	if all := history(t, s, Filter{}); len(all) != 3 {
		t.Errorf("%d entries can be read", len(all))
	}
	c.kill()
	usable(t, s)
}
