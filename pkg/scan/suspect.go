package scan

import (
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// cause is why a due sandbox is held, as a metric label.
type cause string

// The closed set of causes.
const (
	causeBrake cause = "brake" // too many are due at once
	causeStep  cause = "clock" // the wall clock was set, and that made it due
	causeSkew  cause = "skew"  // the provider's clock is too far from ours
)

// because says it for people.
func (c cause) because() string {
	switch c {
	case causeStep:
		return "the wall clock was set"
	case causeSkew:
		return "the provider's clock is too far from ours"
	default:
		return "too many are due at once"
	}
}

func causes() []cause { return []cause{causeBrake, causeStep, causeSkew} }

// skewPause is how long one held for skew waits until it is judged again.
const skewPause = time.Minute

// moment looks at the clocks, ours and the provider's.
func (s *Scanner) moment() moment {
	m := s.guard.look()
	k, ok := providers.As[providers.Timekeeper](s.target.Provider)
	if !ok {
		return m
	}
	ahead, known := k.Skew()
	if !known {
		return m
	}
	m.ahead, m.skewed = ahead, ahead.Abs() > s.guard.tolerance()
	return m
}

// tellSkew exports and, on change, logs how the provider's clock stands.
func (s *Scanner) tellSkew(m moment) {
	if _, ok := providers.As[providers.Timekeeper](s.target.Provider); !ok {
		return
	}
	s.metrics.skew.WithLabelValues(s.name).Set(m.ahead.Seconds())
	if m.skewed == s.skewed {
		return
	}
	s.skewed = m.skewed
	if m.skewed {
		s.log.Warn("the provider's clock is too far from ours: limits that count from its times are held",
			zap.Duration("ahead", m.ahead))
		return
	}
	s.log.Info("the provider's clock is near ours again", zap.Duration("ahead", m.ahead))
}

// suspicion says why a due sandbox is held all the same, and until when; "" if
// nothing speaks against it.
func (m moment) suspicion(f *policy.Facts, d policy.Decision) (cause, time.Time) {
	switch {
	case letGo(f, d): // somebody's own word, whatever the clocks say
		return "", time.Time{}
	case m.stepped(d.Due):
		return causeStep, m.held
	case m.skewed && slices.Contains(byProvidersClock, d.Reason):
		return causeSkew, m.now.Add(skewPause)
	default:
		return "", time.Time{}
	}
}

// letGo says whether the deadline is the very release of a lease. One that had
// time left after it, because it beats for itself, say, is due by a clock.
func letGo(f *policy.Facts, d policy.Decision) bool {
	return d.Reason == policy.LeaseReleased &&
		slices.ContainsFunc(f.Pulse.Leases, func(l policy.Lease) bool { return l.Released.Equal(d.Due) })
}

// byProvidersClock are the reasons whose deadlines count from a provider's
// times, or may.
var byProvidersClock = []policy.Reason{
	policy.MaxUptime, policy.MaxAge, policy.MaxIdle, policy.MaxStopped, policy.MaxPaused,
	policy.TTLTag, policy.ExpiresTag, policy.TagMissing, policy.TagNotAllowed, policy.TagForbidden,
}

// judge gives the decision on one sandbox. Where a provider's clock speaks
// against it, what nobody's clock but ours says may be due all the same.
func (s *Scanner) judge(f *policy.Facts, m moment) policy.Decision {
	d := s.policies.Evaluate(f, m.now)
	if d.Verdict != policy.Reclaim {
		return d
	}
	if why, _ := m.suspicion(f, d); why != causeSkew {
		return d
	}
	if silent := s.policies.EvaluateHeartbeats(f, m.now); silent.Verdict == policy.Reclaim {
		return silent
	}
	return d
}

// distrust splits the due items into those that may go and those that the
// clocks speak against.
func (s *Scanner) distrust(due []policy.Item, m moment) (pass []policy.Item, holds []hold) {
	for _, it := range due {
		k := keyOf(&it.Facts.Sandbox)
		why, until := m.suspicion(&it.Facts, it.Decision)
		if why == "" {
			delete(s.suspects, k)
			pass = append(pass, it)
			continue
		}
		holds = append(holds, hold{it, until, s.suspects[k] == why, why})
		s.suspects[k] = why
	}
	return pass, holds
}

// clear lets those suspects go that are no longer due in plan.
func (s *Scanner) clear(plan policy.Plan) {
	if len(s.suspects) == 0 {
		return
	}
	due := dueKeys(plan)
	maps.DeleteFunc(s.suspects, func(k pulseKey, _ cause) bool { return !due[k] })
}

// holding is how many are held, by cause.
func (s *Scanner) holding() map[cause]int {
	n := map[cause]int{causeBrake: s.brake.holding()}
	for _, why := range s.suspects {
		n[why]++
	}
	return n
}

// inOurTime moves the times that a provider told by a clock that is ahead of
// ours. What is no time stays none.
func inOurTime(sb *providers.Sandbox, ahead time.Duration) {
	if ahead == 0 {
		return
	}
	for _, t := range []*time.Time{&sb.Created, &sb.Started, &sb.Ended, &sb.PausedSince, &sb.LastActive, &sb.Expires} {
		if t.After(eldest) && t.Before(farthest) {
			*t = t.Add(-ahead)
		}
	}
}

// farthest is after every time that a provider means.
var farthest = time.Date(9000, time.January, 1, 0, 0, 0, 0, time.UTC)
