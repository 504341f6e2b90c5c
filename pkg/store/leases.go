package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/reaperd/reaperd/pkg/lease"
)

const (
	leaseColumns = `key, ttl, created, renewed, released, forgotten, changed_by, boot, zero`
	selectLeases = `SELECT ` + leaseColumns + ` FROM leases ORDER BY key`
	deleteLease  = `DELETE FROM leases WHERE key = ?`
)

var upsertLeases = upsert{
	table: "leases", columns: leaseColumns, key: "key",
	set: `ttl = excluded.ttl, created = excluded.created, renewed = excluded.renewed,
			released = excluded.released, forgotten = excluded.forgotten, changed_by = excluded.changed_by,
			boot = excluded.boot, zero = excluded.zero`,
}

// Leases gives all leases by key, also those that are over.
func (s *Store) Leases(ctx context.Context) ([]lease.Lease, error) {
	var all []lease.Lease
	err := s.read("read the leases", func() error {
		rows, err := s.readers.QueryContext(ctx, selectLeases)
		if err != nil {
			return err
		}
		all, err = collect(rows, func(rows *sql.Rows, l *lease.Lease) error {
			return rows.Scan(&l.Key, &l.TTL, instant{&l.Created}, instant{&l.Renewed},
				instant{&l.Released}, instant{&l.Forgotten}, &l.By, maybe{&l.Origin.Boot}, instant{&l.Origin.Zero})
		})
		return err
	})
	return all, err
}

// SaveLeases writes leases, over those of the same key: all of them or, with an
// error, none. Of two that are the same the later one counts.
func (s *Store) SaveLeases(ctx context.Context, ls []lease.Lease) error {
	if len(ls) == 0 {
		return nil
	}
	return s.change(ctx, fmt.Sprintf("save %d leases", len(ls)), func(tx *sql.Tx) error {
		return saveAll(ctx, tx, s.stmts.saveLease, s.stmts.saveLeases, ls, appendLease)
	})
}

func appendLease(args []any, l *lease.Lease) []any {
	return append(args, l.Key, int64(l.TTL), nanos(l.Created), nanos(l.Renewed),
		nanos(l.Released), nanos(l.Forgotten), l.By, orNull(l.Origin.Boot), nanos(l.Origin.Zero))
}

// DeleteLeases deletes the leases of those keys: all of them or, with an error,
// none. That there is none of a key is no error.
func (s *Store) DeleteLeases(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return s.change(ctx, fmt.Sprintf("delete %d leases", len(keys)), func(tx *sql.Tx) error {
		stmt := tx.StmtContext(ctx, s.stmts.deleteLease)
		for _, key := range keys {
			if _, err := stmt.ExecContext(ctx, key); err != nil {
				return err
			}
		}
		return nil
	})
}
