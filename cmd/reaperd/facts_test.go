package main

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// filled sets every field of a struct to something that is not its zero value,
// so that a field which a copy forgets is seen.
func filled(t *testing.T, v reflect.Value) {
	t.Helper()
	for f, fv := range v.Fields() {
		switch {
		case fv.Type() == reflect.TypeFor[time.Time]():
			fv.Set(reflect.ValueOf(time.Date(2026, 1, 1, 0, 0, len(f.Name), 0, time.UTC)))
		case fv.Kind() == reflect.Struct:
			filled(t, fv)
		case fv.Kind() == reflect.String:
			fv.SetString(f.Name)
		case fv.Kind() == reflect.Bool:
			fv.SetBool(true)
		case fv.Kind() == reflect.Int:
			fv.SetInt(int64(len(f.Name)))
		case fv.Kind() == reflect.Map:
			fv.Set(reflect.ValueOf(map[string]string{"key": f.Name}))
		case fv.Kind() == reflect.Slice:
			item := reflect.New(fv.Type().Elem()).Elem()
			filled(t, item)
			fv.Set(reflect.Append(fv, item))
		default:
			t.Fatalf("a fact has a field %s of a kind that this test does not know: %s", f.Name, fv.Kind())
		}
	}
}

func TestARecordingLosesNothing(t *testing.T) {
	var want policy.Facts
	filled(t, reflect.ValueOf(&want).Elem())
	want.State = providers.StateRunning
	text, err := json.Marshal(newFact(want))
	if err != nil {
		t.Fatal(err)
	}
	var read fact
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read.facts()); diff != "" {
		t.Errorf("(-recorded +read):\n%s", diff)
	}
}

// Nil tags cannot say, empty ones say that there are none: policies judge the
// two differently.
func TestARecordingKeepsWhatWasNotSaid(t *testing.T) {
	for _, tags := range []map[string]string{nil, {}} {
		text, err := json.Marshal(newFact(policy.Facts{Sandbox: providers.Sandbox{Tags: tags}}))
		if err != nil {
			t.Fatal(err)
		}
		var read fact
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		if (read.Tags == nil) != (tags == nil) {
			t.Errorf("tags %#v came back as %#v", tags, read.Tags)
		}
	}
}

const fourHours = `version: 1
policies:
  - name: four-hours
    match: {tags: {team: agents}}
    limits: {max_uptime: 4h}
`

// What would policies that are not live yet have taken, at the instant of the
// recording and not at that of asking?
func TestPlanJudgesARecordedInventory(t *testing.T) {
	const at = "2026-01-02T00:00:00Z"
	facts := `{"version":1,"at":"` + at + `","errors":[{"provider":"cloud","error":"it was away"}],"facts":[
	 {"provider":"dev","kind":"docker","id":"1","name":"old","state":"running","tags":{"team":"agents"},"started":"2026-01-01T19:00:00Z","created":"2026-01-01T19:00:00Z","pulse":{"first_seen":"` + at + `"}},
	 {"provider":"dev","kind":"docker","id":"2","name":"young","state":"running","tags":{"team":"agents"},"started":"2026-01-01T21:00:00Z","created":"2026-01-01T21:00:00Z","pulse":{"first_seen":"` + at + `"}}]}`
	dir := write(t, "new.yaml", fourHours, "facts.json", facts)
	got := reaperd(t, nil, "plan", "--policies", filepath.Join(dir, "new.yaml"), "--facts", filepath.Join(dir, "facts.json"))
	if got.code != exitTrouble {
		t.Errorf("exit %d, %s; want 1: a provider is not in the recording", got.code, got.errors)
	}
	for _, want := range []string{
		"old    running  stop     four-hours: max_uptime                      1h00m ago\n",
		"young  running  keep     within_limits until four-hours: max_uptime  in 1h00m\n",
		"1 to reclaim, 1 kept\n",
		"could not be queried", "cloud: it was away",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("it does not say %q:\n%s", want, got.out)
		}
	}
}

func TestARecordingThatCouldBeMisreadIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ facts, says string }{
		"no JSON":         {"facts", "is no recording"},
		"another format":  {`{"sandboxes":[],"errors":[]}`, `unknown field "sandboxes"`},
		"a misspelt key":  {`{"version":1,"at":"2026-01-02T00:00:00Z","facts":[{"tag":{}}]}`, `unknown field "tag"`},
		"another version": {`{"version":2,"at":"2026-01-02T00:00:00Z","facts":[]}`, "want version 1"},
		"no time":         {`{"version":1,"facts":[]}`, "want version 1 and a time"},
		"unknown state":   {`{"version":1,"at":"2026-01-02T00:00:00Z","facts":[{"state":"zombie"}]}`, `unknown state "zombie"`},
		"two of them":     {`{"version":1,"at":"2026-01-02T00:00:00Z","facts":[]}{}`, "something follows"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, "facts.json", tc.facts, "p.yaml", fourHours)
			got := reaperd(t, nil, "plan", "--policies", filepath.Join(dir, "p.yaml"), "--facts", filepath.Join(dir, "facts.json"))
			if got.code != exitTrouble || !strings.Contains(got.errors, tc.says) {
				t.Errorf("exit %d, %q; want 1 and %q", got.code, got.errors, tc.says)
			}
		})
	}
}

func TestPsRecordsWhatPlanReads(t *testing.T) {
	now := time.Now()
	engine := newCannedEngine(t, canned{
		id: hexID("abc"), name: "build", image: "img:1", status: "running", labels: map[string]string{"team": "agents"},
		created: now.Add(-5 * time.Hour), started: now.Add(-5 * time.Hour),
	})
	config := cannedConfig(t, fourHours, "dev", engine)
	recorded := reaperd(t, nil, "ps", "-o", "facts", "-c", config)
	if recorded.code != exitClean {
		t.Fatalf("exit %d: %s%s", recorded.code, recorded.out, recorded.errors)
	}
	dir := write(t, "facts.json", recorded.out)
	live := reaperd(t, nil, "plan", "-c", config)
	replayed := reaperd(t, nil, "plan", "-c", config, "--facts", filepath.Join(dir, "facts.json"))
	if live.out != replayed.out || !strings.Contains(live.out, "four-hours: max_uptime") {
		t.Errorf("live:\n%s\nreplayed:\n%s", live.out, replayed.out)
	}
}
