package scan

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// Target is one configured provider as the loop needs it.
type Target struct {
	Name, Kind string
	Provider   providers.Provider
	// Settings is what the provider was made from, as a text. A reload keeps
	// the provider of a target of the same name, kind and settings.
	Settings string
	// DryRun keeps every stop from the provider: New wraps it.
	DryRun   bool
	Schedule Schedule
	// Timeout bounds a list and, apart from that, each look at one sandbox.
	Timeout time.Duration
	// Parallel is how many sandboxes are reclaimed at once.
	Parallel int
	// PricePerHour is what one running sandbox costs, in dollars; 0 if unknown.
	PricePerHour float64
}

// The calls to a provider, as the op label of a metric.
const (
	opList     = "list"
	opGet      = "get"
	opStop     = "stop"
	opIdentity = "identity"
	opProbe    = "probe"
	opWatch    = "watch"
	opEvidence = "evidence"
	opActivity = "activity"
)

func ops() []string {
	return []string{opList, opGet, opStop, opIdentity, opProbe, opWatch, opEvidence, opActivity}
}

// panicked is what becomes of a provider's call that panics.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("the provider's code panicked: %v", p.value) }

// call makes one call to a provider under its own deadline (0: none), counts its
// failure, and turns a panic into an error so that it costs nobody else. What
// the end of ctx itself cut short is no failure of the provider's.
func call[T any](ctx context.Context, s *Scanner, op string, limit time.Duration, f func(context.Context) (T, error)) (out T, err error) {
	limited := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %w", op, &panicked{p, debug.Stack()})
		}
		if err != nil && ctx.Err() == nil {
			s.metrics.callFailed(s.name, op, providers.CauseOf(err))
		}
	}()
	return f(limited)
}
