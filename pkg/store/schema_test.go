package store

import (
	"bytes"
	"errors"
	"strings"
	"testing"
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
	edit(t, path, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`, `CREATE TABLE leases (key TEXT)`)
	was := read(t, path)
	_, err := Open(t.Context(), dsnOf(path), noon)
	accepted := AcceptLost(t.Context(), dsnOf(path))
	for _, err := range []error{err, accepted} {
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "its schema is version 99, and this one knows up to 1") {
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
	path := newPath(t)
	fill(t, path, 5)
	edit(t, path, `DROP TABLE protections`)
	lostAndKept(t, path)
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
	if _, err := Open(t.Context(), dsnOf(path), noon); err == nil || !strings.Contains(err.Error(), "bring the schema from version 0 to 1") {
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
