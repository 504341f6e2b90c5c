// Package duration is the one parser for every duration that people write: in
// the configuration, in policies, in flags and in sandboxes' tags.
package duration

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Parse reads a Prometheus duration such as 90s, 90m, 1d12h or 2w. Units are
// ms, s, m, h, d (24h), w (7d) and y (365d), largest first, each at most once,
// whole numbers only. A bare number, zero, a negative or one that does not fit
// is an error whose text says what to write instead.
func Parse(s string) (time.Duration, error) {
	d, err := ParseOrZero(s)
	if err == nil && d == 0 {
		return 0, fmt.Errorf("%q must be more than zero", s)
	}
	return d, err
}

// ParseOrZero is Parse for the few settings where zero has a meaning, written
// with a unit: 0s.
func ParseOrZero(s string) (time.Duration, error) {
	switch {
	case s == "":
		return 0, errors.New("a duration is missing: write one such as 90m, 4h or 2d")
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("%q is negative: a duration is a whole number with a unit, such as 90m", s)
	case strings.Trim(s, "0123456789") == "":
		return 0, fmt.Errorf("%q has no unit: write %[2]ss, %[2]sm or %[2]sh for seconds, minutes or hours", s, s)
	}
	d, err := model.ParseDuration(s)
	if err != nil {
		if strings.Contains(err.Error(), "out of range") {
			return 0, fmt.Errorf("%q is longer than 292 years, the longest that can be told", s)
		}
		return 0, fmt.Errorf("%q is not a duration: write whole numbers with units from ms s m h d w y, such as 90m, 4h or 1d12h", s)
	}
	return time.Duration(d), nil
}

// Format writes d as Parse reads it, to the millisecond.
func Format(d time.Duration) string { return model.Duration(d).String() }
