package scan

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/providers"
)

// The measures of a provider's health.
const (
	// sickAfter is how many different sandboxes' calls in a row have to run out
	// of time.
	sickAfter = 3
	// probeFrom is how many have to be due at once for the provider to be
	// probed first: fewer show by themselves whether it is fit.
	probeFrom = sickAfter + 1
	// probeTimeout bounds a probe, and probePause is the time between two.
	probeTimeout = 2 * time.Second
	probePause   = 10 * time.Second
	// glanceTimeout is how long one that changed may keep the others waiting.
	glanceTimeout = 2 * time.Second
	// throttlePause is for how long a provider that is throttled, and does not
	// say for how long, is left alone, and throttleCap the most that is waited.
	throttlePause = 5 * time.Second
	throttleCap   = 5 * time.Minute
)

// health is whether a provider is fit to stop anything. A reaper that hammers
// a sick engine is part of the outage.
type health struct {
	mu       sync.Mutex
	late     []lateCall // the last ones in a row that ran out of time, one for each sandbox
	degraded bool
	rest     time.Duration // until when it is left alone, by the boot clock: the wall clock may be set meanwhile
	// unprobed: it did not let itself be probed last time, and its next list
	// stands in for that.
	unprobed bool
}

// lateCall is a call for one sandbox that ran out of time.
type lateCall struct{ id, op string }

// note takes in how a call for a sandbox went, and says whether the provider
// is degraded by it. A look that is answered says nothing of stops: a sick
// engine may tell all it knows and end nothing (moby/libnetwork#2649), and
// every stop that hangs is followed by looks at what became of it.
func (h *health) note(op, id string, err error, boot time.Duration) (degraded bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch providers.CauseOf(err) {
	case providers.CauseTimeout:
		h.late = slices.DeleteFunc(h.late, func(c lateCall) bool { return c.id == id && c.op == opGet })
		if !slices.ContainsFunc(h.late, func(c lateCall) bool { return c.id == id }) {
			h.late = append(h.late, lateCall{id, op})
		}
	case providers.CauseUnavailable: // says nothing of how it is when it is there
	case providers.CauseThrottled:
		h.throttled(err, boot)
	default:
		h.late = slices.DeleteFunc(h.late, func(c lateCall) bool { return op == opStop || c.op == opGet })
	}
	if h.degraded || len(h.late) < sickAfter {
		return false
	}
	h.degraded, h.rest = true, boot+probePause
	return true
}

// throttled has the provider left alone for as long as it says.
func (h *health) throttled(err error, boot time.Duration) {
	pause := throttlePause
	if t, ok := errors.AsType[providers.Throttled](err); ok && t.RetryAfter > 0 {
		pause = min(t.RetryAfter, throttleCap)
	}
	h.rest = max(h.rest, boot+pause)
}

// slow takes in a list that failed, and says for how long the next has to wait.
func (h *health) slow(err error, boot time.Duration) time.Duration {
	if !errors.Is(err, providers.ErrThrottled) {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.throttled(err, boot)
	return h.rest - boot
}

// probed takes in how a probe went.
func (h *health) probed(err error, boot time.Duration) (changed, degraded bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.degraded
	switch {
	case err == nil:
		h.degraded, h.late, h.rest = false, nil, 0
	case was || providers.CauseOf(err) == providers.CauseTimeout:
		h.degraded, h.rest = true, boot+probePause
	}
	return h.degraded != was, h.degraded
}

// refusesProbes notes whether the provider lets itself be probed, and says
// whether that it does not is new.
func (h *health) refusesProbes(yes bool) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	news = yes && !h.unprobed
	h.unprobed = yes
	return news
}

// sick says whether the provider is degraded.
func (h *health) sick() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.degraded
}

// resting gives for how long the provider is to be left alone; 0: it is not.
func (h *health) resting(boot time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(0, h.rest-boot)
}

