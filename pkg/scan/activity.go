package scan

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

const (
	// sampleEvery is how often a sandbox is sampled at most, save before it is
	// reclaimed. It is a little less than a minute, so that a scan each minute
	// does it.
	sampleEvery = 50 * time.Second
	// sampleTimeout bounds one sample, and sampleRound all of a scan: a scan has
	// more to do than to wait for those that hang.
	sampleTimeout = 5 * time.Second
	sampleRound   = 10 * time.Second
	samplesAtOnce = 4
)

// samples remembers when sandboxes were last active, as their provider said it.
type samples struct {
	mu      sync.Mutex
	by      map[pulseKey]sample
	failing bool // whether the last round had failures, for logging on change only
}

type sample struct {
	at   time.Duration // by the boot clock
	last time.Time     // zero: it could not be said
}

func newSamples() *samples { return &samples{by: map[pulseKey]sample{}} }

// latest gives the last sample, and whether it is recent enough to do without
// another.
func (s *samples) latest(k pulseKey, now time.Duration) (last time.Time, recent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, has := s.by[k]
	return known.last, has && now-known.at < sampleEvery
}

func (s *samples) put(k pulseKey, one sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[k] = one
}

// keep forgets the sandboxes that are not among those listed.
func (s *samples) keep(listed []providers.Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.by) == 0 {
		return
	}
	present := make(map[pulseKey]bool, len(listed))
	for i := range listed {
		present[keyOf(&listed[i])] = true
	}
	maps.DeleteFunc(s.by, func(k pulseKey, _ sample) bool { return !present[k] })
}

// sampleAll has the provider say of those sandboxes that a policy asks it of
// when they were last active. Those for which the time does not suffice keep
// what was said before: the door asks afresh.
func (s *Scanner) sampleAll(ctx context.Context, sandboxes []providers.Sandbox) {
	if _, ok := providers.As[providers.ActivitySampler](s.target.Provider); !ok {
		return
	}
	s.samples.keep(sandboxes)
	ctx, cancel := context.WithTimeout(ctx, sampleRound)
	defer cancel()
	var asked, failed atomic.Int64
	var first atomic.Pointer[error]
	var g errgroup.Group
	g.SetLimit(samplesAtOnce)
	for i := range sandboxes {
		sb := &sandboxes[i]
		if !s.policies.ReadsActivity(&policy.Facts{Sandbox: *sb}) {
			continue
		}
		g.Go(func() error {
			sampled, err := s.activity(ctx, sb, false)
			if sampled {
				asked.Add(1)
			}
			if err != nil && ctx.Err() == nil {
				failed.Add(1)
				first.CompareAndSwap(nil, &err)
			}
			return nil
		})
	}
	_ = g.Wait() // the functions give no errors
	switch {
	case failed.Load() > 0 && !s.samples.failing:
		s.samples.failing = true
		s.log.Warn("of some sandboxes it cannot be said when they were last active: max_idle does not end them",
			zap.Int64("sandboxes", failed.Load()), zap.Error(*first.Load()))
		s.tellPanic(*first.Load())
	case failed.Load() == 0 && asked.Load() > 0 && s.samples.failing:
		s.samples.failing = false
		s.log.Info("it can be said again when sandboxes were last active")
	}
}

// sample has the provider say when one sandbox was last active, if a policy
// asks it.
func (s *Scanner) sample(ctx context.Context, sb *providers.Sandbox, fresh bool) {
	if s.policies.ReadsActivity(&policy.Facts{Sandbox: *sb}) {
		_, _ = s.activity(ctx, sb, fresh) // where it cannot be said, the limit does not act
	}
}

// activity sets when the sandbox was last active, zero if that cannot be said.
// What was said not long ago does, unless fresh asks for more. A provider that
// is not fit is not asked.
func (s *Scanner) activity(ctx context.Context, sb *providers.Sandbox, fresh bool) (sampled bool, err error) {
	a, ok := providers.As[providers.ActivitySampler](s.target.Provider)
	if !ok {
		return false, nil
	}
	k, now := keyOf(sb), s.clock.Boot()
	last, recent := s.samples.latest(k, now)
	if !fresh && (recent || ctx.Err() != nil || s.unfit()) {
		sb.LastActive = last
		return false, nil
	}
	sb.LastActive, err = call(ctx, s, opActivity, sampleTimeout, func(ctx context.Context) (time.Time, error) {
		return a.Activity(ctx, *sb)
	})
	if err != nil {
		sb.LastActive = time.Time{}
	}
	if err == nil && sb.LastActive.IsZero() {
		return false, nil // it will say so at once the next time too, or know better
	}
	s.samples.put(k, sample{now, sb.LastActive})
	return true, err
}
