package store

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// companions are what SQLite keeps beside its file. What they hold belongs to
// it.
var companions = []string{"-wal", "-shm", "-journal"}

func makeFolder(path string) error {
	return os.MkdirAll(filepath.Dir(path), 0o700)
}

// resolve follows links, so that two names of one file have one lock.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(folder, filepath.Base(path)), err
}

// leastSize is the least that SQLite's file format allows, one page. Of less
// SQLite itself takes some for an empty file.
const leastSize = 512

// prepareFile makes sure that there is a file which can be written and which
// nobody else can read: tags and operators' names are in it. An empty file is
// a new one, unless a log beside it shows that there was more.
func prepareFile(path string) (os.FileInfo, error) {
	switch there, err := os.Lstat(path); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err == nil && there.IsDir():
		return nil, fmt.Errorf("it is a directory, and has to be a file in one")
	case err == nil && !there.Mode().IsRegular():
		return nil, fmt.Errorf("it is not a regular file (%s)", there.Mode().Type())
	case err == nil && there.Size() > 0 && there.Size() < leastSize:
		return nil, &damaged{"look at the file", fmt.Errorf("it has only %d bytes", there.Size())}
	case err != nil || there.Size() == 0:
		if log, err := os.Lstat(path + "-wal"); err == nil && log.Size() > 0 {
			return nil, &damaged{"look at the file", errors.New("it is empty or gone, and its log is not")}
		}
	}
	// Before SQLite opens it: to close any handle of a file gives up the
	// process's locks on it.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(info.Mode().Perm() &^ 0o077)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	for _, suffix := range companions {
		if there, err := os.Lstat(path + suffix); err == nil && there.Mode().Perm()&0o077 != 0 {
			if err := os.Chmod(path+suffix, there.Mode().Perm()&^0o077); err != nil {
				return nil, err
			}
		}
	}
	return info, syncFolder(path)
}

// wholePages makes sure that no page was cut: SQLite reads what is missing of
// one as zeros. One that a power failure cut is still whole in the log.
func wholePages(path string, pageSize int64) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if log, err := os.Lstat(path + "-wal"); err == nil && log.Size() > 0 {
		return nil
	}
	if pageSize <= 0 || info.Size()%pageSize != 0 {
		return &damaged{"look at the file", fmt.Errorf("%d bytes are no whole number of pages", info.Size())}
	}
	return nil
}

// inPlace says whether file and lock are still the ones that were opened.
func (s *Store) inPlace() error {
	there, err := os.Lstat(s.path)
	if err != nil {
		return fmt.Errorf("it was taken away while open: %w", err)
	}
	if !os.SameFile(there, s.file) {
		return errors.New("it was replaced while open: restart reaperd")
	}
	return s.lock.hold()
}

// markerSuffix names the file that stands beside the state from before a
// damaged one is moved until the new one says so itself.
const markerSuffix = ".lost"

// setAside renames a damaged file, with what belongs to it, and leaves a
// marker so that the loss is not forgotten by a crash in between.
func setAside(path string, now time.Time) error {
	stamp := now.UTC().Format("20060102T150405Z")
	aside := path + markerSuffix + "-" + stamp
	for n := 2; taken(aside); n++ {
		aside = fmt.Sprintf("%s%s-%s-%d", path, markerSuffix, stamp, n)
	}
	if err := writeMarker(path+markerSuffix, now, filepath.Base(aside)); err != nil {
		return err
	}
	// The file first: a log without one is known to be left over.
	for _, suffix := range append([]string{""}, companions...) {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncFolder(path)
}

func taken(aside string) bool {
	for _, suffix := range append([]string{""}, companions...) {
		if _, err := os.Lstat(aside + suffix); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

func writeMarker(path string, now time.Time, aside string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\n%s\n", now.UTC().Format(time.RFC3339Nano), aside)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return syncFolder(path)
}

// recordLoss moves what a marker says into the new state.
func recordLoss(ctx context.Context, db *sql.DB, path string) error {
	f, err := os.Open(path + markerSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(f)
	lines.Scan()
	at, _ := time.Parse(time.RFC3339Nano, lines.Text()) // a marker cut short still marks
	lines.Scan()
	aside := strings.TrimSpace(lines.Text())
	if err := errors.Join(lines.Err(), f.Close()); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `INSERT INTO losses (lost_at, aside) VALUES (?, ?)`, nanos(at), aside); err != nil {
		return damage("record the loss", err)
	}
	if err := os.Remove(path + markerSuffix); err != nil {
		return err
	}
	return syncFolder(path)
}

// syncFolder makes names in the folder of path last through a power failure.
func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
