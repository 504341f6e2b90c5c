package scan

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// retries spaces the tries at sandboxes that do not go.
type retries struct {
	attempts int

	mu    sync.Mutex
	tries map[pulseKey]*try
}

type try struct {
	failed int
	next   time.Time
	pause  *backoff.ExponentialBackOff
}

func newRetries(attempts int) *retries {
	return &retries{attempts: attempts, tries: map[pulseKey]*try{}}
}

// ready says whether the sandbox may be tried now.
func (r *retries) ready(sb providers.Sandbox, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tries[pulseKey{sb.ID, sb.Revision}]
	return t == nil || !now.Before(t.next)
}

// failed notes one more failed try, says when the next may be, and tells what
// it amounts to: a failure, or being stuck once the tries are used up. A stuck
// one is tried on, ever more slowly.
func (r *retries) failed(sb providers.Sandbox, now time.Time) Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := pulseKey{sb.ID, sb.Revision}
	t := r.tries[k]
	if t == nil {
		t = &try{pause: backoff.NewExponentialBackOff()}
		t.pause.InitialInterval, t.pause.MaxInterval, t.pause.Multiplier = time.Second, 10*time.Minute, 2
		r.tries[k] = t
	}
	t.failed++
	t.next = now.Add(t.pause.NextBackOff())
	if t.failed >= r.attempts {
		return OutcomeStuck
	}
	return OutcomeFailed
}

// forget ends the account of a sandbox that went, or is no longer due.
func (r *retries) forget(sb providers.Sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tries, pulseKey{sb.ID, sb.Revision})
}

// keepOnly forgets the sandboxes that are no longer due in plan.
func (r *retries) keepOnly(plan policy.Plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tries) == 0 {
		return
	}
	due := map[pulseKey]bool{}
	for i := range plan.Items {
		if it := &plan.Items[i]; it.Decision.Verdict == policy.Reclaim {
			due[pulseKey{it.Facts.ID, it.Facts.Revision}] = true
		}
	}
	for k := range r.tries {
		if !due[k] {
			delete(r.tries, k)
		}
	}
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
