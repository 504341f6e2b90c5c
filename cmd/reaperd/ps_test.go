package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/providers"
)

func TestUptime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for age, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 59 * time.Second: "59s", 59*time.Second + 999*time.Millisecond: "59s", time.Minute: "1m",
		59*time.Minute + 59*time.Second: "59m", time.Hour: "1h00m", 23*time.Hour + 59*time.Minute: "23h59m",
		24 * time.Hour: "1d00h", 25 * time.Hour: "1d01h", 240 * time.Hour: "10d00h",
	} {
		if got := uptime(now.Add(-age), now); got != want {
			t.Errorf("%v: %s, want %s", age, got, want)
		}
	}
	if got := uptime(time.Time{}, now); got != "-" {
		t.Errorf("not known: %s", got)
	}
}

func TestStatusWords(t *testing.T) {
	t.Parallel()
	want := map[providers.State]string{
		providers.StateCreated: "provisioning", providers.StateStarting: "provisioning", providers.StateRunning: "running",
		providers.StatePaused: "idle", providers.StateSuspended: "idle", providers.StateChanging: "stopping",
		providers.StateExited: "stopped", providers.StateDead: "error", providers.StateUnknown: "error",
	}
	for _, s := range providers.States() {
		if got := statusWord(s); got != want[s] {
			t.Errorf("%s: %s, want %s", s, got, want[s])
		}
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain Ünïcode ✓": "plain Ünïcode ✓", "\x1b]0;title\a": "�]0;title�", "a\r\nb\tc": "a��b�c",
		"\u202egnp.exe": "�gnp.exe", "\u009b31m": "�31m", "bad \xff": "bad �",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// twoRunning are a sandbox of PraisonAI's and one with a hostile name, beside
// one that has ended.
func twoRunning() []canned {
	now := time.Now()
	return []canned{
		{
			id: hexID("5afaa3bfa704"), name: "praisonai_docker_5afaa3bfa704", image: "python:3.12-slim", status: "running",
			labels:  map[string]string{"praisonai": "managed", "instance_id": "docker_5afaa3bfa704"},
			created: now.Add(-3*time.Hour - 5*time.Minute - 30*time.Second), started: now.Add(-3*time.Hour - 5*time.Minute - 29*time.Second),
		},
		{
			id: hexID("abc"), name: "evil", image: "\x1b[2Jimage", status: "running",
			labels:  map[string]string{"instance_id": "\x1b[31mred"},
			created: time.Unix(1_700_000_000, 0), started: now.Add(-26*time.Hour - 30*time.Second),
		},
		{id: hexID("dead"), name: "ended", image: "x", status: "exited", created: now.Add(-time.Hour), started: now.Add(-time.Hour)},
	}
}

