package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// later is a policy that takes nothing of the scene's for hours, in a
// configuration that stays dry.
const later = `version: 1
protect: [{tags: {reaperd.test: $ID, protect: "true"}}]
policies:
  - name: later
    match: {tags: {reaperd.test: $ID, praisonai: managed}}
    limits: {max_uptime: 4h}
    action: {type: remove, grace: 1s}
`

// TestStopEndsRealContainers orders each by one of its names, although the
// configuration says dry_run: true.
func TestStopEndsRealContainers(t *testing.T) {
	t.Parallel()
	e := enginetest.Shared(t)
	p := enginetest.NewProxy(t, e)
	s := newScene(t, later, dockerAt("docker", p.Host()))
	dry := []string{"REAPERD_DRY_RUN=true"}
	hex := s.id
	managed := e.Run(t, enginetest.Options{
		Name: "praisonai_docker_" + hex, Cmd: enginetest.Polite(),
		Labels: s.tags("praisonai", "managed", "instance_id", "docker_"+hex),
	})
	other := e.Run(t, enginetest.Options{Name: "renamed-" + hex, Cmd: enginetest.Polite(), Labels: s.tags("instance_id", "docker_r"+hex[1:])})
	third := e.Run(t, enginetest.Options{Name: "third-" + hex, Cmd: enginetest.Polite(), Labels: s.tags()})
	fourth := e.Run(t, enginetest.Options{Cmd: enginetest.Polite(), Labels: s.tags()})

	got := reaperd(t, dry, "stop", "docker_"+hex, "--dry-run", "-c", s.file)
	if want := (said{exitClean, fmt.Sprintf("Would remove docker_%s (docker)\n\n1 would be stopped\n", hex), ""}); got != want || len(p.Mutations()) > 0 {
		t.Errorf("--dry-run: got %+v, want %+v, sent %v", got, want, p.Mutations())
	}
	for _, tc := range []struct{ id, container, shown string }{
		{"docker_" + hex, managed, "docker_" + hex},
		{"docker_r" + hex[1:], other, "docker_r" + hex[1:]}, // its name says something else
		{"third-" + hex, third, "docker_" + third[:12]},
		{fourth[:12], fourth, "docker_" + fourth[:12]},
	} {
		got := reaperd(t, dry, "stop", tc.id, "-c", s.file)
		if want := (said{exitClean, "Stopped " + tc.shown + " (docker)\n\n1 stopped\n", ""}); got != want {
			t.Errorf("%s: got %+v, want %+v", tc.id, got, want)
		}
		if e.Exists(t, tc.container) {
			t.Errorf("%s is still there", tc.id)
		}
	}
	got = reaperd(t, dry, "stop", "docker_"+hex, "-c", s.file)
	if want := (said{exitTrouble, "No running sandbox with ID 'docker_" + hex + "'. See: reaperd ps\n", ""}); got != want {
		t.Errorf("again: got %+v, want %+v", got, want)
	}
}

func TestStopAllOnARealEngine(t *testing.T) {
	t.Parallel()
	e := enginetest.Shared(t)
	s := newScene(t, later, dockerAt("docker", e.Host()))
	kept := []string{
		s.box(t, e), s.box(t, e, "praisonai", "managed", "protect", "true"),
		e.Run(t, enginetest.Options{Labels: map[string]string{"praisonai": "managed"}}),
	}
	gone := []string{s.box(t, e, "praisonai", "managed"), s.box(t, e, "praisonai", "managed")}
	got := reaperd(t, nil, "stop", "--all", "-c", s.file)
	if got.code != exitClean || !strings.HasSuffix(got.out, "\n\n2 stopped\n") {
		t.Errorf("got %+v", got)
	}
	for _, id := range gone {
		if e.Exists(t, id) || !strings.Contains(got.out, "Stopped docker_"+id[:12]+" (docker)\n") {
			t.Errorf("%s was not stopped", id[:12])
		}
	}
	for _, id := range kept {
		if !e.Inspect(t, id).State.Running {
			t.Errorf("%s does not run", id[:12])
		}
	}
}
