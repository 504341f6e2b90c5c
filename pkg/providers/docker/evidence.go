package docker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/reaperd/reaperd/pkg/providers"
)

// mostLogBytes bounds what is read of a container's output: its last lines may
// be as long as it likes.
const mostLogBytes = 4 << 20

// Evidence reads the last lines of the container's output (GET
// /containers/{id}/logs), its exit code, and its processes (GET
// /containers/{id}/top), the one that has used the most time first.
func (p *Provider) Evidence(ctx context.Context, sb providers.Sandbox, lines int) (providers.Evidence, error) {
	ctx, cancel := orElse(ctx, p.deadlines.get)
	defer cancel()
	c, failed := p.rawInspect(ctx, sb.ID)
	if failed != nil {
		return providers.Evidence{}, fmt.Errorf("evidence of %s: %w", short(sb.ID), failed.translated())
	}
	var e providers.Evidence
	if c.State.Running {
		e.Processes = p.processes(ctx, c)
	} else if stateOf(c.State.Status).Ended() {
		e.ExitCode = &c.State.ExitCode
	}
	output, failed := p.output(ctx, sb.ID, lines, c.Config.Tty)
	if failed != nil && e.ExitCode == nil && e.Processes == nil {
		return e, fmt.Errorf("output of %s: %w", short(sb.ID), failed.translated())
	}
	e.Output = output
	return e, nil
}

// output reads both of the container's streams, in the order in which they were
// written. A terminal has one, without headers. Logging drivers that cannot be
// read give an error.
func (p *Provider) output(ctx context.Context, id string, lines int, terminal bool) ([]string, *callError) {
	return call(ctx, p.conn, func(ctx context.Context, e *liveClient) ([]string, error) {
		r, err := e.ContainerLogs(ctx, id, container.LogsOptions{
			ShowStdout: true, ShowStderr: true, Tail: strconv.Itoa(lines),
		})
		if err != nil {
			return nil, err
		}
		defer func() { _ = r.Close() }() // it was only read
		bounded := io.LimitReader(r, mostLogBytes)
		var text bytes.Buffer
		if terminal {
			_, err = io.Copy(&text, bounded)
		} else {
			_, err = stdcopy.StdCopy(&text, &text, bounded)
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && text.Len() == 0 {
			return nil, err
		}
		var out []string
		for s := bufio.NewReader(&text); ; {
			line, err := s.ReadString('\n')
			if line != "" {
				out = append(out, strings.TrimRight(line, "\r\n"))
			}
			if err != nil {
				return out, nil
			}
		}
	})
}

// processes gives none where they cannot be had, as on a container that is
// ending.
//
// Docker hands the arguments to the machine's ps. Podman 4.3.1 takes a list of
// columns; if it cannot make sense of one it runs ps in the container, if there is one.
func (p *Provider) processes(ctx context.Context, c container.InspectResponse) []string {
	id, arguments := c.ID, []string{"-eo", "pid,etime,time,rss,args", "--sort=-time"}
	if byPodman(c) {
		arguments = []string{"pid,etime,time,rss,args"}
	}
	top, failed := call(ctx, p.conn, func(ctx context.Context, e *liveClient) (container.TopResponse, error) {
		return e.ContainerTop(ctx, id, arguments)
	})
	if failed != nil && !byPodman(c) { // a ps that cannot sort
		top, failed = call(ctx, p.conn, func(ctx context.Context, e *liveClient) (container.TopResponse, error) {
			return e.ContainerTop(ctx, id, nil)
		})
	}
	if failed != nil {
		return nil
	}
	var out []string
	for _, row := range slices.Concat([][]string{top.Titles}, top.Processes) {
		out = append(out, strings.Join(row, "  "))
	}
	return out
}
