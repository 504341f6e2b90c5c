package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// wall turns a process's start, in ticks after boot, into wall time. It gives
// the same instant for the same process as long as nobody sets the clock: the
// distance between the wall clock and the boot clock is measured anew for each
// walk, and taken over only when it has moved by more than measuring it can.
type wall struct {
	booted time.Time
	ticks  time.Duration // a second's ticks
}

const jitter = 100 * time.Millisecond

// atClockTick is AT_CLKTCK of getauxval(3), what sysconf(_SC_CLK_TCK) reads.
const atClockTick = 17

func newWall() wall {
	w := wall{ticks: 100} // of every architecture that Go runs on
	aux, _ := unix.Auxv()
	for _, kv := range aux {
		if kv[0] == atClockTick && kv[1] != 0 {
			w.ticks = time.Duration(kv[1])
		}
	}
	return w
}

// measure looks at both clocks.
func (w *wall) measure() error {
	var boot, now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return unavailable(err)
	}
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return unavailable(err)
	}
	w.adopt(time.Unix(now.Unix()).Add(-time.Duration(boot.Nano())))
	return nil
}

// adopt takes over a newly measured time of boot if the clock was set.
func (w *wall) adopt(booted time.Time) {
	if booted.Sub(w.booted).Abs() > jitter {
		w.booted = booted.UTC().Truncate(time.Millisecond)
	}
}

// at gives the wall time of so many ticks after boot.
func (w *wall) at(ticks uint64) time.Time {
	t := time.Duration(ticks)
	return w.booted.Add(t/w.ticks*time.Second + t%w.ticks*time.Second/w.ticks)
}
