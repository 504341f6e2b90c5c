package simulation_test

import (
	"time"

	"github.com/reaperd/reaperd/pkg/scan"
)

// scale is how fast everything goes in a story.
type scale struct {
	name     string
	span     time.Duration
	interval time.Duration // between two lists
	unit     time.Duration // what limits are of the order of
	tick     time.Duration // between two looks of the daemon at its clocks
	fleet    int           // how many sandboxes a place has, about
	brake    scan.BrakeOptions
}

const day = 24 * time.Hour

func scales() []scale {
	brake := scan.BrakeOptions{Window: 10 * time.Minute, MinCount: 3, MaxFraction: 0.25, Confirm: time.Minute}
	return []scale{
		{"days", 2 * day, 5 * time.Minute, 2 * time.Hour, time.Minute, 8, brake},
		{"weeks", 28 * day, 3 * time.Hour, day, 10 * time.Minute, 8, brake},
		{"year", 365 * day, 24 * time.Hour, 10 * day, time.Hour, 8, brake},
	}
}
