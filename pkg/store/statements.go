package store

import (
	"context"
	"database/sql"
	"errors"
)

// statements are those that run often, prepared on the writer. To prepare them
// also shows that the schema is what its version promises.
type statements struct {
	savePulse, savePulses, saveLease, saveLeases, deleteLease, begin, end *sql.Stmt
}

func (st *statements) prepare(ctx context.Context, db *sql.DB) error {
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&st.savePulse, upsertPulses.text(1)},
		{&st.savePulses, upsertPulses.text(rowsAtOnce)},
		{&st.saveLease, upsertLeases.text(1)},
		{&st.saveLeases, upsertLeases.text(rowsAtOnce)},
		{&st.deleteLease, deleteLease},
		{&st.begin, insertEntry},
		{&st.end, resolveEntry},
	} {
		var err error
		if *p.stmt, err = db.PrepareContext(ctx, p.text); err != nil {
			return err
		}
	}
	for _, text := range []string{selectHistory, selectProtections, selectLeases} {
		probe, err := db.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		if err := probe.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (st *statements) close() error {
	var errs []error
	for _, s := range []*sql.Stmt{
		st.savePulse, st.savePulses, st.saveLease, st.saveLeases, st.deleteLease, st.begin, st.end,
	} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
