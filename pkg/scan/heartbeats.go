package scan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// How a heartbeat, a renewal or a release was taken, as a metric label.
const (
	heardAccepted  = "accepted"
	heardUnknown   = "unknown"   // no such sandbox, provider or lease
	heardMalformed = "malformed" // what was asked for cannot be
	heardFull      = "full"      // there are too many leases
)

func heardOutcomes() []string {
	return []string{heardAccepted, heardUnknown, heardMalformed, heardFull}
}

// Heartbeats takes in signs of life and what is said of leases. What it takes
// holds at once, and outlives the daemon a second later. It is safe for
// concurrent use.
type Heartbeats struct{ l *Loop }

// Heartbeats is the ear of the loop.
func (l *Loop) Heartbeats() Heartbeats { return Heartbeats{l} }

// Hear says whether there is somebody who takes heartbeats in and passes them
// on to Heartbeats. While there is nobody, as at first, no limit judges by them.
func (l *Loop) Hear(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hears = yes; l.runs {
		l.guard.listen(yes)
	}
}

// Renew makes or renews a lease, which then ends one ttl from now. The errors
// are those of lease.Book.
func (h Heartbeats) Renew(key string, ttl time.Duration, by string) (ls lease.Lease, created bool, err error) {
	ls, created, err = h.l.leases.Renew(key, ttl, by, h.l.guard.look().now)
	h.count(err)
	if created {
		h.judge(key)
		h.l.log.Info("lease made", zap.String("lease", key), zap.Duration("ttl", ls.TTL), zap.String("by", by))
	}
	return ls, created, err
}

// Release lets go of a lease: what it alone covers is due at once.
func (h Heartbeats) Release(key, by string) (lease.Lease, error) {
	ls, err := h.l.leases.Release(key, by, h.l.guard.look().now)
	h.count(err)
	if err == nil {
		h.l.log.Info("lease released", zap.String("lease", key), zap.String("by", by))
		h.judge(key)
	}
	return ls, err
}

// judge has what names the lease judged again now.
func (h Heartbeats) judge(key string) {
	for _, s := range h.l.current() {
		s.news.judge(func(f *policy.Facts) bool { return f.Tags[policy.LeaseTag] == key })
	}
}

// Forget takes a lease out of the judging, which kills nothing.
func (h Heartbeats) Forget(key, by string) error {
	err := h.l.leases.Forget(key, by, h.l.guard.look().now)
	h.count(err)
	if err == nil {
		h.l.log.Info("lease forgotten", zap.String("lease", key), zap.String("by", by))
	}
	return err
}

// Lease gives a lease, also one that is over.
func (h Heartbeats) Lease(key string) (lease.Lease, error) { return h.l.leases.Get(key) }

// Beat notes a sign of life of one sandbox, given by its id or, where that is
// enough, the beginning of it, and gives the whole name. One that no list has
// shown yet is providers.ErrNotFound: nothing is asked of it before.
func (h Heartbeats) Beat(ref providers.Ref, by string) (providers.Ref, error) {
	whole, err := h.beat(ref)
	h.count(err)
	if err == nil && h.l.log.Core().Enabled(zap.DebugLevel) {
		h.l.log.Debug("heartbeat", zap.String("provider", whole.Provider), zap.String("sandbox", whole.ID), zap.String("by", by))
	}
	return whole, err
}

func (h Heartbeats) beat(ref providers.Ref) (providers.Ref, error) {
	for _, s := range h.l.current() {
		if s.name != ref.Provider {
			continue
		}
		id, first, err := s.pulses.beat(ref.ID, h.l.guard.look())
		if err != nil {
			return ref, fmt.Errorf("heartbeat on %s: %w", ref.Provider, err)
		}
		if first {
			s.news.judge(func(f *policy.Facts) bool { return f.ID == id })
		}
		return providers.Ref{Provider: s.name, ID: id}, nil
	}
	return ref, fmt.Errorf("heartbeat: no provider %s is configured: %w", ref.Provider, providers.ErrNotFound)
}

func (h Heartbeats) count(err error) {
	outcome := heardMalformed
	switch {
	case err == nil:
		outcome = heardAccepted
	case errors.Is(err, lease.ErrUnknown), errors.Is(err, providers.ErrNotFound):
		outcome = heardUnknown
	case errors.Is(err, lease.ErrFull):
		outcome = heardFull
	}
	h.l.metrics.heartbeats.WithLabelValues(outcome).Inc()
}

// keepHeard writes what was heard at every tick of the guard until ctx ends: a
// crash costs a second of it, for which the blindness of the next start makes
// up.
func (l *Loop) keepHeard(ctx context.Context) {
	for wait(ctx, l.clock, l.guard.tick, rousers{}) == elapsed {
		l.saveHeard(ctx)
	}
}

// saveHeard also saves while reaperd ends.
func (l *Loop) saveHeard(ctx context.Context) {
	if l.keeper == nil {
		return
	}
	l.keeper.recallLeases(ctx, l.leases)
	l.keeper.saveLeases(ctx, l.leases)
	for _, s := range l.current() {
		if s.pulses.changed() {
			s.savePulses(ctx)
		}
	}
}

// recallLeases loads the leases of an earlier reaperd, once. Until it succeeds
// none is saved, and reaperd counts as deaf: what they cover cannot be told.
func (k *keeper) recallLeases(ctx context.Context, b *lease.Book) {
	if k == nil || k.leasesRecalled.Load() {
		return
	}
	err := k.use(ctx, memLoadLeases, memTimeout, func(ctx context.Context) error {
		kept, err := k.Leases(ctx)
		if err == nil {
			m := k.guard.look()
			b.Load(kept, m.now, m.origin)
		}
		return err
	})
	k.leasesRecalled.Store(err == nil)
}

func (k *keeper) saveLeases(ctx context.Context, b *lease.Book) {
	if !k.leasesRecalled.Load() {
		return
	}
	defer k.leasesTurn.take()()
	fresh := b.Unsaved(k.guard.look().origin)
	if len(fresh) == 0 {
		return
	}
	err := k.use(context.WithoutCancel(ctx), memSaveLeases, memTimeout, func(ctx context.Context) error {
		return k.SaveLeases(ctx, fresh)
	})
	if err != nil {
		b.NotSaved(fresh)
	}
}

// leaseCounts gives how many leases there are in each state.
func (l *Loop) leaseCounts() map[lease.State]int { return l.leases.Count(l.clock.Now()) }
