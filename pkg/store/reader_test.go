package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadBesideTheWriter(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	r, err := Read(t.Context(), dsnOf(path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for want := range 3 {
		all, err := r.History(t.Context(), Filter{})
		if err != nil || len(all) != want {
			t.Fatalf("%d entries, %v, want %d", len(all), err, want)
		}
		if _, err := s.Begin(t.Context(), Entry{Provider: "p", SandboxID: "a", Begun: noon.Add(time.Duration(want))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.History(t.Context(), Filter{}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
	if _, err := s.Begin(t.Context(), Entry{Provider: "p", SandboxID: "a", Begun: noon}); err != nil {
		t.Errorf("the writer, after a reader ended: %v", err)
	}
}

// A daemon that ended well, and one that was killed, leave what can be read,
// and a reader leaves it as it is.
func TestReadAfterTheWriter(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	if _, err := s.Begin(t.Context(), Entry{Provider: "p", SandboxID: "a", Begun: noon}); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(t.TempDir(), "reaperd.db")
	for _, suffix := range []string{"", "-wal"} { // as a kill leaves them
		text, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(killed+suffix, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, s)
	for _, p := range []string{path, killed} {
		r, err := Read(t.Context(), dsnOf(p))
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		all, err := r.History(t.Context(), Filter{})
		if err != nil || len(all) != 1 {
			t.Errorf("%s: %v, %v", p, all, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if log, err := os.Stat(killed + "-wal"); p == killed && (err != nil || log.Size() == 0) {
			t.Errorf("its log was moved: %v", err)
		}
		shut(t, open(t, p))
	}
}

func TestReadMakesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "reaperd.db")
	if _, err := Read(t.Context(), dsnOf(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where there is none: %v", err)
	}
	if _, err := Read(t.Context(), dsnOf(filepath.Join(dir, "no", "reaperd.db"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where there is no folder: %v", err)
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		t.Errorf("it made %v, %v", there, err)
	}
	for text, says := range map[string]string{"": "no state of reaperd's", strings.Repeat("no database ", 500): "damaged"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(t.Context(), dsnOf(path)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.11q: %v, want %q", text, err, says)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("it changed the file: %v", err)
		}
	}
	if _, err := Read(t.Context(), dsnOf(dir)); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}
