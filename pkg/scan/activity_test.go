package scan_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/scan"
)

const halfAnHourIdle = `
version: 1
policies:
  - name: dev
    match: {tags: {env: dev}}
    limits: {max_idle: 30m}
    action: {type: remove}
`

// sampler is a fake kind that can tell when a sandbox last did work.
type sampler struct {
	*fake.Provider
	says  func(ctx context.Context, id string) (time.Time, error)
	asked atomic.Int64
}

func (s *sampler) Activity(ctx context.Context, sb providers.Sandbox) (time.Time, error) {
	s.asked.Add(1)
	return s.says(ctx, sb.ID)
}

// idleRig is a rig whose only provider says by says when sandboxes were active.
func idleRig(t *testing.T, says func(r *rig, id string) (time.Time, error)) (*rig, *sampler) {
	t.Helper()
	s := &sampler{Provider: fake.New("mem")}
	r := newRig(t, setup{policies: halfAnHourIdle, providers: []providers.Provider{s}, names: []string{"mem"}})
	r.mem = s.Provider
	s.says = func(_ context.Context, id string) (time.Time, error) { return says(r, id) }
	return r, s
}

func TestWhatIsIdleIsReclaimedAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began time.Time
		r, s := idleRig(t, func(r *rig, id string) (time.Time, error) {
			now := r.clock.Now()
			switch id {
			case "idle":
				return began, nil
			case "busy":
				return now, nil
			case "at work when it falls due": // and not a moment before
				if now.Sub(began) >= 30*time.Minute {
					return now, nil
				}
				return began, nil
			case "unsaid":
				return time.Time{}, nil
			case "failing":
				return began, errors.New("no")
			default:
				panic("a bug")
			}
		})
		began = r.clock.Now().Add(-20 * time.Second) // so that it is due between two scans
		for _, id := range []string{"idle", "busy", "at work when it falls due", "unsaid", "failing", "a bug"} {
			r.mem.Put(r.up(id, 5*time.Hour))
		}
		stop := r.run()
		pass(29 * time.Minute)
		equal(t, "before it is due", ids(t, r.mem), "a bug at work when it falls due busy failing idle unsaid")
		pass(2 * time.Minute)
		synctest.Wait()
		equal(t, "left", ids(t, r.mem), "a bug at work when it falls due busy failing unsaid")
		r.outcomes(map[scan.Outcome]float64{scan.OutcomeReclaimed: 1, scan.OutcomeSpared: 1})
		before := s.asked.Load()
		pass(10 * time.Minute)
		// Those five once a minute; the one that cannot say is asked at each scan.
		if n := s.asked.Load() - before; n < 50 || n > 65 {
			t.Errorf("asked %d times in ten minutes", n)
		}
		stop()
	})
}

func TestOnlyThoseAreAskedForWhoseIdlenessIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := idleRig(t, func(r *rig, _ string) (time.Time, error) { return r.clock.Now(), nil })
		for id, change := range map[string]func(*providers.Sandbox){
			"unmatched": func(sb *providers.Sandbox) { sb.Tags = map[string]string{"env": "prod"} },
			"paused":    func(sb *providers.Sandbox) { sb.State = providers.StatePaused },
			"self":      func(sb *providers.Sandbox) { sb.Self = true },
			"owned":     func(sb *providers.Sandbox) { sb.Owner = "swarm" },
		} {
			sb := r.up(id, time.Hour)
			change(&sb)
			r.mem.Put(sb)
		}
		stop := r.run()
		pass(5 * time.Minute)
		equal(t, "asked", s.asked.Load(), 0)
		stop()
	})
}

func TestAScanDoesNotWaitForSamplesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := idleRig(t, nil)
		s.says = func(ctx context.Context, _ string) (time.Time, error) {
			<-ctx.Done()
			return time.Time{}, ctx.Err()
		}
		for i := range 100 {
			r.mem.Put(r.up(strings.Repeat("x", i+1), time.Hour))
		}
		began := r.clock.Now()
		r.loop.Once(t.Context())
		if took := r.clock.Now().Sub(began); took > 11*time.Second {
			t.Errorf("it took %v", took)
		}
		if n := len(r.logs.FilterMessageSnippet("last active").All()); n > 1 {
			t.Errorf("%d lines about it", n)
		}
	})
}
