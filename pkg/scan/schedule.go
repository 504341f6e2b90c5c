package scan

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/reaperd/reaperd/internal/duration"
)

// Schedule says when a provider is scanned.
type Schedule struct {
	text  string
	cron  cron.Schedule
	every bool
}

// scheduleEpoch is where a schedule is tried out when it is parsed: the start
// of a leap year, so that 29 February is found within cron's five years.
var scheduleEpoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// ParseSchedule reads a five-field cron expression, a descriptor such as
// @hourly, or "@every D" with a duration of at least a second, in the zone
// given. A schedule that would never fire is an error.
func ParseSchedule(text string, zone *time.Location) (Schedule, error) {
	if rest, ok := strings.CutPrefix(text, "@every"); ok {
		d, err := duration.Parse(strings.TrimSpace(rest))
		if err != nil {
			return Schedule{}, fmt.Errorf("schedule %q: %w", text, err)
		}
		if d < time.Second || d%time.Second != 0 {
			return Schedule{}, fmt.Errorf("schedule %q: want whole seconds, one at least", text)
		}
		return Schedule{text, cron.Every(d), true}, nil
	}
	// robfig/cron v3.0.1 panics on a bare zone prefix and would let one
	// schedule contradict the configured zone.
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return Schedule{}, fmt.Errorf("schedule %q: the zone belongs into the key timezone", text)
	}
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: %w (want five fields, @hourly and the like, or @every 30s)", text, err)
	}
	if spec, ok := parsed.(*cron.SpecSchedule); ok {
		spec.Location = zone // it is the machine's local zone unless told
	}
	if parsed.Next(scheduleEpoch).IsZero() {
		return Schedule{}, fmt.Errorf("schedule %q never fires", text)
	}
	return Schedule{text, parsed, false}, nil
}

// String gives the schedule as it was written.
func (s Schedule) String() string { return s.text }

// Next is the first tick after t.
func (s Schedule) Next(t time.Time) time.Time { return s.cron.Next(t) }

// after is the tick to wait for once a scan that began at began is over at
// now. A tick of the calendar that the scan ran over is made good at once, and
// once only; an interval begins anew.
func (s Schedule) after(began, now time.Time) time.Time {
	if s.every {
		return s.Next(now)
	}
	return s.Next(began)
}
