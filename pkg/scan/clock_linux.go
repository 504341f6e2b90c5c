package scan

import (
	"time"

	"golang.org/x/sys/unix"
)

// processStart is what sinceBoot counts from should the kernel not tell: the start of
// this process, on a clock that stands still in sleep.
var processStart = time.Now()

func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Since(processStart)
	}
	return time.Duration(ts.Nano())
}
