package scan

import (
	"context"
	"sync"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
)

// patience is for how long a lane waits for what it began. What takes longer,
// as a stop with its grace does, goes on beside it: one that is slow to end
// shall delay nobody else's deadline.
const patience = 20 * time.Millisecond

// flights are the reclaims of one provider that are under way, as many at once
// as the kind bears. Only the lane begins them and takes what came of them.
type flights struct {
	landed chan struct{} // holds one if there is something to take

	mu    sync.Mutex
	open  map[pulseKey]bool
	done  []flight
	slots chan struct{}
	wg    sync.WaitGroup
}

// flight is one that is over. One that was not begun has to be judged anew.
type flight struct {
	Result
	begun bool
}

func newFlights() *flights {
	return &flights{landed: make(chan struct{}, 1), open: map[pulseKey]bool{}}
}

// under says whether the sandbox is being reclaimed.
func (f *flights) under(k pulseKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[k]
}

// any says whether one is under way, or over and not taken.
func (f *flights) any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)+len(f.done) > 0
}

// launch has g reclaim the items, no more than most of all at once. Once ctx has
// ended none is begun any more; those begun have a context that outlives it. The
// channel is closed when these are over.
func (f *flights) launch(ctx context.Context, most int, items []policy.Item, g func(context.Context, policy.Item) flight) <-chan struct{} {
	f.mu.Lock()
	if cap(f.slots) != most { // nothing is under way when that changes
		f.slots = make(chan struct{}, most)
	}
	slots := f.slots
	for i := range items {
		f.open[keyOf(&items[i].Facts.Sandbox)] = true
	}
	f.mu.Unlock()
	all := make(chan struct{})
	f.wg.Go(func() {
		defer close(all)
		var batch sync.WaitGroup
		defer batch.Wait()
		for _, it := range items { // in their order: the most urgent first
			k := keyOf(&it.Facts.Sandbox)
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				f.land(k, flight{Result: Result{Item: it}})
				continue
			}
			batch.Go(func() {
				defer func() { <-slots }()
				over := flight{Result: Result{Item: it}}
				if ctx.Err() == nil {
					over = g(context.WithoutCancel(ctx), it)
				}
				f.land(k, over)
			})
		}
	})
	return all
}

func (f *flights) land(k pulseKey, over flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, k)
	f.done = append(f.done, over)
	select {
	case f.landed <- struct{}{}:
	default:
	}
}

// take gives those that are over: what came of those begun, and the others.
func (f *flights) take() (results []Result, unbegun []policy.Item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, over := range f.done {
		if over.begun {
			results = append(results, over.Result)
		} else {
			unbegun = append(unbegun, over.Item)
		}
	}
	f.done = nil
	return results, unbegun
}

// wait waits for all that are under way.
func (f *flights) wait() { f.wg.Wait() }
