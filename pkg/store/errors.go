package store

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrNewer says that a newer reaperd made the state: this one does not
	// know what is in it.
	ErrNewer = errors.New("it was made by a newer reaperd")
	// ErrReadOnly says that the state cannot be written: by its permissions,
	// its folder's, or because the file system is read-only.
	ErrReadOnly = errors.New("it cannot be written")
)

// damaged says why a file is of no use as a state.
type damaged struct {
	op  string
	err error
}

func (d *damaged) Error() string { return fmt.Sprintf("it is damaged (%s: %v)", d.op, d.err) }
func (d *damaged) Unwrap() error { return d.err }

// damage wraps err, as *damaged where it says that the file is to blame.
func damage(op string, err error) error {
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB,
		sqlite3.SQLITE_ERROR: // a schema that lacks what its version promises
		return &damaged{op, err}
	}
	return fmt.Errorf("%s: %w", op, err)
}

// code gives SQLite's primary result code, 0 for another kind of error.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// translate adds what a caller can test for, or a person understand.
func translate(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("another program keeps it locked: %w", err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	case 0:
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			return fmt.Errorf("%w: %w", ErrReadOnly, err)
		}
	}
	return err
}
