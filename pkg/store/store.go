// Package store keeps what must survive a restart: pulses, leases,
// protections, and the history of reclaims.
//
// It is one SQLite file, that one daemon at a time has open. What is written
// is on the disk when the call returns. Times are kept to the nanosecond from
// 1678 to 2261; one beyond is kept as the end of that range.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Store is an open state. It is safe for concurrent use. Every call gives up
// when its context ends; a write that was given up may or may not have been
// made.
type Store struct {
	path string
	lock *lock
	file os.FileInfo // the file that is open, to know it again
	lost atomic.Bool

	writer  *sql.DB // one connection
	readers *sql.DB
	stmts   statements

	mu     sync.RWMutex // held for reading by every call, so that Close waits
	closed bool
}

// Open opens the state that a DSN names, sqlite:///absolute/path.db, and makes
// it where there is none: folder 0700, file 0600. A file that is open to others
// is closed to them; a folder stays as it is. It takes the lock, checks the
// file whole and brings its schema up to date; now is for the names and notes
// that it leaves.
//
// *Locked says that another daemon has it, ErrNewer that a newer reaperd made
// it, ErrReadOnly that it cannot be written. A file that is damaged is set
// aside as NAME.lost-TIME, never deleted, and a new one begun: see Lost.
func Open(ctx context.Context, dsn string, now time.Time) (*Store, error) {
	path, err := parseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	s, err := openPath(ctx, path, now)
	if err != nil {
		return nil, fmt.Errorf("open state %s: %w", path, translate(err))
	}
	return s, nil
}

func openPath(ctx context.Context, path string, now time.Time) (*Store, error) {
	if err := makeFolder(path); err != nil {
		return nil, err
	}
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	l, err := takeLock(path+lockSuffix, holder("since "+now.UTC().Format(time.RFC3339)))
	if err != nil {
		return nil, err
	}
	s, err := openLocked(ctx, path, l)
	if d, ok := errors.AsType[*damaged](err); ok {
		if err = setAside(path, now); err == nil {
			s, err = openLocked(ctx, path, l)
		}
		if err != nil {
			err = fmt.Errorf("begin anew, since %w: %w", d, err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	return s, nil
}

// openLocked opens the file of which we hold the lock. *damaged says that
// nothing can be done with it.
func openLocked(ctx context.Context, path string, l *lock) (*Store, error) {
	file, err := prepareFile(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, lock: l, file: file}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	return s, nil
}

func (s *Store) start(ctx context.Context) error {
	err := check(ctx, s.path)
	if err != nil {
		return err
	}
	if s.writer, err = connect(s.path, forWriting); err != nil {
		return err
	}
	if err = claim(ctx, s.writer); err != nil {
		return err
	}
	if err = migrate(ctx, s.writer); err != nil {
		return err
	}
	if err = recordLoss(ctx, s.writer, s.path); err != nil {
		return err
	}
	var losses int
	err = s.writer.QueryRowContext(ctx, `SELECT count(*) FROM losses WHERE accepted = 0`).Scan(&losses)
	if err != nil {
		return damage("count losses", err)
	}
	s.lost.Store(losses > 0)
	if s.readers, err = connect(s.path, forReading); err != nil {
		return err
	}
	if err = s.stmts.prepare(ctx, s.writer); err != nil {
		return damage("prepare statements", err)
	}
	return nil
}

// Close waits for the calls in progress, closes the file and gives up the
// lock. Calls made later fail.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := errors.Join(s.disconnect(), s.lock.release()); err != nil {
		return fmt.Errorf("close state %s: %w", s.path, translate(err))
	}
	return nil
}

// disconnect closes what start has opened.
func (s *Store) disconnect() error {
	errs := []error{s.stmts.close()}
	// The writer last: the last connection moves the log into the file.
	for _, db := range []*sql.DB{s.readers, s.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Lost says that an earlier file was damaged and set aside, and with it the
// protections that were in it. It stays so, over restarts, until an operator
// accepts it.
func (s *Store) Lost() bool { return s.lost.Load() }

// Accept notes that an operator accepts the loss. Without a loss it does
// nothing.
func (s *Store) Accept(ctx context.Context) error {
	return s.write("accept the loss", func() error {
		if _, err := s.writer.ExecContext(ctx, `UPDATE losses SET accepted = 1 WHERE accepted = 0`); err != nil {
			return err
		}
		s.lost.Store(false)
		return nil
	})
}

// AcceptLost is Accept for when no daemon has the state open; *Locked says
// that one has. It makes no state where there is none, and sets none aside.
func AcceptLost(ctx context.Context, dsn string) error {
	path, err := parseDSN(dsn)
	if err != nil {
		return fmt.Errorf("accept the loss: %w", err)
	}
	if err := acceptAt(ctx, path); err != nil {
		return fmt.Errorf("accept the loss of state %s: %w", path, translate(err))
	}
	return nil
}

func acceptAt(ctx context.Context, path string) error {
	path, err := resolve(path)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); err != nil {
		return err
	}
	l, err := takeLock(path+lockSuffix, holder("to accept a loss"))
	if err != nil {
		return err
	}
	s, err := openLocked(ctx, path, l)
	if d, ok := errors.AsType[*damaged](err); ok {
		err = fmt.Errorf("%w; reaperd sets it aside when it starts", d)
	}
	if err != nil {
		return errors.Join(err, l.release())
	}
	return errors.Join(s.Accept(ctx), s.Close())
}

// read runs f unless the store is closed.
func (s *Store) read(op string, f func() error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return fmt.Errorf("%s: state %s: %w", op, s.path, fs.ErrClosed)
	}
	if err := f(); err != nil {
		return fmt.Errorf("%s: state %s: %w", op, s.path, translate(err))
	}
	return nil
}

// write is read for what changes the file, which must still be the one that
// was opened: what goes into a removed one is lost without an error.
func (s *Store) write(op string, f func() error) error {
	return s.read(op, func() error {
		if err := s.inPlace(); err != nil {
			return err
		}
		return f()
	})
}

// change is write in one transaction.
func (s *Store) change(ctx context.Context, op string, f func(tx *sql.Tx) error) error {
	return s.write(op, func() error {
		tx, err := s.writer.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return errors.Join(err, rollback(tx))
		}
		return tx.Commit()
	})
}

func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil // the context's end had done it already
}
