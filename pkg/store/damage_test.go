package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const aside = ".lost-20260314T120000Z"

// copyTo puts what is at path, with its log if it has one, somewhere else.
func copyTo(t *testing.T, path string) string {
	t.Helper()
	to := newPath(t)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, to+suffix, b)
	}
	return to
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// lostAndKept fails the test unless opening path sets aside what is there, as
// it is, and begins anew.
func lostAndKept(t *testing.T, path string) {
	t.Helper()
	was := read(t, path)
	s := open(t, path)
	if !s.Lost() {
		t.Fatal("not noticed")
	}
	if !bytes.Equal(read(t, path+aside), was) {
		t.Error("what was set aside is not what there was")
	}
	if all := history(t, s, Filter{}); len(all) != 0 {
		t.Errorf("the new one has %d entries", len(all))
	}
	usable(t, s)
	shut(t, s)
	if again := open(t, path); !again.Lost() {
		t.Error("forgotten by a restart")
	} else {
		shut(t, again)
	}
}

func TestATruncatedFileIsSetAside(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	fill(t, path, 100)
	size := len(read(t, path))
	lengths := []int{1, 16, 99, 100, 511, 512, 4095, 4096, 4097, size - 4096, size - 1}
	for n := 3 * 4096; n < size; n += size / 5 {
		lengths = append(lengths, n, n+1)
	}
	for _, n := range lengths {
		cut := copyTo(t, path)
		if err := os.Truncate(cut, int64(n)); err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprintf("%d of %d", n, size), func(t *testing.T) { lostAndKept(t, cut) })
	}
}

func TestAFileOfSomethingElseIsSetAside(t *testing.T) {
	random := make([]byte, 20_000)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	for name, content := range map[string][]byte{
		"one byte":           {7},
		"text":               []byte("providers: []\n"),
		"zeros":              make([]byte, 8192),
		"random bytes":       random,
		"header, then noise": append([]byte("SQLite format 3\x00"), random...),
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			write(t, path, content)
			lostAndKept(t, path)
		})
	}
}

// What was overwritten is noticed, or harmless: it must never end in a panic,
// a hang, or a store that opens and does not work.
func TestOverwrittenBytes(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	fill(t, path, 120)
	size := len(read(t, path))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const hurts = 40
	lost := 0
	for range hurts {
		hurt := copyTo(t, path)
		b := read(t, hurt)
		at, n := rnd.IntN(size), 1+rnd.IntN(600)
		if rnd.IntN(3) == 0 {
			at = rnd.IntN(4096) // the header and the schema
		}
		for i := at; i < min(at+n, size); i++ {
			b[i] = byte(rnd.Uint32())
		}
		write(t, hurt, b)
		s, err := Open(t.Context(), dsnOf(hurt), noon)
		if err != nil {
			if !bytes.Equal(read(t, hurt), b) {
				t.Errorf("%d bytes at %d: refused (%v), and changed", n, at, err)
			}
			continue
		}
		if s.Lost() {
			lost++
			if !bytes.Equal(read(t, hurt+aside), b) {
				t.Errorf("%d bytes at %d: set aside changed", n, at)
			}
		}
		usable(t, s)
		shut(t, s)
	}
	if lost < hurts/4 {
		t.Errorf("only %d of %d were noticed", lost, hurts)
	}
}

func TestAnEmptyFileIsNew(t *testing.T) {
	path := newPath(t)
	write(t, path, nil)
	s := open(t, path)
	if s.Lost() {
		t.Error("lost")
	}
	usable(t, s)
}

// killed gives the path of a state whose daemon died with a log beside it.
func killed(t *testing.T) string {
	t.Helper()
	path := newPath(t)
	fill(t, path, 50)
	c := start(t, "write", path)
	for range 20 {
		if !c.lines.Scan() {
			t.Fatal("the child said nothing")
		}
	}
	c.kill()
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		t.Fatalf("no log was left: %v, %v", info, err)
	}
	return path
}

