// Package simulation_test tells stories of a fleet: a year of sandboxes,
// providers, clocks, disks and crashes in a second, each made up from a seed.
// An oracle that knows the truth, and shares no code with the loop, says of
// every stop whether it was allowed, and of every violator by when it had to
// be gone.
package simulation_test

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

var (
	oneSeed = flag.Uint64("sim.seed", 0, "tell the story of this seed alone")
	seeds   = flag.Int("sim.seeds", 25, "how many stories to tell")
	from    = flag.Uint64("sim.from", 1, "the seed of the first story")
	tellSum = flag.Bool("sim.sum", false, "say at the end what was told and checked")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStories(t *testing.T) {
	first, n := *from, *seeds
	if *oneSeed > 0 {
		first, n = *oneSeed, 1
	}
	var all figures
	began := time.Now()
	for seed := first; seed < first+uint64(n); seed++ {
		var w *world
		told := time.Now()
		synctest.Test(t, func(*testing.T) { w = tell(seed) })
		all.add(w.judge.checked)
		if testing.Verbose() {
			t.Logf("seed %d, %s, told in %s: %s", seed, w.scale.name, time.Since(told).Round(time.Millisecond), w.judge.checked)
		}
		if w.judge.problem != nil {
			t.Fatal(w.failure())
		}
	}
	if *tellSum {
		fmt.Printf("%d stories in %s: %s\n", n, time.Since(began).Round(time.Second), all)
	}
}

// failure tells what went wrong in a story, and what led to it.
func (w *world) failure() string {
	p, name := w.judge.problem, "nobody"
	if p.box != nil {
		name = p.box.place.name + "/" + p.box.id + " " + p.box.revision
	}
	return fmt.Sprintf("seed %d (%s), of %s:\n%s\n\nreplay with -sim.seed=%d, and -sim.log for the daemon's own log\n\n%s\n%s",
		w.seed, w.scale.name, name, p.what, w.seed, w.judge.books[len(w.judge.books)-1].yaml(), w.life(p.box))
}

func (f *figures) add(o figures) {
	f.stops += o.stops
	f.missed += o.missed
	f.prompt += o.prompt
	f.lists += o.lists
	f.lives += o.lives
	f.born += o.born
	f.reclaimed += o.reclaimed
}

func (f figures) String() string {
	return fmt.Sprintf("%d daemons, %d lists, %d sandboxes, %d stops, %d reclaimed, %d checked to be on time, %d looks for missed ones",
		f.lives, f.lists, f.born, f.stops, f.reclaimed, f.prompt, f.missed)
}
