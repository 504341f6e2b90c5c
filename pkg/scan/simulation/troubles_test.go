package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// trouble is a time in which something is wrong with a provider.
type trouble struct {
	what     string
	from, to time.Duration
	// odds is how likely it meets a call, or a sandbox in a list.
	odds float64
}

// What can be wrong with a provider.
const (
	listFails  = "lists fail"
	listHangs  = "lists hang"
	listPanics = "lists panic"
	listSlow   = "lists are slow"
	listEmpty  = "lists come back empty"
	listLoses  = "lists lose some"
	listStale  = "lists are old"
	getFails   = "looks fail"
	getHangs   = "looks hang"
	getSlow    = "looks are slow"
	stopFails  = "stops fail"
	stopHangs  = "stops hang"
	stopCut    = "stops work and say they failed"
	stopMute   = "stops work and do not answer"
	stopLies   = "stops are accepted and do nothing"
	allFails   = "everything fails now and then"
	allHangs   = "everything hangs"
	clockWrong = "its clock is wrong"
)

var allTroubles = []string{
	listFails, listHangs, listPanics, listSlow, listEmpty, listLoses, listStale, getFails, getHangs, getSlow,
	stopFails, stopHangs, stopCut, stopMute, stopLies, allFails, allHangs, clockWrong,
}

// troubled says by which of these the call with this luck is met now. The
// world is locked.
func (p *place) troubled(l luck, whats ...string) string {
	now := p.clock.Boot()
	for _, t := range p.troubles {
		if now < t.from || now >= t.to {
			continue
		}
		for _, what := range whats {
			if t.what == what && l.chance(t.odds) {
				return what
			}
		}
	}
	return ""
}

// troubledUntil is when the last trouble, of those that are planned too, ends.
func (p *place) troubledUntil() time.Duration {
	var last time.Duration
	for _, t := range p.troubles {
		last = max(last, t.to)
	}
	return last
}

var errBroken = errors.New("the provider is broken")

// failure is what a call says that fails.
func failure(l luck) error {
	errs := []error{
		providers.ErrUnavailable, providers.ErrDenied, providers.ErrThrottled, providers.Throttled{RetryAfter: 45 * time.Second},
		errBroken, fmt.Errorf("dial: %w", context.DeadlineExceeded),
	}
	return fmt.Errorf("simulated: %w", errs[uint64(l.next())%uint64(len(errs))])
}

// hang waits until ctx ends.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
