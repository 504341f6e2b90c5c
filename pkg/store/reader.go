package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Reader reads a state beside the daemon that has it open. It takes no lock
// and changes nothing.
type Reader struct{ s *Store }

// Read opens the state that a DSN names for reading. It makes none:
// fs.ErrNotExist says that there is none. What a daemon is to make of it first
// (an older schema, a damaged file) is an error.
func Read(ctx context.Context, dsn string) (*Reader, error) {
	path, err := parseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the state: %w", err)
	}
	r, err := readPath(ctx, path)
	if err != nil && !errors.Is(err, fs.ErrPermission) { // to translate is for writers
		err = translate(err)
	}
	if err != nil {
		return nil, fmt.Errorf("read state %s: %w", path, err)
	}
	return r, nil
}

func readPath(ctx context.Context, path string) (*Reader, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a regular file (%s)", info.Mode().Type())
	}
	db, err := connect(path, forChecking)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, readers: db}
	var id int
	err = db.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&id)
	if err == nil && id != applicationID {
		err = errors.New("it is no state of reaperd's")
	}
	if err == nil {
		_, err = db.ExecContext(ctx, selectHistory+` LIMIT 0`)
	}
	if err != nil {
		return nil, errors.Join(damage("read it", err), db.Close())
	}
	return &Reader{s}, nil
}

// History gives the entries that f selects, the newest first.
func (r *Reader) History(ctx context.Context, f Filter) ([]Entry, error) { return r.s.History(ctx, f) }

// Close closes the file.
func (r *Reader) Close() error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.closed = true
	return r.s.readers.Close()
}