func TestALogWithoutItsFileIsSetAsideWithIt(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(path string) error{
		"file emptied": func(path string) error { return os.Truncate(path, 0) },
		"file removed": os.Remove,
		"file cut":     func(path string) error { return os.Truncate(path, 3*4096) },
	} {
		t.Run(name, func(t *testing.T) {
			path := copyTo(t, killed(t))
			wal := read(t, path+"-wal")
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
			s := open(t, path)
			if !s.Lost() {
				// What was cut off may all be in the log.
				if all := history(t, s, Filter{}); name != "file cut" || len(all) < 70 {
					t.Fatalf("not noticed, with %d entries", len(all))
				}
			} else if !bytes.Equal(read(t, path+aside+"-wal"), wal) {
				t.Error("the log was not kept")
			}
			usable(t, s)
		})
	}
}

func TestALossIsRememberedUntilItIsAccepted(t *testing.T) {
	path := newPath(t)
	write(t, path, []byte("no database"))
	s := open(t, path)
	for range 2 {
		if err := s.Accept(t.Context()); err != nil || s.Lost() {
			t.Fatalf("accepted: %v, lost %v", err, s.Lost())
		}
	}
	shut(t, s)
	if s = open(t, path); s.Lost() {
		t.Error("an accepted loss came back")
	}
	shut(t, s)

	// A second one in the same second, and its acceptance without a daemon.
	write(t, path, []byte("no database again"))
	if err := AcceptLost(t.Context(), dsnOf(path)); err == nil || !strings.Contains(err.Error(), "sets it aside when it starts") {
		t.Errorf("accepted before it was set aside: %v", err)
	}
	s = open(t, path)
	if !s.Lost() {
		t.Error("the second is not noticed")
	}
	if _, ok := errors.AsType[*Locked](AcceptLost(t.Context(), dsnOf(path))); !ok {
		t.Error("accepted behind the daemon's back")
	}
	shut(t, s)
	if err := AcceptLost(t.Context(), dsnOf(path)); err != nil {
		t.Error(err)
	}
	if s = open(t, path); s.Lost() {
		t.Error("still lost")
	}
	shut(t, s)
	want := []string{"", ".lock", aside, aside + "-2"}
	if names := besides(t, path); !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	if err := AcceptLost(t.Context(), dsnOf(newPath(t))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no state: %v", err)
	}
}

// A crash may come between any two steps of setting aside.
func TestACrashWhileSettingAsideForgetsNoLoss(t *testing.T) {
	for name, stop := range map[string]func(t *testing.T, path string){
		"marked, nothing moved": func(*testing.T, string) {},
		"file moved, log not": func(t *testing.T, path string) {
			if err := os.Rename(path, path+aside); err != nil {
				t.Fatal(err)
			}
			write(t, path+"-wal", []byte("left over"))
		},
		"all moved": func(t *testing.T, path string) {
			if err := os.Rename(path, path+aside); err != nil {
				t.Fatal(err)
			}
		},
		"new one just made": func(t *testing.T, path string) {
			if err := os.Rename(path, path+aside); err != nil {
				t.Fatal(err)
			}
			write(t, path, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			write(t, path, []byte("no database"))
			if err := writeMarker(path+markerSuffix, noon, "reaperd.db"+aside); err != nil {
				t.Fatal(err)
			}
			stop(t, path)
			s := open(t, path)
			if !s.Lost() {
				t.Error("forgotten")
			}
			usable(t, s)
			shut(t, s)
			if slices.Contains(besides(t, path), markerSuffix) {
				t.Error("the marker stays")
			}
			if err := AcceptLost(t.Context(), dsnOf(path)); err != nil {
				t.Error(err)
			}
			if again := open(t, path); again.Lost() {
				t.Error("lost for ever")
			}
		})
	}
}
