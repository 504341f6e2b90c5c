package scan

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/store"
)

// Memory is what outlives the daemon: store.Store, or none. What it cannot do
// is counted and logged, and never stops a scan or a reclaim.
type Memory interface {
	Pulses(ctx context.Context, provider string) ([]store.Pulse, error)
	SavePulses(ctx context.Context, ps []store.Pulse) error
	PrunePulses(ctx context.Context, lastSeenBefore time.Time) (int, error)
}

// The uses of the memory, as the op label of a metric.
const (
	memLoad  = "load"
	memSave  = "save"
	memPrune = "prune"
)

func memoryOps() []string { return []string{memLoad, memSave, memPrune} }

// The deadlines of a use of the memory.
const (
	memTimeout   = 10 * time.Second
	pruneTimeout = time.Minute
)

// keeper is the memory as the loop uses it. Nil remembers nothing.
type keeper struct {
	Memory
	clock   Clock
	log     *zap.Logger
	metrics *Metrics

	mu      sync.Mutex
	failing map[string]bool // by op, for logging on change only
}

func newKeeper(m Memory, clock Clock, log *zap.Logger, metrics *Metrics) *keeper {
	if m == nil {
		return nil
	}
	return &keeper{Memory: m, clock: clock, log: log.Named("memory"), metrics: metrics, failing: map[string]bool{}}
}

// use makes one use of the memory under its own deadline, and counts and tells
// its failure. What the end of ctx itself cut short is none.
func (k *keeper) use(ctx context.Context, op string, limit time.Duration, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(limited)
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		k.metrics.memoryFailed(op)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil && !k.failing[op]:
		k.log.Warn("the state does not work, and reaperd goes on without", zap.String("op", op), zap.Error(err))
	case err == nil && k.failing[op]:
		k.log.Info("the state works again", zap.String("op", op))
	}
	k.failing[op] = err != nil
	return err
}

// The rhythm in which what is old is forgotten. The first time leaves every
// provider time to load what it remembers.
const (
	firstPrune = 10 * time.Minute
	nextPrune  = 24 * time.Hour
)

// pruneDaily forgets what is old, every day until ctx ends.
func (k *keeper) pruneDaily(ctx context.Context) {
	if k == nil {
		return
	}
	for at := k.clock.Now().Add(firstPrune); waitUntil(ctx, k.clock, at, 0, nil); at = k.clock.Now().Add(nextPrune) {
		k.prune(ctx)
	}
}

func (k *keeper) prune(ctx context.Context) {
	_ = k.use(ctx, memPrune, pruneTimeout, func(ctx context.Context) error { // it has told
		_, err := k.PrunePulses(ctx, k.clock.Now().Add(-remembered-seenEvery))
		return err
	})
}

// recall loads what is remembered of the provider's sandboxes, once. Until
// that succeeds nothing is saved over it.
func (s *Scanner) recall(ctx context.Context) {
	if s.keeper == nil || s.recalled {
		return
	}
	err := s.keeper.use(ctx, memLoad, memTimeout, func(ctx context.Context) error {
		kept, err := s.keeper.Pulses(ctx, s.name)
		if err == nil {
			s.pulses.recall(kept)
		}
		return err
	})
	s.recalled = err == nil
}

// save keeps what is new since the last time, also while reaperd ends. What
// could not be kept is tried again at the next cycle.
func (s *Scanner) save(ctx context.Context) {
	if s.keeper == nil || !s.recalled {
		return
	}
	fresh := s.pulses.unsaved(s.name)
	if len(fresh) == 0 {
		return
	}
	err := s.keeper.use(context.WithoutCancel(ctx), memSave, memTimeout, func(ctx context.Context) error {
		return s.keeper.SavePulses(ctx, fresh)
	})
	if err != nil {
		s.pulses.notSaved(fresh)
	}
}
