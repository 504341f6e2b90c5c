package store

import (
	"context"
	"database/sql"
	"strings"
)

// upsert writes rows over those of the same key.
type upsert struct{ table, columns, key, set string }

// rowsAtOnce is how many rows one statement writes: enough that the cost of a
// statement no longer shows.
const rowsAtOnce = 50

// text is the statement that writes so many rows.
func (u upsert) text(rows int) string {
	row := "(?" + strings.Repeat(", ?", strings.Count(u.columns, ",")) + ")"
	return `INSERT INTO ` + u.table + ` (` + u.columns + `) VALUES ` + row + strings.Repeat(", "+row, rows-1) + `
		ON CONFLICT (` + u.key + `) DO UPDATE SET ` + u.set
}

// saveAll writes all rows by the statements for one and for rowsAtOnce of them.
func saveAll[T any](ctx context.Context, tx *sql.Tx, one, many *sql.Stmt, rows []T, values func(args []any, row *T) []any) error {
	one, many = tx.StmtContext(ctx, one), tx.StmtContext(ctx, many)
	var args []any
	for len(rows) > 0 {
		stmt, n := one, 1
		if len(rows) >= rowsAtOnce {
			stmt, n = many, rowsAtOnce
		}
		args = args[:0]
		for i := range rows[:n] {
			args = values(args, &rows[i])
		}
		if _, err := stmt.ExecContext(ctx, args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
