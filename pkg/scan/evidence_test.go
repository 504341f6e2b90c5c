package scan_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
	"github.com/reaperd/reaperd/pkg/store"
)

const keepingLogs = `
version: 1
policies:
  - name: dev
    match: {tags: {env: dev}}
    limits: {max_uptime: 4h}
    action: {type: remove, logs: 3}
`

// witness is a fake kind whose sandboxes leave something to tell.
type witness struct {
	*fake.Provider
	says func(ctx context.Context) (providers.Evidence, error)
}

func (w *witness) Evidence(ctx context.Context, _ providers.Sandbox, _ int) (providers.Evidence, error) {
	return w.says(ctx)
}

func TestWhatASandboxLeavesToTellIsKept(t *testing.T) {
	seven := 7
	long := strings.Repeat("x", 1<<20)
	for name, tc := range map[string]struct {
		says func(ctx context.Context) (providers.Evidence, error)
		want string
	}{
		"its last lines": {func(context.Context) (providers.Evidence, error) {
			return providers.Evidence{Output: []string{"a", "b", "c", "d"}, ExitCode: &seven, Processes: []string{"PID", "1"}}, nil
		}, `{[b c d] 7 [PID 1]}`},
		"nothing harmful": {func(context.Context) (providers.Evidence, error) {
			return providers.Evidence{Output: []string{"\x1b]0;owned\a\x1b[31mred\x1b[0m\r\x00\xff\u202e", "a\tb"}}, nil
		}, `{[]0;owned[31mred[0m a b] - []}`},
		"not more than is good": {func(context.Context) (providers.Evidence, error) {
			return providers.Evidence{Output: []string{long, long, "end"}}, nil
		}, `{[` + long[:4<<10] + `… ` + long[:4<<10] + `… end] - []}`},
		"an error": {func(context.Context) (providers.Evidence, error) { return providers.Evidence{}, errors.New("no") }, `nothing`},
		"no answer": {func(ctx context.Context) (providers.Evidence, error) {
			<-ctx.Done()
			return providers.Evidence{}, ctx.Err()
		}, `nothing`},
		"a bug in it":  {func(context.Context) (providers.Evidence, error) { panic("a bug") }, `nothing`},
		"empty, truly": {func(context.Context) (providers.Evidence, error) { return providers.Evidence{}, nil }, `{[] - []}`},
	} {
		t.Run(name, func(t *testing.T) {
			lives(t, func(t *testing.T, l *lasting) {
				s, err := store.Open(t.Context(), l.dsn, l.clock.Now())
				if err != nil {
					t.Fatal(err)
				}
				r := newRig(t, setup{
					policies: keepingLogs, memory: s, clock: l.clock, names: []string{"mem"},
					providers: []providers.Provider{&witness{l.mem, tc.says}},
				})
				l.mem.Put(r.up("a", 5*time.Hour))
				stop := r.run()
				pass(10 * time.Second)
				synctest.Wait()
				equal(t, "left", ids(t, l.mem), "") // whatever came of that
				all, err := s.History(t.Context(), store.Filter{})
				if err != nil || len(all) != 1 {
					t.Fatal(all, err)
				}
				if got := told(all[0].Evidence); got != tc.want {
					t.Errorf("kept %.200q, want %.200q", got, tc.want)
				}
				r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
				stop()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What it has to tell may take seconds, in which it may give a sign of life.
func TestWhoBeatsWhileItsEvidenceIsTakenIsSpared(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		s, err := store.Open(t.Context(), l.dsn, l.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		var r *rig
		r = newRig(t, setup{
			policies: `
version: 1
policies: [{name: beats, match: {tags: {env: dev}}, limits: {heartbeat: {timeout: 5m}}, action: {type: remove, logs: 3}}]
`, memory: s, clock: l.clock, names: []string{"mem"},
			providers: []providers.Provider{&witness{l.mem, func(context.Context) (providers.Evidence, error) {
				r.beat("a")
				return providers.Evidence{}, nil
			}}},
		})
		l.mem.Put(r.up("a", time.Minute))
		stop := r.run()
		synctest.Wait()
		r.beat("a")
		pass(6 * time.Minute)
		equal(t, "left", ids(t, l.mem), "a")
		stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func told(e *providers.Evidence) string {
	if e == nil {
		return "nothing"
	}
	code := "-"
	if e.ExitCode != nil {
		code = string(rune('0' + *e.ExitCode))
	}
	return "{[" + strings.Join(e.Output, " ") + "] " + code + " [" + strings.Join(e.Processes, " ") + "]}"
}
