package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const stopPolicies = `version: 1
protect:
  - tags: {keep: "true"}
policies:
  - name: managed
    match: {tags: {praisonai: managed}}
    limits: {max_uptime: 4h}
    action: {type: remove, grace: 2s, volumes: true}
  - name: gentle
    match: {tags: {gentle: "*"}}
    limits: {ttl: {tag: reaperd.ttl, max: 1d}}
    action: {type: stop, grace: 3s}
  - name: frozen
    match: {kinds: [docker], tags: {freeze: "*"}}
    limits: {max_uptime: 4h}
    action: {type: pause}
`

func managed(start, name string, more ...string) canned {
	labels := map[string]string{"praisonai": "managed", "instance_id": "docker_" + start}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return canned{
		id: hexID(start), name: name, image: "x", status: "running", labels: labels,
		created: time.Now().Add(-time.Hour), started: time.Now().Add(-time.Hour),
	}
}

func TestStopByEachOfItsNames(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"docker_5afaa3bfa704", "5afaa3bfa704", hexID("5afaa3bfa704"), hexID("5afaa3bfa704")[:20], "renamed"} {
		// Renamed, which PraisonAI's own stop cannot find.
		e := newCannedEngine(t, managed("5afaa3bfa704", "renamed"), managed("0123456789ab", "other"))
		got := reaperd(t, nil, "stop", id, "-c", cannedConfig(t, stopPolicies, "docker", e))
		want := said{exitClean, "Stopped docker_5afaa3bfa704 (docker)\n\n1 stopped\n", ""}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", id, got, want)
		}
		changes := []string{
			"POST /v1.41/containers/" + hexID("5afaa3bfa704") + "/stop?t=2",
			"DELETE /v1.41/containers/" + hexID("5afaa3bfa704") + "?force=1&v=1",
		}
		if diff := cmp.Diff(changes, e.made()); diff != "" {
			t.Errorf("%s: changes (-want +got):\n%s", id, diff)
		}
	}
}

func TestStopUsesTheActionOfThePolicy(t *testing.T) {
	t.Parallel()
	one, two, three := hexID("a"), hexID("b"), hexID("c")
	for name, tc := range map[string]struct {
		c    canned
		want string
	}{
		"no policy": {
			canned{id: one, name: "n", status: "running", created: time.Now(), started: time.Now()},
			"POST /v1.41/containers/" + one + "/stop?t=10\nDELETE /v1.41/containers/" + one + "?force=1",
		},
		"a policy that has no deadline for it": {
			canned{id: two, name: "n", status: "running", labels: map[string]string{"gentle": ""}, created: time.Now(), started: time.Now()},
			"POST /v1.41/containers/" + two + "/stop?t=3",
		},
		"protected, which tells no action": {
			canned{id: two, name: "n", status: "running", labels: map[string]string{"gentle": "", "keep": "true"}, created: time.Now(), started: time.Now()},
			"POST /v1.41/containers/" + two + "/stop?t=3",
		},
		"a policy that would pause it": {
			canned{id: two, name: "n", status: "running", labels: map[string]string{"freeze": ""}, created: time.Now(), started: time.Now()},
			"POST /v1.41/containers/" + two + "/stop?t=10",
		},
		"a stop of what has ended": {
			canned{id: three, name: "n", status: "exited", labels: map[string]string{"gentle": ""}, created: time.Now(), started: time.Now()},
			"DELETE /v1.41/containers/" + three,
		},
		"a deadline ahead": {
			canned{id: one, name: "n", status: "running", labels: map[string]string{"gentle": "", "reaperd.ttl": "2h"}, created: time.Now(), started: time.Now()},
			"POST /v1.41/containers/" + one + "/stop?t=3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newCannedEngine(t, tc.c)
			got := reaperd(t, nil, "stop", "n", "-c", cannedConfig(t, stopPolicies, "docker", e))
			if made := strings.Join(e.made(), "\n"); got.code != exitClean || made != tc.want {
				t.Errorf("%+v, made\n%s\nwant\n%s", got, made, tc.want)
			}
		})
	}
}

