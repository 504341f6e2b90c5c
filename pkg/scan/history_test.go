package scan_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
	"github.com/reaperd/reaperd/pkg/store"
)

func (f *faulty) Begin(ctx context.Context, e store.Entry) (int64, error) {
	if err := f.meet("begin"); err != nil {
		return 0, err
	}
	return f.Memory.Begin(ctx, e)
}

func (f *faulty) End(ctx context.Context, id int64, ended time.Time, outcome, errText string, uptime, cost float64) error {
	if err := f.meet("end"); err != nil {
		return err
	}
	return f.Memory.End(ctx, id, ended, outcome, errText, uptime, cost)
}

// stray puts a sandbox that has been due for an hour.
func stray(l *lasting, change ...func(*providers.Sandbox)) {
	at := l.clock.Now().Add(-5 * time.Hour)
	sb := providers.Sandbox{
		Ref: providers.Ref{ID: "a"}, Name: "stray", State: providers.StateRunning, Revision: "1",
		Tags: map[string]string{"env": "dev"}, Created: at, Started: at,
	}
	for _, c := range change {
		c(&sb)
	}
	l.mem.Put(sb)
}

// history gives the entries, the oldest first, each in a line.
func (d *daemon) history(t *testing.T) string {
	t.Helper()
	all, err := d.store.History(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range all {
		line := fmt.Sprintf("%s %s %s", e.SandboxID, e.Outcome, e.Error)
		lines = append([]string{strings.TrimSpace(line)}, lines...)
	}
	return strings.Join(lines, "; ")
}

func TestAnIntentIsWrittenBeforeTheStop(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		var open atomic.Int32
		stray(l)
		d := l.start(t, func(f *faulty) {
			l.mem.Inject(fake.Faults{Stop: func(ctx context.Context, _ string) error {
				entries, err := f.Unresolved(ctx, "mem")
				open.Store(int32(len(entries)))
				return err
			}})
		})
		equal(t, "intents at the stop", open.Load(), 1)
		all, err := d.store.History(t.Context(), store.Filter{})
		if err != nil || len(all) != 1 {
			t.Fatalf("history %+v, %v", all, err)
		}
		e := all[0]
		got := fmt.Sprint(e.Provider, " ", e.Kind, " ", e.SandboxID, " ", e.InstanceID, " ", e.Name, " ", e.Revision, " ", e.Tags, " ",
			e.Policy, " ", e.Reason, " ", e.Action, " ", e.By, " ", e.Outcome, " ", e.Attempt)
		equal(t, "the entry", got, "mem fake a fake_a stray 1 map[env:dev] dev max_uptime remove policy reclaimed 1")
		if e.UptimeSeconds < 5*3600 || e.Due.IsZero() || e.Begun.Before(e.Due) || e.Ended.Before(e.Begun) {
			t.Errorf("times %+v", e)
		}
	})
}

func TestAHistoryThatCannotBeWrittenKeepsNothingAlive(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		stray(l)
		d := l.start(t, func(f *faulty) { f.fail("begin", 2) }) // the intent, and the entry in its place
		equal(t, "alive", ids(t, l.mem), "")
		d.want(2, "store_errors_total", "op=begin")
		equal(t, "told", d.lines("the state does not work, and reaperd goes on without"), 1)
		d.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
		pass(time.Minute)
		equal(t, "history", d.history(t), "a reclaimed")
	})
}

func TestAnEndIsWrittenUntilItIs(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		stray(l)
		d := l.start(t, func(f *faulty) { f.fail("end", 2) })
		d.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
		equal(t, "history at first", d.history(t), "a")
		pass(70 * time.Second)
		equal(t, "history", d.history(t), "a reclaimed")
		d.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
	})
}

// An end that fails while reaperd ends is tried once more then.
func TestAnEndIsWrittenBeforeReaperdEnds(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		stray(l)
		d := l.start(t, func(f *faulty) { f.fail("end", 2) })
		d.stop()
		d = l.start(t)
		equal(t, "history", d.history(t), "a reclaimed")
		d.outcomes(nil)
	})
}

