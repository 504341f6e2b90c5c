package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// nobody is a user without rights.
const nobody = 65534

// asNobody opens path as a user to whom permissions matter, and gives what
// came of it.
func asNobody(t *testing.T, path string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "reaperd-nobody") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "test")
	b := read(t, self)
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(binary, b, 0o755)); err != nil {
		t.Fatal(err)
	}
	c := command(t, binary, "open", path)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	c.begin(t)
	c.lines.Scan()
	c.kill()
	return c.lines.Text()
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		enginetest.SkipOrFail(t, "to become another user needs root")
	}
	for name, tc := range map[string]struct {
		file, folder os.FileMode
		noLock       bool
		want         string
	}{
		"all theirs":                     {0o600, 0o700, false, "false <nil>"},
		"open to others":                 {0o666, 0o755, false, "false <nil>"},
		"file read-only":                 {0o400, 0o700, false, "true "},
		"file unreadable":                {0, 0o700, false, "true "},
		"folder read-only":               {0o600, 0o500, false, "true "},
		"folder read-only, without lock": {0o600, 0o500, true, "true "},
		"folder unreadable":              {0o600, 0, false, "true "},
	} {
		t.Run(name, func(t *testing.T) {
			top, err := os.MkdirTemp("", "reaperd-perm")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(top) }()
			folder := filepath.Join(top, "state")
			path := filepath.Join(folder, "reaperd.db")
			fill(t, path, 3)
			was := read(t, path)
			if tc.noLock {
				err = os.Remove(path + lockSuffix)
			} else {
				err = os.Chown(path+lockSuffix, nobody, nobody)
			}
			if err := errors.Join(err, os.Chmod(top, 0o755), os.Chown(folder, nobody, nobody), os.Chown(path, nobody, nobody),
				os.Chmod(path, tc.file), os.Chmod(folder, tc.folder)); err != nil {
				t.Fatal(err)
			}
			said := asNobody(t, path)
			if !strings.HasPrefix(said, tc.want) || (tc.want == "true " && !strings.Contains(said, path)) {
				t.Errorf("%q", said)
			}
			if tc.want == "true " && !slices.Equal(read(t, path), was) {
				t.Error("it was changed")
			}
			for _, suffix := range []string{"", lockSuffix} {
				if info, err := os.Stat(path + suffix); err == nil && info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s is open to others: %s", suffix, info.Mode())
				}
			}
		})
	}
}

func TestWhatIsMadeIsClosedToOthers(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := newPath(t)
	s := open(t, path)
	usable(t, s)
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info, err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", lockSuffix} {
		if info, err := os.Stat(path + suffix); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", suffix, info, err)
		}
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	folder, pipe, dangling, file := filepath.Join(dir, "folder"), filepath.Join(dir, "pipe"), filepath.Join(dir, "dangling"), filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(folder, 0o700), unix.Mkfifo(pipe, 0o600), os.Symlink(filepath.Join(dir, "no", "where"), dangling),
		os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		folder:                       "it is a directory",
		pipe:                         "it is not a regular file",
		dangling:                     "it is not a regular file",
		filepath.Join(file, "below"): "not a directory",
	} {
		if _, err := Open(t.Context(), dsnOf(path), noon); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
