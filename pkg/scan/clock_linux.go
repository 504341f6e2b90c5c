package scan

import (
	"os"
	"strings"
	"sync"
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

// bootID is the kernel's own name for its run. Where that cannot be read, or
// the kernel did not tell the time since boot, there is none.
var bootID = sync.OnceValue(func() string {
	var ts unix.Timespec
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
})
