package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/reaperd/reaperd/pkg/providers"
)

// Probe asks for the engine's networks (GET /networks). Docker 20.10 can
// deadlock in its network library (github.com/moby/libnetwork/issues/2649):
// pings, lists and inspects are answered then as if nothing were wrong, while
// this call hangs as every stop and removal does.
func (p *Provider) Probe(ctx context.Context) error {
	ctx, cancel := orElse(ctx, p.deadlines.probe)
	defer cancel()
	failed := do(ctx, p.conn, func(ctx context.Context, l *liveClient) error { return l.answers(ctx, "/networks") })
	switch {
	case failed.is(http.StatusNotFound): // as in List
		return fmt.Errorf("probe: %s has no such call: %w", p.conn.where(), providers.ErrUnavailable)
	case failed != nil:
		return fmt.Errorf("probe: %w", failed.translated())
	}
	return nil
}

// readAtMost is how much of an answer is read that is asked for only to see
// whether it comes. The connection of a longer one is given up.
const readAtMost = 64 << 10

// answers says whether the engine answers that path with 200. What it answers
// is thrown away. The Docker client would read and decode all of it, however
// many networks there are. Without a version in the path the engine takes its own.
func (l *liveClient) answers(ctx context.Context, path string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.base+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := l.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, readAtMost))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status + ": " + string(text))
	}
	return err
}