func TestStopRefuses(t *testing.T) {
	t.Parallel()
	twins := func() []canned {
		return []canned{
			managed("aaaaaaaaaaaa1", "one", "instance_id", "docker_twin"), managed("aaaaaaaaaaaa2", "two", "instance_id", "docker_twin"),
		}
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no target":       {nil, "Give an instance ID or --all. See: reaperd ps\n"},
		"only a provider": {[]string{"-p", "docker"}, "Give an instance ID or --all. See: reaperd ps\n"},
		"unknown id":      {[]string{"nope"}, "No running sandbox with ID 'nope'. See: reaperd ps\n"},
		"id with a quote": {[]string{"it's\x1b[0m"}, "No running sandbox with ID 'it\\'s�[0m'. See: reaperd ps\n"},
		"short beginning": {[]string{"aaaaaaaaaaa"}, "No running sandbox with ID 'aaaaaaaaaaa'. See: reaperd ps\n"},
		"part of a name":  {[]string{"on"}, "No running sandbox with ID 'on'. See: reaperd ps\n"},
		"ambiguous instance id": {[]string{"docker_twin"}, "'docker_twin' means 2 sandboxes; give the provider's own id of one:\n" +
			"  " + hexID("aaaaaaaaaaaa1") + " (docker, one)\n  " + hexID("aaaaaaaaaaaa2") + " (docker, two)\n"},
		"ambiguous beginning": {[]string{"aaaaaaaaaaaa"}, "'aaaaaaaaaaaa' means 2 sandboxes; give the provider's own id of one:\n" +
			"  " + hexID("aaaaaaaaaaaa1") + " (docker, one)\n  " + hexID("aaaaaaaaaaaa2") + " (docker, two)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newCannedEngine(t, twins()...)
			got := reaperd(t, nil, append(append([]string{"stop"}, tc.args...), "-c", cannedConfig(t, stopPolicies, "docker", e))...)
			if want := (said{exitTrouble, tc.want, ""}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if made := e.made(); made != nil {
				t.Errorf("it changed something: %v", made)
			}
		})
	}
}

