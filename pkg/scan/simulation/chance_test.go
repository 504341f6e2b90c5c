package simulation_test

import (
	"math/rand/v2"
	"time"
)

// dice is the source of everything random that the story's driver decides, one
// decision after the other.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 0x9E3779B97F4A7C15))} }

// chance is true with probability p.
func (d dice) chance(p float64) bool { return d.Float64() < p }

// between gives a duration from lo up to hi, to the odd nanosecond, so that no
// two things in a story happen at the same instant.
func (d dice) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(d.Int64N(int64(hi-lo)+1))
}

// pick gives one of the choices.
func pick[T any](d dice, choices ...T) T { return choices[d.IntN(len(choices))] }

// luck is what is random about one call that is made to the world. Calls come
// from many goroutines in no certain order, so theirs is not drawn from a
// common source but made from what the call is: the same call of the same
// story always has the same luck.
type luck uint64

// luckOf makes it from the seed and from what names the call.
func luckOf(seed uint64, names ...string) luck {
	h := seed ^ 0xcbf29ce484222325
	for _, name := range names {
		for i := range len(name) {
			h = (h ^ uint64(name[i])) * 0x100000001b3
		}
		h = (h ^ 0xff) * 0x100000001b3
	}
	return luck(h).next()
}

// next gives luck that has nothing to do with l.
func (l luck) next() luck {
	h := uint64(l) + 0x9E3779B97F4A7C15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return luck(h ^ h>>31)
}

// chance is true with probability p. Ask only once of one luck.
func (l luck) chance(p float64) bool { return float64(l>>11)/(1<<53) < p }

// between gives a duration from lo up to hi, to the odd nanosecond.
func (l luck) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(uint64(l)%uint64(hi-lo+1))
}
