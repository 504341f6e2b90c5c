package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// Entry is one reclaim: what, where, why, on whose word, and how it ended. It
// is an intent as long as Ended is zero.
type Entry struct {
	ID                                                           int64 // given by Begin, ascending, never twice
	Provider, Kind, SandboxID, InstanceID, Name, Image, Revision string
	Tags                                                         map[string]string // nil: not told
	Policy, Reason, Action                                       string
	// By is "policy", or who ordered it: an operator's user@host.
	By                         string
	Due, Begun, Ended          time.Time
	Outcome, Error             string
	UptimeSeconds, CostDollars float64
	Attempt                    int
	// Evidence is what the sandbox left to tell of its end; nil: nothing.
	Evidence *providers.Evidence
}

const entryColumns = `provider, kind, sandbox_id, instance_id, name, image, revision, tags, policy, reason, action, ordered_by,
	due, begun, ended, outcome, error, uptime_seconds, cost_dollars, attempt, evidence`

const (
	insertEntry = `INSERT INTO history (` + entryColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (provider, sandbox_id, revision, begun) DO UPDATE SET ended = coalesce(ended, excluded.ended),
			outcome = CASE WHEN ended IS NULL THEN excluded.outcome ELSE outcome END,
			error = CASE WHEN ended IS NULL THEN excluded.error ELSE error END,
			uptime_seconds = CASE WHEN ended IS NULL THEN excluded.uptime_seconds ELSE uptime_seconds END,
			cost_dollars = CASE WHEN ended IS NULL THEN excluded.cost_dollars ELSE cost_dollars END
		RETURNING id`
	resolveEntry  = `UPDATE history SET ended = ?, outcome = ?, error = ?, uptime_seconds = ?, cost_dollars = ? WHERE id = ? AND ended IS NULL`
	selectHistory = `SELECT id, ` + entryColumns + ` FROM history`
)

// Begin writes e, usually an intent, and gives its id. When it returns without
// an error the entry is on the disk, whatever happens next. e.ID is not looked
// at; an entry that needs no intent is given whole, with Ended. One that was
// begun at the same instant for the same sandbox is the same one, so that a
// call which was given up can be made again, and then whole.
func (s *Store) Begin(ctx context.Context, e Entry) (id int64, err error) {
	err = s.write("begin in history "+e.Provider+"/"+e.SandboxID, func() error {
		if e.Begun.IsZero() {
			return errors.New("an entry has to say when it was begun")
		}
		return s.stmts.begin.QueryRowContext(ctx, entryArgs(&e)...).Scan(&id)
	})
	return id, err
}

func entryArgs(e *Entry) []any {
	return []any{
		e.Provider, e.Kind, e.SandboxID, e.InstanceID, e.Name, e.Image, e.Revision, asJSON(e.Tags, e.Tags == nil),
		e.Policy, e.Reason, e.Action, e.By, nanos(e.Due), nanos(e.Begun), nanos(e.Ended), e.Outcome, e.Error,
		finite(e.UptimeSeconds), finite(e.CostDollars), e.Attempt,
		asJSON(e.Evidence, e.Evidence == nil),
	}
}

// End resolves the intent id. To say the same again is no error, so that a
// call which was given up can be made again; to say something else is one.
func (s *Store) End(ctx context.Context, id int64, ended time.Time, outcome, errText string, uptime, cost float64) error {
	return s.write(fmt.Sprintf("end %d in history", id), func() error {
		if ended.IsZero() {
			return errors.New("an end has to say when it was")
		}
		done, err := s.stmts.end.ExecContext(ctx, nanos(ended), outcome, errText, finite(uptime), finite(cost), id)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); n > 0 || err != nil {
			return err
		}
		return s.endedAlready(ctx, id, ended, outcome)
	})
}

func (s *Store) endedAlready(ctx context.Context, id int64, ended time.Time, outcome string) error {
	var was time.Time
	var before string
	err := s.writer.QueryRowContext(ctx, `SELECT ended, outcome FROM history WHERE id = ?`, id).Scan(instant{&was}, &before)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return errors.New("there is no such entry")
	case err != nil:
		return err
	case nanos(was) != nanos(ended) || before != outcome:
		return fmt.Errorf("it had ended before, %s at %s", before, was.Format(time.RFC3339))
	}
	return nil
}

// Unresolved gives a provider's intents of which no end is written, the oldest
// first.
func (s *Store) Unresolved(ctx context.Context, provider string) ([]Entry, error) {
	return s.entries(ctx, "read the unresolved of "+provider,
		selectHistory+` WHERE provider = ? AND ended IS NULL ORDER BY id`, provider)
}

// Filter selects from the history. The zero value of a field selects nothing
// out; all that are given have to hold.
type Filter struct {
	Outcome, Policy string
	// Provider is a provider's name or a kind.
	Provider string
	// Sandbox is an id, instance id or name, exact, or the beginning of an id
	// of at least 12 characters.
	Sandbox string
	// Since and Until bound when it was begun: not before Since, before Until.
	Since, Until time.Time
	// Before gives only entries with a lesser ID: the last of one page begins
	// the next.
	Before int64
	// Limit is how many at most; zero or less gives all.
	Limit int
}

// idPrefix is how much of an id has to be given, as short ids of engines have.
const idPrefix = 12

// History gives the entries that f selects, the newest first.
func (s *Store) History(ctx context.Context, f Filter) ([]Entry, error) {
	var where []string
	var args []any
	and := func(clause string, values ...any) {
		where = append(where, clause)
		args = append(args, values...)
	}
	for _, c := range []struct{ column, value string }{
		{"outcome", f.Outcome}, {"policy", f.Policy},
	} {
		if c.value != "" {
			and(c.column+" = ?", c.value)
		}
	}
	if f.Provider != "" {
		and(`(provider = ? OR kind = ?)`, f.Provider, f.Provider)
	}
	if f.Sandbox != "" {
		and(`id IN (`+bySandbox+`)`, f.Sandbox, f.Sandbox, f.Sandbox)
		if len(f.Sandbox) >= idPrefix {
			where[len(where)-1] = `id IN (` + bySandbox + ` UNION ALL ` + byPrefix + `)`
			args = append(args, f.Sandbox, f.Sandbox+lastRune)
		}
	}
	if !f.Since.IsZero() {
		and(`begun >= ?`, nanos(f.Since))
	}
	if !f.Until.IsZero() {
		and(`begun < ?`, nanos(f.Until))
	}
	if f.Before > 0 {
		and(`id < ?`, f.Before)
	}
	query := selectHistory
	if len(where) > 0 {
		query += ` WHERE ` + strings.Join(where, ` AND `)
	}
	query += ` ORDER BY id DESC`
	if f.Limit > 0 {
		query += ` LIMIT ?`
		args = append(args, f.Limit)
	}
	return s.entries(ctx, "read the history", query, args...)
}

const (
	bySandbox = `SELECT id FROM history WHERE sandbox_id = ? UNION ALL SELECT id FROM history WHERE instance_id = ?
		UNION ALL SELECT id FROM history WHERE name = ?`
	byPrefix = `SELECT id FROM history WHERE sandbox_id >= ? AND sandbox_id < ?`
	lastRune = "\U0010FFFF"
)

func (s *Store) entries(ctx context.Context, op, query string, args ...any) ([]Entry, error) {
	var all []Entry
	err := s.read(op, func() error {
		rows, err := s.readers.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		all, err = collect(rows, scanEntry)
		return err
	})
	return all, err
}

func scanEntry(rows *sql.Rows, e *Entry) error {
	return rows.Scan(&e.ID, &e.Provider, &e.Kind, &e.SandboxID, &e.InstanceID, &e.Name, &e.Image, &e.Revision,
		fromJSON[map[string]string]{&e.Tags}, &e.Policy, &e.Reason, &e.Action, &e.By,
		instant{&e.Due}, instant{&e.Begun}, instant{&e.Ended}, &e.Outcome, &e.Error,
		&e.UptimeSeconds, &e.CostDollars, &e.Attempt, fromJSON[*providers.Evidence]{&e.Evidence})
}

// prunedAtOnce bounds for how long a prune keeps an intent waiting.
const prunedAtOnce = 1000

// PruneHistory deletes the entries that were begun before that time, and says
// how many, also with an error. Intents that are not resolved stay.
func (s *Store) PruneHistory(ctx context.Context, before time.Time) (int, error) {
	total := 0
	for {
		var n int64
		err := s.write("prune the history", func() error {
			done, err := s.writer.ExecContext(ctx, `DELETE FROM history WHERE id IN
				(SELECT id FROM history WHERE begun < ? AND ended IS NOT NULL ORDER BY begun LIMIT ?)`, nanos(before), prunedAtOnce)
			if err != nil {
				return err
			}
			n, err = done.RowsAffected()
			return err
		})
		total += int(n)
		if err != nil || n < prunedAtOnce {
			return total, err
		}
	}
}