func TestPsTable(t *testing.T) {
	t.Parallel()
	e := newCannedEngine(t, twoRunning()...)
	config := cannedConfig(t, somePolicy, "docker", e)
	got := reaperd(t, nil, "ps", "-c", config)
	want := said{exitClean, "" +
		"INSTANCE ID                PROVIDER   STATUS     UPTIME   IMAGE\n" +
		strings.Repeat("-", 78) + "\n" +
		"docker_5afaa3bfa704        docker     running    3h05m    python:3.12-slim\n" +
		"�[31mred                   docker     running    1d02h    �[2Jimage\n" +
		"\n2 running. Stop with: reaperd stop <instance-id>\n", ""}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(said{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all := reaperd(t, nil, "ps", "-a", "-c", config)
	if !strings.Contains(all.out, "\ndocker_dead00000000        docker     stopped    1h00m    x\n\n2 running.") {
		t.Errorf("--all: %s", all.out)
	}
	if made := e.made(); made != nil {
		t.Errorf("ps changed something: %v", made)
	}
}

func TestPsOfNothing(t *testing.T) {
	t.Parallel()
	config := cannedConfig(t, somePolicy, "docker", newCannedEngine(t))
	if got, want := reaperd(t, nil, "ps", "-c", config), (said{exitClean, "No running sandboxes.\n", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got, want := reaperd(t, nil, "ps", "--json", "-c", config), said{exitClean, "{\n  \"sandboxes\": [],\n  \"errors\": []\n}\n", ""}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestNoSandboxesIsNotCouldNotLook has one engine that fails beside one that
// does not.
func TestNoSandboxesIsNotCouldNotLook(t *testing.T) {
	t.Parallel()
	sick, well := newCannedEngine(t), newCannedEngine(t, twoRunning()[0])
	sick.setSick(true)
	config := cannedConfig(t, somePolicy, "sick", sick, "well", well)
	unqueried := "\nSome providers could not be queried (sandboxes may still be running):\n  sick: list sick: list containers: " +
		sick.host + ": Error response from daemon: no [31mspace left: provider unavailable\n"

	got := reaperd(t, nil, "ps", "-c", config)
	if got.code != exitTrouble || !strings.HasSuffix(got.out, "\n1 running. Stop with: reaperd stop <instance-id>\n"+unqueried) || got.errors != "" {
		t.Errorf("ps: %+v", got)
	}
	got = reaperd(t, nil, "ps", "-p", "sick", "-c", config)
	if want := (said{exitTrouble, "No running sandboxes.\n" + unqueried, ""}); got != want {
		t.Errorf("ps -p: got %+v, want %+v", got, want)
	}
	got = reaperd(t, nil, "ps", "--json", "-c", config)
	var parsed struct{ Sandboxes, Errors []map[string]any }
	if err := json.Unmarshal([]byte(got.out), &parsed); err != nil || got.code != exitTrouble {
		t.Fatalf("%v, %+v", err, got)
	}
	if len(parsed.Sandboxes) != 1 || len(parsed.Errors) != 1 || parsed.Errors[0]["provider"] != "sick" || parsed.Errors[0]["error"] == "" {
		t.Errorf("ps --json: %s", got.out)
	}
	if got := reaperd(t, nil, "ps", "-p", "well", "-c", config); got.code != exitClean {
		t.Errorf("ps -p well: %+v", got)
	}
	// An engine that nobody serves is as loud, by kind and by name.
	absent := cannedConfig(t, somePolicy, "dev", "unix:///no/such/docker.sock")
	for _, args := range [][]string{{"ps"}, {"ps", "-p", "docker"}, {"ps", "-p", "dev"}, {"plan"}, {"stop", "--all"}, {"run", "--once"}} {
		got := reaperd(t, nil, append(args, "-c", absent)...)
		if got.code != exitTrouble || !strings.Contains(got.out, "\nSome providers could not be queried (sandboxes may still be running):\n  dev: ") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestPsJSON(t *testing.T) {
	t.Parallel()
	e := newCannedEngine(t, twoRunning()...)
	got := reaperd(t, nil, "ps", "--json", "--all", "-c", cannedConfig(t, somePolicy, "docker", e))
	var parsed struct {
		Sandboxes []map[string]any `json:"sandboxes"`
		Errors    []any            `json:"errors"`
	}
	if err := json.Unmarshal([]byte(got.out), &parsed); err != nil {
		t.Fatalf("%v in %s", err, got.out)
	}
	if got.code != exitClean || parsed.Errors == nil || len(parsed.Sandboxes) != 3 || !strings.HasPrefix(got.out, "{\n  \"sandboxes\": [\n    {\n      \"provider\"") {
		t.Fatalf("%+v", got)
	}
	first := parsed.Sandboxes[0]
	var keys []string
	for k := range first {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	wantKeys := []string{"created_at", "endpoint", "instance_id", "metadata", "provider", "reason", "started_at", "status", "verdict"}
	if diff := cmp.Diff(wantKeys, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	for key, want := range map[string]any{
		"provider": "docker", "instance_id": "docker_5afaa3bfa704", "status": "running", "endpoint": "docker://5afaa3bfa704",
		"verdict": "keep", "reason": "unmatched",
		"metadata": map[string]any{"image": "python:3.12-slim", "name": "praisonai_docker_5afaa3bfa704", "state": "running"},
	} {
		if diff := cmp.Diff(want, first[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	if parsed.Sandboxes[1]["instance_id"] != "\x1b[31mred" || strings.Contains(got.out, "\x1b") {
		t.Errorf("escapes: %q", got.out)
	}
	// A time is a float to every reader, whole seconds too.
	if !strings.Contains(got.out, `"created_at": 1700000000.0,`) {
		t.Errorf("no 1700000000.0 in %s", got.out)
	}
	if n := len(regexp.MustCompile(`"created_at": \d+\.\d+,`).FindAllString(got.out, -1)); n != 3 {
		t.Errorf("%d of 3 created_at have a fraction in %s", n, got.out)
	}
}

func TestSecondsAlwaysHaveAFraction(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		at   time.Time
		want string
	}{
		{time.Time{}, "0.0"}, {time.Unix(1_787_421_807, 123_456_789), "1787421807.123456"},
		{time.Unix(1_787_421_807, 0), "1787421807.0"}, {time.Unix(1_787_421_807, 500_000_000), "1787421807.5"},
	} {
		if got, err := json.Marshal(seconds(tc.at)); string(got) != tc.want || err != nil {
			t.Errorf("%v: %s, %v, want %s", tc.at, got, err, tc.want)
		}
	}
}

// TestUnknownProviderIsNeverAnEmptyList asks for a kind that is not built.
func TestUnknownProviderIsNeverAnEmptyList(t *testing.T) {
	t.Parallel()
	config := cannedConfig(t, somePolicy, "dev", newCannedEngine(t, twoRunning()...))
	const why = `kind "daytona" is not built into this reaperd (it has docker, process), and no provider has that name (there is dev)`
	for _, args := range [][]string{{"ps"}, {"plan"}, {"stop", "--all"}, {"stop", "docker_5afaa3bfa704"}} {
		got := reaperd(t, nil, append(args, "-p", "daytona", "-c", config)...)
		want := "\nSome providers could not be queried (sandboxes may still be running):\n  daytona: " + why + "\n"
		if got.code != exitTrouble || !strings.HasSuffix(got.out, want) || got.errors != "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for _, args := range [][]string{{"ps", "--json"}, {"plan", "--json"}} {
		got := reaperd(t, nil, append(args, "-p", "daytona", "-c", config)...)
		why, err := json.Marshal(why)
		if err != nil {
			t.Fatal(err)
		}
		want := "{\n  \"sandboxes\": [],\n  \"errors\": [\n    {\n      \"provider\": \"daytona\",\n      \"error\": " + string(why) + "\n    }\n  ]\n}\n"
		if got.code != exitTrouble || got.out != want {
			t.Errorf("%v: %+v, want %s", args, got, want)
		}
	}
	got := reaperd(t, nil, "ps", "-p", "process", "-c", config)
	if want := "  process: no provider of kind \"process\" is configured (there is dev)\n"; got.code != exitTrouble || !strings.HasSuffix(got.out, want) {
		t.Errorf("a kind that is not configured: %+v", got)
	}
}
