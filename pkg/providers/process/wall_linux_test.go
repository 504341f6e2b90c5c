package process

import (
	"testing"
	"time"
)

func TestWall(t *testing.T) {
	boot := time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)
	w := newWall()
	if w.ticks != 100 {
		t.Fatalf("%d ticks a second", w.ticks)
	}
	w.adopt(boot)
	first := w.at(12345)
	if want := boot.Truncate(time.Millisecond).Add(123450 * time.Millisecond); first != want {
		t.Errorf("got %v, want %v", first, want)
	}
	w.adopt(boot.Add(jitter / 2))
	if again := w.at(12345); again != first {
		t.Errorf("measured again: %v, was %v", again, first)
	}
	// A board without a battery begins in 1970 and is set right later.
	w.adopt(boot.AddDate(50, 0, 0))
	if after := w.at(12345); after.Year() != 2076 {
		t.Errorf("after the clock was set: %v", after)
	}
	if got, want := w.at(1<<36).Sub(w.at(0)), time.Duration(1<<36)*10*time.Millisecond; got != want {
		t.Errorf("a long time after boot: %v, want %v", got, want)
	}
}
