package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/providers"
)

// Pulse is what reaperd remembers of a sandbox: one per provider, id and
// revision. A zero time is not known.
type Pulse struct {
	Provider, ID, Revision string
	FirstSeen, LastSeen    time.Time
	State                  providers.State // when it was last seen and could be read
	StateSince             time.Time       // since when reaperd saw it in State
	// UpSince is the start of its present run, as reaperd knows it.
	UpSince  time.Time
	LastBeat time.Time // its last own heartbeat
	// Restarts and Started are what its provider told at its last sight: how
	// often it had restarted it by itself, and since when it ran.
	Restarts int
	Started  time.Time
	// Origin is of what the times of reaperd's own are.
	Origin lease.Origin
	// Told is what was already counted and logged of it.
	Told []string
}

const pulseColumns = `provider, id, revision, first_seen, last_seen, state, state_since, up_since, last_beat, restarts, started, boot, zero, told`

var upsertPulses = upsert{
	table: "pulses", columns: pulseColumns, key: "provider, id, revision",
	set: `first_seen = excluded.first_seen, last_seen = excluded.last_seen,
			state = excluded.state, state_since = excluded.state_since,
			up_since = excluded.up_since, last_beat = excluded.last_beat,
			restarts = excluded.restarts, started = excluded.started,
			boot = excluded.boot, zero = excluded.zero, told = excluded.told`,
}

// Pulses gives what is remembered of a provider's sandboxes, by id.
func (s *Store) Pulses(ctx context.Context, provider string) ([]Pulse, error) {
	var all []Pulse
	err := s.read("read the pulses of "+provider, func() error {
		rows, err := s.readers.QueryContext(ctx,
			`SELECT `+pulseColumns+` FROM pulses WHERE provider = ? ORDER BY id, revision`, provider)
		if err != nil {
			return err
		}
		all, err = collect(rows, scanPulse)
		return err
	})
	return all, err
}

func scanPulse(rows *sql.Rows, p *Pulse) error {
	return rows.Scan(&p.Provider, &p.ID, &p.Revision, instant{&p.FirstSeen}, instant{&p.LastSeen},
		&p.State, instant{&p.StateSince}, instant{&p.UpSince}, instant{&p.LastBeat},
		&p.Restarts, instant{&p.Started}, maybe{&p.Origin.Boot}, instant{&p.Origin.Zero}, fromJSON[[]string]{&p.Told})
}

// SavePulses writes pulses, over those of the same provider, id and revision:
// all of them or, with an error, none. Of two that are the same the later one
// counts.
func (s *Store) SavePulses(ctx context.Context, ps []Pulse) error {
	if len(ps) == 0 {
		return nil
	}
	return s.change(ctx, fmt.Sprintf("save %d pulses", len(ps)), func(tx *sql.Tx) error {
		return saveAll(ctx, tx, s.stmts.savePulse, s.stmts.savePulses, ps, appendPulse)
	})
}

func appendPulse(args []any, p *Pulse) []any {
	return append(args, p.Provider, p.ID, p.Revision, nanos(p.FirstSeen), nanos(p.LastSeen),
		string(p.State), nanos(p.StateSince), nanos(p.UpSince), nanos(p.LastBeat),
		p.Restarts, nanos(p.Started), orNull(p.Origin.Boot), nanos(p.Origin.Zero), asJSON(p.Told, len(p.Told) == 0))
}

// PrunePulses forgets the pulses that were last seen before that time, and
// says how many. One that says not when it was last seen stays.
func (s *Store) PrunePulses(ctx context.Context, lastSeenBefore time.Time) (int, error) {
	var n int64
	err := s.write("prune pulses", func() error {
		done, err := s.writer.ExecContext(ctx, `DELETE FROM pulses WHERE last_seen < ?`, nanos(lastSeenBefore))
		if err != nil {
			return err
		}
		n, err = done.RowsAffected()
		return err
	})
	return int(n), err
}

// collect reads all rows by scan, and closes them.
func collect[T any](rows *sql.Rows, scan func(*sql.Rows, *T) error) (all []T, err error) {
	defer func() {
		if closed := rows.Close(); err == nil {
			err = closed
		}
	}()
	for rows.Next() {
		var one T
		if err := scan(rows, &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
