package scan

import (
	"fmt"
	"strconv"
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
// given. A schedule that would never fire is an error. Where clocks change, a
// schedule of certain hours fires once for each of them: an hour that is left
// out comes as the next, one that comes twice counts once.
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
		if spec.Hour&everyHour != everyHour {
			spec.Location = time.UTC
			parsed = wallCalendar{spec, zone}
		}
	}
	if parsed.Next(scheduleEpoch).IsZero() {
		return Schedule{}, fmt.Errorf("schedule %q never fires", text)
	}
	return Schedule{text, parsed, false}, nil
}

// everyHour is cron's bits for the hours 0 to 23.
const everyHour = 1<<24 - 1

// wallCalendar is a schedule of certain hours, found on a calendar where each
// day has 24 of them. By itself robfig/cron leaves out a tick in the hour that
// is left out (a weekly one for a week) and repeats one in an hour that comes
// twice.
type wallCalendar struct {
	spec *cron.SpecSchedule // in UTC, standing for the zone's wall time
	zone *time.Location
}

// Next implements cron.Schedule.
func (c wallCalendar) Next(t time.Time) time.Time {
	for wall := moved(t.In(c.zone), time.UTC); ; {
		wall = c.spec.Next(wall)
		if wall.IsZero() {
			return wall
		}
		at := moved(wall, c.zone)
		if early := wall.Sub(moved(at, time.UTC)); early > 0 {
			at = at.Add(early) // left out, and moved to before the gap
		}
		if at.After(t) {
			return at
		}
	}
}

// moved gives the time at which a clock in the zone shows what t shows.
func moved(t time.Time, zone *time.Location) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone)
}

// Warnings say what of the schedule may not be what its writer thinks.
func (s Schedule) Warnings() []string {
	fields := strings.Fields(s.text)
	if s.every || len(fields) != 5 {
		return nil
	}
	var warnings []string
	for i, f := range []struct {
		span       int
		unit, each string
	}{{60, "minutes", "hour"}, {24, "hours", "day"}, {0, "days", "month"}} {
		step, stepped := strings.CutPrefix(fields[i], "*/")
		n, err := strconv.Atoi(step)
		if stepped && err == nil && n > 1 && (f.span == 0 || f.span%n != 0) {
			warnings = append(warnings, fmt.Sprintf("schedule %q: its steps of %d %s begin anew with each %s, so the last one is shorter; "+
				"for equal ones write @every", s.text, n, f.unit, f.each))
		}
	}
	if anyDay := func(field string) bool { return strings.HasPrefix(field, "*") || field == "?" }; !anyDay(fields[2]) && !anyDay(fields[4]) {
		warnings = append(warnings, fmt.Sprintf("schedule %q: it names days of the month and of the week, and fires on either", s.text))
	}
	return warnings
}

// String gives the schedule as it was written.
func (s Schedule) String() string { return s.text }

// Next is the first tick after t.
func (s Schedule) Next(t time.Time) time.Time { return s.cron.Next(t) }

// after is the tick to wait for once a scan that began at began is over at
// now. A tick of the calendar that the scan ran over is made good at once, and
// once only; an interval begins anew.
func (s Schedule) after(began, now time.Time) time.Time {
	if s.every || now.Before(began) { // the clock was set back
		return s.Next(now)
	}
	return s.Next(began)
}

// late is how much longer than it seemed a wait for a tick may become when the
// wall clock is set back. An interval is true to the time that passes; a tick
// of the calendar follows small corrections, so that it comes once, but not a
// clock that had been wrong by hours or years.
func (s Schedule) late() time.Duration {
	if s.every {
		return 0
	}
	return 5 * time.Minute
}
