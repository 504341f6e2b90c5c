package scan

import (
	"sync"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
)

// BrakeOptions say when a provider's reclaims are too many at once to be
// believed.
type BrakeOptions struct {
	// Window is the time over which reclaims are counted.
	Window time.Duration
	// MinCount is how many may always go within a window, MaxFraction which
	// part of all that run. The larger of the two holds.
	MinCount    int
	MaxFraction float64
	// Confirm is for how long each further one is held. If it is due still, it
	// goes then.
	Confirm time.Duration
}

// brake holds back the many that fall due at once, as they do by one mistyped
// limit, one wrong clock, one list that lies. It is one provider's.
type brake struct {
	BrakeOptions

	mu    sync.Mutex
	begun map[pulseKey]time.Time // let through, by when
	held  map[pulseKey]time.Time // since when
}

func newBrake(o BrakeOptions) *brake {
	return &brake{BrakeOptions: o, begun: map[pulseKey]time.Time{}, held: map[pulseKey]time.Time{}}
}

// adjust changes when it holds; what it holds, it goes on holding.
func (b *brake) adjust(o BrakeOptions) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.BrakeOptions = o
}

// hold is a due item that is held back.
type hold struct {
	policy.Item
	until time.Time
	again bool // it was held before
}

// admit splits the due items, of which the first are the most urgent, into
// those that may go and those that are held. running is how many sandboxes run
// on the provider now.
func (b *brake) admit(due []policy.Item, running int, now time.Time) (pass []policy.Item, holds []hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, at := range b.begun {
		if now.Sub(at) >= b.Window || at.After(now) { // or the clock was set back
			delete(b.begun, k)
		}
	}
	limit := max(b.MinCount, int(b.MaxFraction*float64(running+len(b.begun))))
	for _, it := range due {
		k := pulseKey{it.Facts.ID, it.Facts.Revision}
		_, counted := b.begun[k]
		since, waiting := b.held[k]
		if since.After(now) {
			since, waiting = time.Time{}, false
		}
		switch {
		case counted, len(b.begun) < limit, waiting && now.Sub(since) >= b.Confirm:
			b.begun[k] = now
			delete(b.held, k)
			pass = append(pass, it)
		default:
			if !waiting {
				since = now
				b.held[k] = now
			}
			holds = append(holds, hold{it, since.Add(b.Confirm), waiting})
		}
	}
	return pass, holds
}

// keepOnly lets those go that are no longer due in plan.
func (b *brake) keepOnly(plan policy.Plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.held) == 0 {
		return
	}
	due := dueKeys(plan)
	for k := range b.held {
		if !due[k] {
			delete(b.held, k)
		}
	}
}

// holding is how many are held.
func (b *brake) holding() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held)
}

// dueKeys gives the sandboxes that are due in plan.
func dueKeys(plan policy.Plan) map[pulseKey]bool {
	due := map[pulseKey]bool{}
	for i := range plan.Items {
		if it := &plan.Items[i]; it.Decision.Verdict == policy.Reclaim {
			due[pulseKey{it.Facts.ID, it.Facts.Revision}] = true
		}
	}
	return due
}
