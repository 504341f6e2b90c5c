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
// limit, one wrong clock, one list that lies. It is one provider's, and goes by
// the boot clock: who sets the wall clock neither loosens it nor jams it.
type brake struct {
	BrakeOptions

	mu    sync.Mutex
	begun map[pulseKey]begun
	held  map[pulseKey]time.Duration // since when
}

// begun is one that was let through.
type begun struct {
	at  time.Duration
	ran bool
}

func newBrake(o BrakeOptions) *brake {
	return &brake{BrakeOptions: o, begun: map[pulseKey]begun{}, held: map[pulseKey]time.Duration{}}
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
	cause cause
}

// admit splits the due items, of which the first are the most urgent, into
// those that may go and those that are held. plan is the inventory they are of.
func (b *brake) admit(due []policy.Item, plan policy.Plan, now time.Time, boot time.Duration) (pass []policy.Item, holds []hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, was := range b.begun {
		if boot-was.at >= b.Window {
			delete(b.begun, k)
		}
	}
	limit := max(b.MinCount, int(b.MaxFraction*float64(b.ran(plan))))
	for _, it := range due {
		k := keyOf(&it.Facts.Sandbox)
		before, counted := b.begun[k]
		since, waiting := b.held[k]
		switch {
		case letGo(&it.Facts, it.Decision): // somebody's own word is no mistake of ours
			delete(b.held, k)
			pass = append(pass, it)
		case counted, len(b.begun) < limit, waiting && boot-since >= b.Confirm:
			b.begun[k] = begun{boot, before.ran || running(it.Facts.State)}
			delete(b.held, k)
			pass = append(pass, it)
		default:
			if !waiting {
				since = boot
				b.held[k] = boot
			}
			holds = append(holds, hold{it, now.Add(since + b.Confirm - boot), waiting, causeBrake})
		}
	}
	return pass, holds
}

// ran is how many run, or did when they were let through within the window. The
// plan may show those as they were then, or no more: none counts twice.
func (b *brake) ran(plan policy.Plan) int {
	n := 0
	for _, was := range b.begun {
		if was.ran {
			n++
		}
	}
	for i := range plan.Items {
		f := &plan.Items[i].Facts
		if !running(f.State) {
			continue
		}
		if was, counted := b.begun[keyOf(&f.Sandbox)]; !counted || !was.ran {
			n++
		}
	}
	return n
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
			due[keyOf(&it.Facts.Sandbox)] = true
		}
	}
	return due
}
