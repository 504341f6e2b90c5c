package scan

import (
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/store"
)

// retries spaces the tries at sandboxes that do not go.
type retries struct {
	attempts int
	steady   bool

	mu    sync.Mutex
	tries map[pulseKey]*try
}

type try struct {
	item   policy.Item // as it was last tried
	sent   bool        // the provider took a stop, or may have taken it
	failed int
	// throttled: a try ended because the provider was throttled.
	throttled bool
	last      time.Time
	pause     time.Duration
	pauses    *backoff.ExponentialBackOff
	// begun are the intents, the last one first, that an earlier reaperd left for
	// the sandbox, as long as it is not known what came of them.
	begun []store.Entry
}

func newRetries(attempts int, steady bool) *retries {
	return &retries{attempts: attempts, steady: steady, tries: map[pulseKey]*try{}}
}

func (r *retries) newTry() *try { return &try{pauses: pauses(r.steady, 10*time.Minute)} }

// pauses double from a second up to most, and are jittered unless they are to
// be steady.
func pauses(steady bool, most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = time.Second, most, 2
	if steady {
		b.RandomizationFactor = 0
	}
	return b
}

// allow changes how many failed tries make a sandbox stuck.
func (r *retries) allow(attempts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = attempts
}

// ready says whether the sandbox may be tried now.
func (r *retries) ready(sb providers.Sandbox, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tries[keyOf(&sb)]
	// A clock that was set back would make the pause as long as the step.
	return t == nil || now.Before(t.last) || now.Sub(t.last) >= t.pause
}

// next is when the sandbox may be tried again; zero if it was not tried.
func (r *retries) next(sb providers.Sandbox) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tries[keyOf(&sb)]
	if t == nil {
		return time.Time{}
	}
	return t.last.Add(t.pause)
}

// failed notes one more failed try, says when the next may be, and tells what
// it amounts to: a failure, or being stuck once the tries are used up. A stuck
// one is tried on, ever more slowly; repeat says that it was stuck before.
func (r *retries) failed(res Result) (o Outcome, repeat bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := keyOf(&res.Item.Facts.Sandbox)
	t := r.tries[k]
	if t == nil {
		t = r.newTry()
		r.tries[k] = t
	}
	t.item = res.Item
	t.sent = t.sent || res.sent
	if errors.Is(res.Err, providers.ErrThrottled) { // no fault of the sandbox's
		repeat = t.throttled
		t.throttled = true
		t.last, t.pause = res.At, 0 // it is the provider that is left alone
		return OutcomeFailed, repeat
	}
	t.failed++
	t.last, t.pause = res.At, t.pauses.NextBackOff()
	if t.failed >= r.attempts {
		return OutcomeStuck, t.failed > r.attempts
	}
	return OutcomeFailed, false
}

// failures is how many tries at the sandbox failed.
func (r *retries) failures(sb providers.Sandbox) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tries[keyOf(&sb)]; t != nil {
		return t.failed
	}
	return 0
}

// sent says whether the provider took, or may have taken, an earlier stop.
func (r *retries) sent(sb providers.Sandbox) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tries[keyOf(&sb)]
	return t != nil && t.sent
}

// resume opens the account of a sandbox that is still there, and for which an
// earlier reaperd may have sent a stop that still has its effect.
func (r *retries) resume(it policy.Item, begun []store.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.newTry()
	t.item, t.sent, t.begun = it, true, begun
	r.tries[keyOf(&it.Facts.Sandbox)] = t
}

// begun gives, once, the intents that an earlier reaperd left.
func (r *retries) begun(sb providers.Sandbox) []store.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tries[keyOf(&sb)]
	if t == nil {
		return nil
	}
	begun := t.begun
	t.begun = nil
	return begun
}

// forget ends the account of a sandbox that went, or is no longer due.
func (r *retries) forget(sb providers.Sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tries, keyOf(&sb))
}

// unsettled gives the sandboxes that are no longer due in plan and whose stop
// was taken, as they were last tried, save those that are being tried again. It
// forgets the others that are not due.
func (r *retries) unsettled(plan policy.Plan, under func(pulseKey) bool) []policy.Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tries) == 0 {
		return nil
	}
	due := dueKeys(plan)
	var open []policy.Item
	for k, t := range r.tries {
		switch {
		case due[k], under(k):
		case t.sent:
			open = append(open, t.item)
		default:
			delete(r.tries, k)
		}
	}
	return open
}

// stuck is how many sandboxes have used up their tries.
func (r *retries) stuck() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, t := range r.tries {
		if t.failed >= r.attempts {
			n++
		}
	}
	return n
}
