package store

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

func BenchmarkSavePulses(b *testing.B) {
	s := open(b, newPath(b))
	ps := pulsesOf(10_000)
	for b.Loop() {
		if err := s.SavePulses(b.Context(), ps); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(ps))/b.Elapsed().Seconds(), "pulses/s")
}

// BenchmarkSaveASecond saves what ten thousand beats of one second change when
// each is for another: it has to take well under a second.
func BenchmarkSaveASecond(b *testing.B) {
	s := open(b, newPath(b))
	ps, ls := pulsesOf(10_000), leasesOf(10_000)
	for b.Loop() {
		if err := errors.Join(s.SavePulses(b.Context(), ps), s.SaveLeases(b.Context(), ls)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*(len(ps)+len(ls)))/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkPulses(b *testing.B) {
	s := open(b, newPath(b))
	if err := s.SavePulses(b.Context(), pulsesOf(10_000)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if ps, err := s.Pulses(b.Context(), "dev"); err != nil || len(ps) != 10_000 {
			b.Fatal(len(ps), err)
		}
	}
}

func BenchmarkBeginEnd(b *testing.B) {
	s := open(b, newPath(b))
	for b.Loop() {
		id, err := s.Begin(b.Context(), intent(rand.Text()))
		if err != nil {
			b.Fatal(err)
		}
		if err := s.End(b.Context(), id, noon, "reclaimed", "", 1, 0); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reclaims/s")
}

// long gives a state with that many entries, written at once.
func long(b *testing.B, entries int) (*Store, string) {
	path := newPath(b)
	s := open(b, path)
	err := s.change(b.Context(), "fill", func(tx *sql.Tx) error {
		stmt := tx.StmtContext(b.Context(), s.stmts.begin)
		for i := range entries {
			e := intent(fmt.Sprintf("%064x", i*7919))
			e.Begun, e.Ended, e.Outcome = noon.Add(time.Duration(i)*time.Second), noon, "reclaimed"
			if i%1000 == 0 {
				e.Outcome = "stuck"
			}
			if _, err := stmt.ExecContext(b.Context(), entryArgs(&e)...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return s, path
}

func BenchmarkHistory(b *testing.B) {
	const entries = 100_000
	s, path := long(b, entries)
	id := fmt.Sprintf("%064x", 5000*7919)
	for _, bc := range []struct {
		name string
		f    Filter
		want int
	}{
		{"page", Filter{Limit: 100}, 100},
		{"page in the middle", Filter{Before: 50_000, Limit: 100}, 100},
		{"provider and outcome", Filter{Provider: "dev", Outcome: "reclaimed", Limit: 100}, 100},
		{"rare outcome", Filter{Outcome: "stuck", Limit: 100}, 100},
		{"no such outcome", Filter{Outcome: "spared", Limit: 100}, 0},
		{"since", Filter{Since: noon.Add((entries - 50) * time.Second), Limit: 100}, 50},
		{"until", Filter{Until: noon.Add(50 * time.Second), Limit: 100}, 50},
		{"sandbox id", Filter{Sandbox: id, Limit: 100}, 1},
		{"sandbox name", Filter{Sandbox: "box-" + id, Limit: 100}, 1},
	} {
		b.Run(bc.name, func(b *testing.B) {
			for b.Loop() {
				if all := history(b, s, bc.f); len(all) != bc.want {
					b.Fatalf("%d entries", len(all))
				}
			}
		})
	}
	shut(b, s)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			again, err := Open(b.Context(), dsnOf(path), noon)
			if err != nil {
				b.Fatal(err)
			}
			shut(b, again)
		}
		if info, err := os.Stat(path); err == nil {
			b.ReportMetric(float64(info.Size())/1e6, "MB")
		}
	})
}
