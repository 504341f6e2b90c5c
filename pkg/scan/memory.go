package scan

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/store"
)

// Memory is what outlives the daemon: store.Store, or none. What it cannot do
// is counted and logged, and stops no scan and no reclaim but those by
// heartbeats and leases, which a restart would then forget.
type Memory interface {
	Pulses(ctx context.Context, provider string) ([]store.Pulse, error)
	SavePulses(ctx context.Context, ps []store.Pulse) error
	PrunePulses(ctx context.Context, lastSeenBefore time.Time) (int, error)
	Begin(ctx context.Context, e store.Entry) (id int64, err error)
	End(ctx context.Context, id int64, ended time.Time, outcome, errText string, uptime, cost float64) error
	Unresolved(ctx context.Context, provider string) ([]store.Entry, error)
	PruneHistory(ctx context.Context, before time.Time) (int, error)
	Leases(ctx context.Context) ([]lease.Lease, error)
	SaveLeases(ctx context.Context, ls []lease.Lease) error
	DeleteLeases(ctx context.Context, keys []string) error
}

// The uses of the memory, as the op label of a metric.
const (
	memLoad       = "load"
	memSave       = "save"
	memLoadLeases = "load_leases"
	memSaveLeases = "save_leases"
	memBegin      = "begin"
	memEnd        = "end"
	memPrune      = "prune"
)

func memoryOps() []string {
	return []string{memLoad, memSave, memLoadLeases, memSaveLeases, memBegin, memEnd, memPrune}
}

// keepsHeard says whether a use of the memory is one without which heartbeats
// would not outlive a restart.
func keepsHeard(op string) bool {
	switch op {
	case memLoad, memSave, memLoadLeases, memSaveLeases:
		return true
	default:
		return false
	}
}

// The deadlines of a use of the memory.
const (
	memTimeout   = 10 * time.Second
	beginTimeout = 3 * time.Second // a reclaim waits for it
	pruneTimeout = time.Minute
)

// keeper is the memory as the loop uses it. Nil remembers nothing.
type keeper struct {
	Memory
	clock   Clock
	guard   *guard
	log     *zap.Logger
	metrics *Metrics

	leasesRecalled atomic.Bool
	// leasesTurn keeps a lease that is made anew from being deleted as the old
	// one that it was.
	leasesTurn turn

	mu      sync.Mutex
	failing map[string]bool // by op, for logging on change only
	history time.Duration   // for how long it is kept; 0: for ever
	unwritten
}

func newKeeper(m Memory, clock Clock, g *guard, log *zap.Logger, metrics *Metrics) *keeper {
	if m == nil {
		return nil
	}
	return &keeper{Memory: m, clock: clock, guard: g, log: log.Named("memory"), metrics: metrics, failing: map[string]bool{}, leasesTurn: newTurn(),
		unwritten: unwritten{endings: map[int64]ending{}}}
}

// turn lets one at a time do what may take long. It is a channel, because a
// virtual clock goes on only while nobody waits for a mutex.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn; the function gives it back.
func (t turn) take() (give func()) {
	t <- struct{}{}
	return func() { <-t }
}

// keepFor sets for how long the history is kept.
func (k *keeper) keepFor(history time.Duration) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.history = history
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
	if keepsHeard(op) {
		k.guard.outage(op, err != nil)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil && !k.failing[op]:
		fields := []zap.Field{zap.String("op", op), zap.Error(err)}
		if keepsHeard(op) {
			fields = append(fields, zap.String("meanwhile", "heartbeats and leases end nobody"))
		}
		k.log.Warn("the state does not work, and reaperd goes on without", fields...)
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
func (k *keeper) pruneDaily(ctx context.Context, b *lease.Book) {
	if k == nil {
		return
	}
	for at := k.clock.Now().Add(firstPrune); waitUntil(ctx, k.clock, at, 0, rousers{}) == elapsed; at = k.clock.Now().Add(nextPrune) {
		k.prune(ctx, b)
	}
}

func (k *keeper) prune(ctx context.Context, b *lease.Book) {
	if k.guard.steppedWithin(nextPrune) {
		return // what is old by such a clock may not be
	}
	_ = k.use(ctx, memPrune, pruneTimeout, func(ctx context.Context) error { // it has told
		now := k.clock.Now()
		_, err := k.PrunePulses(ctx, now.Add(-remembered-seenEvery))
		k.mu.Lock()
		history := k.history
		k.mu.Unlock()
		if history > 0 {
			_, old := k.PruneHistory(ctx, now.Add(-history))
			err = errors.Join(err, old)
		}
		defer k.leasesTurn.take()()
		return errors.Join(err, k.DeleteLeases(ctx, b.Prune(now)))
	})
}

// recall loads what is remembered of the provider's sandboxes and what was
// begun with them, once. Until that succeeds nothing is saved over it.
func (s *Scanner) recall(ctx context.Context) {
	if s.keeper == nil || s.recalled.Load() {
		return
	}
	err := s.keeper.use(ctx, memLoad, memTimeout, func(ctx context.Context) error {
		kept, err := s.keeper.Pulses(ctx, s.name)
		if err != nil {
			return err
		}
		s.pulses.recall(kept, s.guard.look())
		open, err := s.keeper.Unresolved(ctx, s.name)
		s.orphans = slices.DeleteFunc(open, func(e store.Entry) bool { return s.keeper.resolving(e.ID) })
		return err
	})
	s.recalled.Store(err == nil)
}

// save keeps what is new since the last time, also while reaperd ends. What
// could not be kept is tried again at the next cycle.
func (s *Scanner) save(ctx context.Context) {
	s.keeper.flush(ctx)
	s.savePulses(ctx)
}

// savePulses is for the lane and for whoever keeps heartbeats: one at a time,
// so that no older state of a pulse is written over a newer one.
func (s *Scanner) savePulses(ctx context.Context) {
	if s.keeper == nil || !s.recalled.Load() {
		return
	}
	defer s.saving.take()()
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