// TestAForgedInstanceIDCatchesNoOrder has a container whose label claims
// another's own id.
func TestAForgedInstanceIDCatchesNoOrder(t *testing.T) {
	t.Parallel()
	victim, forger := managed("5afaa3bfa704", "victim"), managed("0123456789ab", "forger", "instance_id", hexID("5afaa3bfa704"))
	e := newCannedEngine(t, forger, victim)
	got := reaperd(t, nil, "stop", victim.id, "-c", cannedConfig(t, stopPolicies, "docker", e))
	if want := (said{exitClean, "Stopped docker_5afaa3bfa704 (docker)\n\n1 stopped\n", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, change := range e.made() {
		if strings.Contains(change, forger.id) {
			t.Errorf("the forger was touched: %s", change)
		}
	}
}

func TestStopAllTakesWhatAPolicyMatches(t *testing.T) {
	t.Parallel()
	unmatched := canned{id: hexID("2"), name: "unmatched", status: "running", created: time.Now(), started: time.Now()}
	ended, created := managed("333333333333", "ended"), managed("444444444444", "created")
	ended.status, created.status = "exited", "created"
	gentle := canned{id: hexID("6"), name: "gentle", status: "running", labels: map[string]string{"gentle": ""}, created: time.Now(), started: time.Now()}
	e := newCannedEngine(t, managed("111111111111", "a"), unmatched, ended, created, managed("555555555555", "kept", "keep", "true"), gentle)
	config := cannedConfig(t, stopPolicies, "docker", e)

	got := reaperd(t, nil, "stop", "--all", "--dry-run", "-c", config)
	want := said{exitClean, "Would remove docker_111111111111 (docker)\nWould stop docker_600000000000 (docker)\n\n2 would be stopped\n", ""}
	if got != want || e.made() != nil {
		t.Errorf("--dry-run: got %+v, want %+v", got, want)
	}
	got = reaperd(t, nil, "stop", "--all", "-c", config) // dry_run: true is the default and does not bind an order
	if got.code != exitClean || !strings.HasSuffix(got.out, "\n\n2 stopped\n") ||
		!strings.Contains(got.out, "Stopped docker_111111111111 (docker)\n") || !strings.Contains(got.out, "Stopped docker_600000000000 (docker)\n") {
		t.Errorf("got %+v", got)
	}
	for _, change := range e.made() {
		if !strings.Contains(change, hexID("111111111111")) && !strings.Contains(change, hexID("6")) {
			t.Errorf("it also did %s", change)
		}
	}
	const none = "No running sandboxes that a policy takes; 2 left alone. See: reaperd plan\n"
	if got, want := reaperd(t, nil, "stop", "--all", "-c", config), (said{exitClean, none, ""}); got != want {
		t.Errorf("again: got %+v, want %+v", got, want)
	}
}

func TestStopAllOfNothing(t *testing.T) {
	t.Parallel()
	ended := managed("333333333333", "ended")
	ended.status = "exited"
	config := cannedConfig(t, stopPolicies, "docker", newCannedEngine(t, ended))
	if got, want := reaperd(t, nil, "stop", "--all", "-c", config), (said{exitClean, "No running sandboxes.\n", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAFailedStopDoesNotEndTheOthers has an engine that fails to delete one.
func TestAFailedStopDoesNotEndTheOthers(t *testing.T) {
	t.Parallel()
	e := newCannedEngine(t, managed("111111111111", "a"), managed("222222222222", "b"))
	e.stubborn = hexID("111111111111")
	got := reaperd(t, nil, "stop", "--all", "-c", cannedConfig(t, stopPolicies, "docker", e))
	if got.code != exitTrouble || got.errors != "" || !strings.HasSuffix(got.out, "\n\n1 stopped, 1 failed\n") ||
		!strings.Contains(got.out, "Stopped docker_222222222222 (docker)\n") ||
		!strings.Contains(got.out, "Failed to stop docker_111111111111 (docker): remove "+e.stubborn+": ") ||
		!strings.Contains(got.out, "device busy") {
		t.Errorf("got %+v", got)
	}
}

func TestAnIDWinsOverAll(t *testing.T) {
	t.Parallel()
	e := newCannedEngine(t, managed("111111111111", "a"), managed("222222222222", "b"))
	got := reaperd(t, nil, "stop", "--all", "docker_111111111111", "-c", cannedConfig(t, stopPolicies, "docker", e))
	if want := (said{exitClean, "Stopped docker_111111111111 (docker)\n\n1 stopped\n", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestStopTellsOfWhatItCouldNotSee stops what it was asked to, and still does
// not end with 0.
func TestStopTellsOfWhatItCouldNotSee(t *testing.T) {
	t.Parallel()
	sick, well := newCannedEngine(t), newCannedEngine(t, managed("111111111111", "a"))
	sick.setSick(true)
	config := cannedConfig(t, stopPolicies, "sick", sick, "well", well)
	const unqueried = "\nSome providers could not be queried (sandboxes may still be running):\n  sick: "
	got := reaperd(t, nil, "stop", "nope", "-c", config)
	if !strings.HasPrefix(got.out, "No running sandbox with ID 'nope'. See: reaperd ps\n"+unqueried) || got.code != exitTrouble {
		t.Errorf("unknown id: %+v", got)
	}
	got = reaperd(t, nil, "stop", "docker_111111111111", "-c", config)
	if !strings.HasPrefix(got.out, "Stopped docker_111111111111 (well)\n\n1 stopped\n"+unqueried) || got.code != exitTrouble {
		t.Errorf("one stopped: %+v", got)
	}
	got = reaperd(t, nil, "stop", "--all", "-c", config)
	if !strings.HasPrefix(got.out, "\n0 stopped\n"+unqueried) || got.code != exitTrouble {
		t.Errorf("--all: %+v", got)
	}
}
