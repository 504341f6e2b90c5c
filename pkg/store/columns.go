package store

import (
	"database/sql"
	"encoding/json"
	"math"
	"time"
)

var (
	firstNano = time.Unix(0, math.MinInt64)
	lastNano  = time.Unix(0, math.MaxInt64)
)

// nanos is how a time is kept: nanoseconds since 1970, NULL for the zero time.
func nanos(t time.Time) sql.NullInt64 {
	switch {
	case t.IsZero():
		return sql.NullInt64{}
	case t.Before(firstNano):
		return sql.NullInt64{Int64: math.MinInt64, Valid: true}
	case t.After(lastNano):
		return sql.NullInt64{Int64: math.MaxInt64, Valid: true}
	default:
		return sql.NullInt64{Int64: t.UnixNano(), Valid: true}
	}
}

// instant reads a time from a column.
type instant struct{ t *time.Time }

func (i instant) Scan(v any) error {
	var n sql.NullInt64
	if err := n.Scan(v); err != nil {
		return err
	}
	*i.t = time.Time{}
	if n.Valid {
		*i.t = time.Unix(0, n.Int64).UTC()
	}
	return nil
}

// asJSON is how a list or map of texts is kept, NULL for nil.
func asJSON[T any](v T, isNil bool) sql.NullString {
	if isNil {
		return sql.NullString{}
	}
	b, err := json.Marshal(v)
	return sql.NullString{String: string(b), Valid: err == nil} // texts always marshal
}

// fromJSON reads what asJSON wrote. What cannot be read counts as not told,
// which kills nothing; the row is worth more than that column.
type fromJSON[T any] struct{ v *T }

func (j fromJSON[T]) Scan(v any) error {
	var s sql.NullString
	if err := s.Scan(v); err != nil {
		return err
	}
	var none, got T
	*j.v = none
	if s.Valid && json.Unmarshal([]byte(s.String), &got) == nil {
		*j.v = got
	}
	return nil
}

// finite keeps what is no number out of sums.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// orNull keeps an empty text as NULL, which maybe reads.
func orNull(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

type maybe struct{ s *string }

func (m maybe) Scan(v any) error {
	var s sql.NullString
	if err := s.Scan(v); err != nil {
		return err
	}
	*m.s = s.String
	return nil
}
