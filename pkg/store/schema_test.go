package store

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/reaperd/reaperd/pkg/providers"
)

// edit changes a state as another program would.
func edit(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := connect(path, forWriting)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, q := range statements {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(q, err)
		}
	}
}

func TestAStateOfANewerReaperdIsLeftAlone(t *testing.T) {
	path := newPath(t)
	fill(t, path, 5)
	edit(t, path, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`, `CREATE TABLE adoptions (id TEXT)`)
	was := read(t, path)
	_, err := Open(t.Context(), dsnOf(path), noon)
	accepted := AcceptLost(t.Context(), dsnOf(path))
	for _, err := range []error{err, accepted} {
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "its schema is version 99, and this one knows up to 3") {
			t.Errorf("%v", err)
		}
	}
	if !bytes.Equal(read(t, path), was) {
		t.Error("it was changed")
	}
}

func TestAnotherProgramsDatabaseIsLeftAlone(t *testing.T) {
	path := newPath(t)
	write(t, path, nil)
	edit(t, path, `CREATE TABLE theirs (x TEXT)`, `INSERT INTO theirs VALUES ('precious')`)
	was := read(t, path)
	if _, err := Open(t.Context(), dsnOf(path), noon); err == nil || !strings.Contains(err.Error(), "another program's database") {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(read(t, path), was) {
		t.Error("it was changed")
	}
}

func TestAStateThatLacksATableIsSetAside(t *testing.T) {
	for _, table := range []string{"protections", "leases"} {
		t.Run(table, func(t *testing.T) {
			path := newPath(t)
			fill(t, path, 5)
			edit(t, path, `DROP TABLE `+table)
			lostAndKept(t, path)
		})
	}
}

// What a reaperd of schema version 1 remembered is all there in the present one.
func TestAnOlderStateIsBroughtUpToDate(t *testing.T) {
	path := newPath(t)
	write(t, path, nil)
	db, err := connect(path, forWriting)
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, path, `PRAGMA application_id = 1919246704`, `PRAGMA journal_mode = WAL`,
		`INSERT INTO pulses VALUES ('dev', 'a', 'r1', 1, 2, 'running', 3, 4, 5, '["told"]'), ('dev', 'b', '', NULL, NULL, '', NULL, NULL, NULL, NULL)`,
		`INSERT INTO history VALUES (7, 'dev', 'docker', 'a', 'docker_a', 'box', 'img', 'r1', '{"k":"v"}', 'p', 'max_age', 'stop', 'policy', 1, 2, NULL, '', '', 0, 0, 1)`,
		`INSERT INTO protections VALUES ('dev', 'a', 'r1', 'ann@box', 'why', 1, NULL)`,
		`INSERT INTO losses VALUES (1, 'aside', 0)`)
	at := func(n int64) time.Time { return time.Unix(0, n).UTC() }
	for range 2 { // the second time there is nothing to do
		s := open(t, path)
		ps, err := s.Pulses(t.Context(), "dev")
		if diff := cmp.Diff([]Pulse{
			{
				Provider: "dev", ID: "a", Revision: "r1", FirstSeen: at(1), LastSeen: at(2), State: providers.StateRunning,
				StateSince: at(3), UpSince: at(4), LastBeat: at(5), Told: []string{"told"},
			},
			{Provider: "dev", ID: "b"},
		}, ps); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
		if left, err := s.Unresolved(t.Context(), "dev"); err != nil || len(left) != 1 || left[0].ID != 7 || left[0].Tags["k"] != "v" {
			t.Errorf("%+v, %v", left, err)
		}
		if kept, err := s.Protections(t.Context(), "dev"); err != nil || len(kept) != 1 || kept[0].By != "ann@box" {
			t.Errorf("%+v, %v", kept, err)
		}
		if !s.Lost() {
			t.Error("the loss is forgotten")
		}
		if ls, err := s.Leases(t.Context()); err != nil || len(ls) != 0 {
			t.Errorf("%+v, %v", ls, err)
		}
		shut(t, s)
	}
	s := open(t, path)
	usable(t, s)
}

func TestARowThatCannotBeReadWholeIsReadInPart(t *testing.T) {
	path := newPath(t)
	fill(t, path, 1)
	edit(t, path, `UPDATE pulses SET told = '{'`, `UPDATE history SET tags = '[]'`)
	s := open(t, path)
	if ps, err := s.Pulses(t.Context(), "dev"); err != nil || len(ps) != 1 || ps[0].Told != nil || ps[0].UpSince.IsZero() {
		t.Errorf("%+v, %v", ps, err)
	}
	if all := history(t, s, Filter{}); len(all) != 1 || all[0].Tags != nil || all[0].Name == "" {
		t.Errorf("%+v", all)
	}
}

func TestAMigrationThatFailsChangesNothing(t *testing.T) {
	path := newPath(t)
	fill(t, path, 5)
	edit(t, path, `DELETE FROM goose_db_version WHERE version_id > 0`)
	was := read(t, path)
	if _, err := Open(t.Context(), dsnOf(path), noon); err == nil || !strings.Contains(err.Error(), "bring the schema from version 0 to 3") {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(read(t, path), was) || len(besides(t, path)) != 2 {
		t.Errorf("it was changed: %q", besides(t, path))
	}
}

func TestAnInterruptedBeginningIsBegunAgain(t *testing.T) {
	path := newPath(t)
	write(t, path, nil)
	edit(t, path, `PRAGMA application_id = 1919246704`, `PRAGMA journal_mode = WAL`)
	s := open(t, path)
	if s.Lost() {
		t.Error("lost")
	}
	usable(t, s)
	var id int
	if err := s.readers.QueryRowContext(t.Context(), `PRAGMA application_id`).Scan(&id); err != nil || id != applicationID {
		t.Errorf("application id %d, %v", id, err)
	}
}
