package docker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestWhatAContainerLeavesToTell(t *testing.T) { enginetest.Each(t, whatAContainerLeavesToTell) }

func whatAContainerLeavesToTell(t *testing.T, e *enginetest.Engine) {
	p := openAt(t, e.Host())
	const says = "echo oops >&2; sleep 0.2; for i in 1 2 3; do echo line $i; done; " // two streams written at once come in any order
	terminal := func(c *container.Config, _ *container.HostConfig) { c.Tty = true }
	unread := func(_ *container.Config, h *container.HostConfig) { h.LogConfig.Type = "none" }
	unended := []string{"line 3", "unended"}
	if e.IsPodman() { // 4.3.1 runs an unended last line into the one before it
		unended = []string{"line 2", "line 3unended"}
	}
	for name, tc := range map[string]struct {
		o         enginetest.Options
		lines     int
		output    []string
		processes string
		code      int
	}{
		"running":         {enginetest.Options{Cmd: sh(says + "echo ready; sleep 4711")}, 10, []string{"oops", "line 1", "line 2", "line 3", "ready"}, "sleep 4711", -1},
		"on a terminal":   {enginetest.Options{Cmd: sh(says + "echo ready; sleep 4711"), Adjust: terminal}, 2, []string{"line 3", "ready"}, "sleep 4711", -1},
		"ended":           {enginetest.Options{Cmd: sh(says + "printf unended; exit 7")}, 2, unended, "", 7},
		"silent":          {enginetest.Options{}, 10, nil, "sleep 86400", -1},
		"logs not kept":   {enginetest.Options{Cmd: sh(says + "sleep 4711"), Adjust: unread}, 10, nil, "sleep 4711", -1},
		"ended, not kept": {enginetest.Options{Cmd: sh(says + "exit 3"), Adjust: unread}, 10, nil, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			id := e.Run(t, tc.o)
			var got providers.Evidence
			for done := false; !done; { // it says it in its own time
				var err error
				if got, err = p.Evidence(t.Context(), mustGet(t, p, id), tc.lines); err != nil {
					if e.IsPodman() && t.Context().Err() == nil {
						continue // for a moment 4.3.1 calls running what has ended
					}
					t.Fatal(err)
				}
				done = len(got.Output) > 0 && got.Output[len(got.Output)-1] == last(tc.output) || tc.output == nil
				done = done && (got.ExitCode != nil) == (tc.code >= 0)
				if t.Context().Err() != nil {
					t.Fatalf("%+v", got)
				}
			}
			if fmt.Sprint(got.Output) != fmt.Sprint(tc.output) {
				t.Errorf("output %q, want %q", got.Output, tc.output)
			}
			if tc.code >= 0 && *got.ExitCode != tc.code {
				t.Errorf("it exited with %d, want %d", *got.ExitCode, tc.code)
			}
			if all := strings.Join(got.Processes, "\n"); !strings.Contains(all, tc.processes) || tc.processes == "" && all != "" {
				t.Errorf("processes %q, want %q among them", all, tc.processes)
			}
		})
	}
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func last(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}
