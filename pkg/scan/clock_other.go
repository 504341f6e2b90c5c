//go:build !linux

package scan

import "time"

var processStart = time.Now()

// sinceBoot counts from the start of this process.
func sinceBoot() time.Duration { return time.Since(processStart) }

func bootID() string { return "" }