// resting gives until when the provider is left alone; zero: it is not.
func (s *Scanner) resting() time.Time {
	if d := s.health.resting(s.clock.Boot()); d > 0 {
		return s.clock.Now().Add(d)
	}
	return time.Time{}
}

// fit says whether the provider may be sent n stops now, and if not, when to
// ask again. A degraded one has to answer a probe first.
func (s *Scanner) fit(ctx context.Context, n int) (again time.Time, fit bool) {
	if until := s.resting(); !until.IsZero() {
		return until, false
	}
	if !s.health.sick() && n < probeFrom {
		return time.Time{}, true
	}
	p, ok := providers.As[providers.Prober](s.target.Provider)
	if !ok {
		return time.Time{}, !s.health.sick() // the next list is its probe
	}
	_, err := call(ctx, s, opProbe, probeTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.Probe(ctx)
	})
	if err != nil && ctx.Err() != nil {
		return time.Time{}, false
	}
	switch providers.CauseOf(err) {
	case providers.CauseDenied, providers.CauseUnsupported, providers.CauseNotFound: // a filter in between answers so
		if s.health.refusesProbes(true) {
			s.log.Warn("provider does not let itself be probed: where it is to be probed, its next list stands in", zap.Error(err))
		}
		return time.Time{}, !s.health.sick()
	}
	s.health.refusesProbes(false)
	changed, degraded := s.health.probed(err, s.clock.Boot())
	s.tellHealth(changed, degraded)
	if degraded {
		return s.resting(), false
	}
	return time.Time{}, true
}

// listed takes a list that was answered for a probe, where there is no other.
func (s *Scanner) listed() {
	s.health.mu.Lock()
	waits := s.health.degraded && s.health.unprobed
	s.health.mu.Unlock()
	if _, ok := providers.As[providers.Prober](s.target.Provider); ok && !waits || !s.health.sick() {
		return
	}
	if s.resting().IsZero() {
		s.tellHealth(s.health.probed(nil, s.clock.Boot()))
	}
}

// tellHealth exports and logs a change.
func (s *Scanner) tellHealth(changed, degraded bool) {
	if !changed {
		return
	}
	if !degraded {
		s.metrics.degraded.WithLabelValues(s.name).Set(0)
		s.log.Info("provider is fit again")
		return
	}
	s.metrics.degraded.WithLabelValues(s.name).Set(1)
	s.log.Warn("provider is degraded: nothing more is stopped there until a probe is answered")
}

// get looks at one sandbox.
func (s *Scanner) get(ctx context.Context, id string) (providers.Sandbox, error) {
	sb, err := s.getWithin(ctx, s.target.Timeout, id)
	s.tellHealth(s.noteHealth(opGet, id, err), true)
	return sb, err
}

// glance is get for a lane that has more to do than to wait for one that hangs:
// the next list tells of it. That it was given up so soon speaks against nobody.
func (s *Scanner) glance(ctx context.Context, id string) (providers.Sandbox, error) {
	return s.getWithin(ctx, min(s.target.Timeout, glanceTimeout), id)
}

func (s *Scanner) getWithin(ctx context.Context, limit time.Duration, id string) (providers.Sandbox, error) {
	return call(ctx, s, opGet, limit, func(ctx context.Context) (providers.Sandbox, error) {
		return s.target.Provider.Get(ctx, id)
	})
}

// send sends one stop.
func (s *Scanner) send(ctx context.Context, sb providers.Sandbox, o providers.StopOptions) error {
	_, err := call(ctx, s, opStop, o.Grace+stopMargin, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.target.Provider.Stop(ctx, sb, o)
	})
	s.tellHealth(s.noteHealth(opStop, sb.ID, err), true)
	return err
}

func (s *Scanner) noteHealth(op, id string, err error) (degraded bool) {
	return s.health.note(op, id, err, s.clock.Boot())
}

// unfit says whether a batch under way has to end: what it has not begun waits.
func (s *Scanner) unfit() bool {
	return s.health.sick() || !s.resting().IsZero()
}
