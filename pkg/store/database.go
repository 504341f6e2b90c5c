package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strconv"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID is in the header of every file that is a state of reaperd's:
// "reap" in ASCII.
const applicationID = 0x72656170

// busyWait is for how long a call waits for another program, such as a backup,
// that has the file locked.
const busyWait = 5 * time.Second

type purpose int

const (
	forWriting purpose = iota
	forReading
	forChecking // opens the file read-only: to close a writer moves the log into it
)

// idleReaders is how many readers may run at once, and stay open.
const idleReaders = 2

// connect makes a pool of connections. It touches no file yet.
func connect(path string, p purpose) (*sql.DB, error) {
	q := url.Values{
		"mode":          {"rw"},
		"_busy_timeout": {strconv.FormatInt(busyWait.Milliseconds(), 10)},
		"_txlock":       {"immediate"},
		"_foreign_keys": {"1"},
		// Each commit is on the disk when it returns: an intent has to be.
		"_synchronous": {"FULL"},
		"_defensive":   {"1"},
		"_dqs":         {"0"},
		"_pragma":      {"trusted_schema(0)", "cell_size_check(1)"},
	}
	conns := 1
	switch p {
	case forReading:
		q.Set("_query_only", "1")
		conns = idleReaders
	case forChecking:
		q.Set("mode", "ro")
	}
	c, err := sqlite.NewConnector((&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// check makes sure that the file is reaperd's and whole before anything is
// changed in it or its log.
func check(ctx context.Context, path string) error {
	err := checkFor(ctx, path, forChecking)
	if code(err) == sqlite3.SQLITE_READONLY {
		// Its first transaction broke off, which only a writer can take back.
		err = checkFor(ctx, path, forWriting)
	}
	return err
}

func checkFor(ctx context.Context, path string, p purpose) error {
	db, err := connect(path, p)
	if err != nil {
		return err
	}
	return errors.Join(checkWith(ctx, db, path), db.Close())
}

func checkWith(ctx context.Context, db *sql.DB, path string) error {
	var objects, id, pageSize int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&objects); err != nil {
		return damage("read the schema", err)
	}
	if err := db.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&id); err != nil {
		return damage("read the application id", err)
	}
	if objects > 0 && id != applicationID {
		return errors.New("it is another program's database: give reaperd a file of its own")
	}
	if err := db.QueryRowContext(ctx, `PRAGMA page_size`).Scan(&pageSize); err != nil {
		return damage("read the page size", err)
	}
	if err := wholePages(path, int64(pageSize)); err != nil {
		return err
	}
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&verdict); err != nil {
		return damage("check the file", err)
	}
	if verdict != "ok" {
		return &damaged{"check the file", errors.New(verdict)}
	}
	return nil
}

// claim marks the file as reaperd's and turns its log on, so that readers and
// the writer do not wait for one another.
func claim(ctx context.Context, db *sql.DB) error {
	var id int
	if err := db.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&id); err != nil {
		return fmt.Errorf("read the application id: %w", err)
	}
	if id != applicationID {
		if _, err := db.ExecContext(ctx, fmt.Sprintf(`PRAGMA application_id = %d`, applicationID)); err != nil {
			return fmt.Errorf("set the application id: %w", err)
		}
	}
	if _, err := db.ExecContext(ctx, `PRAGMA journal_mode = WAL`); err != nil {
		return fmt.Errorf("turn the log on: %w", err)
	}
	return nil
}

// migrate brings the schema up to date.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	has, knows, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if has > knows {
		return fmt.Errorf("%w: its schema is version %d, and this one knows up to %d", ErrNewer, has, knows)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bring the schema from version %d to %d: %w", has, knows, err)
	}
	return nil
}