// crash leaves an intent behind, as a reaperd that is killed in the middle of a
// stop does.
func crash(t *testing.T, l *lasting) {
	t.Helper()
	stray(l)
	l.mem.Inject(fake.Faults{StopIgnored: func(string) bool { return true }})
	d := l.start(t, func(f *faulty) { f.fail("end", 1<<30) })
	pass(11 * time.Second)
	d.stop()
	l.mem.Inject(fake.Faults{})
}

func TestWhatWasBegunIsVerifiedAfterACrash(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(l *lasting)
		history   string
		counted   float64
	}{
		"it went": {func(l *lasting) { l.mem.Delete("a") }, "a reclaimed", 1},
		"its id was used again": {func(l *lasting) {
			stray(l, func(sb *providers.Sandbox) { sb.Revision, sb.Started = "2", l.clock.Now() })
		}, "a reclaimed", 1},
		"it is there": {
			func(*lasting) {},
			"a failed reaperd ended before its outcome was known; a reclaimed", 1,
		},
		"it is there, and not due": {
			func(l *lasting) { stray(l, func(sb *providers.Sandbox) { sb.Started = l.clock.Now() }) },
			"a failed reaperd ended before its outcome was known", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			lives(t, func(t *testing.T, l *lasting) {
				crash(t, l)
				tc.meanwhile(l)
				d := l.start(t)
				pass(70 * time.Second)
				equal(t, "history", d.history(t), tc.history)
				d.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: tc.counted})
				d.stop()
				d = l.start(t)
				equal(t, "history after one more restart", d.history(t), tc.history)
				d.outcomes(nil)
			})
		})
	}
}

// What is on its way out when it is looked at went by what was begun.
func TestWhatWasBegunEndsItAfterTheNextStart(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		crash(t, l)
		stray(l, in(providers.StateChanging))
		for range 2 { // also if that one is killed too
			d := l.start(t)
			pass(70 * time.Second)
			equal(t, "history meanwhile", d.history(t), "a")
			d.outcomes(nil)
			d.stop()
		}
		d := l.start(t)
		pass(time.Second)
		l.mem.Delete("a")
		pass(70 * time.Second)
		equal(t, "history", d.history(t), "a reclaimed")
		equal(t, "stops", l.mem.Calls("stop"), 1)
		d.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
	})
}

// As long as it cannot be looked at it is neither resolved nor reclaimed.
func TestWhatCannotBeVerifiedYetIsVerifiedLater(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		crash(t, l)
		l.mem.Inject(fake.Faults{Get: func(context.Context, string) error { return providers.ErrUnavailable }})
		d := l.start(t)
		pass(70 * time.Second)
		equal(t, "history meanwhile", d.history(t), "a")
		equal(t, "stops meanwhile", l.mem.Calls("stop"), 1)
		l.mem.Delete("a")
		l.mem.Inject(fake.Faults{})
		pass(time.Minute)
		equal(t, "history", d.history(t), "a reclaimed")
		d.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1})
	})
}

// What never came to a stop is in history once, however often it is met.
func TestWhatNeverCameToAStopIsInHistoryOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		faults  fake.Faults
		history string
	}{
		"a dry run": {fake.Faults{Stop: func(context.Context, string) error { return providers.ErrDryRun }}, "a dry_run"},
		"gone":      {fake.Faults{Get: func(context.Context, string) error { return providers.ErrNotFound }}, "a gone"},
	} {
		t.Run(name, func(t *testing.T) {
			lives(t, func(t *testing.T, l *lasting) {
				l.dry = name == "a dry run"
				stray(l)
				l.mem.Inject(tc.faults)
				for range 2 {
					d := l.start(t)
					pass(5 * time.Minute)
					equal(t, "history", d.history(t), tc.history)
					d.stop()
				}
			})
		})
	}
}

func TestOldHistoryIsForgotten(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		stray(l)
		d := l.start(t)
		pass(40 * time.Hour)
		equal(t, "within two days", d.history(t), "a reclaimed")
		pass(60 * time.Hour)
		equal(t, "after two days", d.history(t), "")
	})
}
