package store

import (
	"context"
	"database/sql"
	"time"
)

// Protection is an operator's word that a sandbox is to be kept. There is at
// most one for a provider and id.
type Protection struct {
	Provider, ID, Revision string
	By, Why                string // who said so, and what for
	Since                  time.Time
	Until                  time.Time // zero: until it is taken back
}

const selectProtections = `SELECT provider, id, revision, protected_by, why, since, until FROM protections
	WHERE provider = ? ORDER BY id`

// Protect writes p, over an earlier one for the same provider and id.
func (s *Store) Protect(ctx context.Context, p Protection) error {
	return s.write("protect "+p.Provider+"/"+p.ID, func() error {
		_, err := s.writer.ExecContext(ctx, `INSERT INTO protections (provider, id, revision, protected_by, why, since, until)
			VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (provider, id) DO UPDATE SET revision = excluded.revision, protected_by = excluded.protected_by,
				why = excluded.why, since = excluded.since, until = excluded.until`,
			p.Provider, p.ID, p.Revision, p.By, p.Why, nanos(p.Since), nanos(p.Until))
		return err
	})
}

// Unprotect takes a protection back. That there is none is no error.
func (s *Store) Unprotect(ctx context.Context, provider, id string) error {
	return s.write("unprotect "+provider+"/"+id, func() error {
		_, err := s.writer.ExecContext(ctx, `DELETE FROM protections WHERE provider = ? AND id = ?`, provider, id)
		return err
	})
}

// Protections gives those of a provider by id, also those that are over.
func (s *Store) Protections(ctx context.Context, provider string) ([]Protection, error) {
	var all []Protection
	err := s.read("read the protections of "+provider, func() error {
		rows, err := s.readers.QueryContext(ctx, selectProtections, provider)
		if err != nil {
			return err
		}
		all, err = collect(rows, func(rows *sql.Rows, p *Protection) error {
			return rows.Scan(&p.Provider, &p.ID, &p.Revision, &p.By, &p.Why, instant{&p.Since}, instant{&p.Until})
		})
		return err
	})
	return all, err
}
