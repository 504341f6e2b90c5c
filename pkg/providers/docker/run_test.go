package docker

import (
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

func TestOneRunLastsThroughTheEnginesOwnRestarts(t *testing.T) {
	at := func(minute int) string {
		return time.Date(2026, 11, 30, 12, minute, 0, 0, time.UTC).Format(time.RFC3339Nano)
	}
	type look struct {
		status   string
		started  string
		restarts int
	}
	for name, tc := range map[string]struct {
		looks []look
		want  string // StartedAt that the run is counted from
	}{
		"first sight of a crash loop takes what it sees": {[]look{{"running", at(9), 7}}, at(9)},
		"no restart":                                       {[]look{{"running", at(1), 0}, {"running", at(1), 0}}, at(1)},
		"one restart":                                      {[]look{{"running", at(1), 0}, {"running", at(2), 1}}, at(1)},
		"a restart seen while the engine waits":            {[]look{{"running", at(1), 0}, {"restarting", at(1), 1}, {"running", at(2), 1}}, at(1)},
		"many restarts":                                    {[]look{{"running", at(1), 0}, {"running", at(2), 3}, {"restarting", at(3), 5}, {"running", at(9), 8}}, at(1)},
		"frozen in between":                                {[]look{{"running", at(1), 2}, {"paused", at(1), 2}, {"running", at(5), 3}}, at(1)},
		"a manual start sets the count to 0":               {[]look{{"running", at(1), 4}, {"running", at(5), 0}}, at(5)},
		"a manual start and fewer crashes":                 {[]look{{"running", at(1), 4}, {"running", at(5), 2}}, at(5)},
		"a manual start and just as many crashes":          {[]look{{"running", at(1), 4}, {"running", at(5), 4}}, at(5)},
		"fewer, although it was waiting":                   {[]look{{"restarting", at(1), 4}, {"running", at(5), 1}}, at(5)},
		"given up by the engine, started by hand, crashed": {[]look{{"exited", at(1), 0}, {"running", at(8), 1}}, at(8)},
		"ended":                             {[]look{{"running", at(1), 0}, {"running", at(2), 3}, {"exited", at(2), 3}}, at(1)},
		"created, then started and crashed": {[]look{{"created", "0001-01-01T00:00:00Z", 0}, {"running", at(3), 1}}, at(3)},
		"a time that cannot be read does not begin a run":     {[]look{{"running", "garbage", 1}, {"running", at(3), 2}}, at(3)},
		"a clock set back does not lengthen what is memory's": {[]look{{"running", at(9), 0}, {"running", at(2), 1}}, at(2)},
	} {
		t.Run(name, func(t *testing.T) {
			var before *run
			for _, l := range tc.looks {
				now := follow(before, &container.State{Status: l.status, StartedAt: l.started}, l.restarts)
				before = &now
			}
			if want := parseTime(tc.want); !before.first.Equal(want) {
				t.Errorf("the run is counted from %v, want %v", before.first, want)
			}
		})
	}
}
