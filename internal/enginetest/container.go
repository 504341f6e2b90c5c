package enginetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// Options describe a container for Run. The zero value is one of Image that
// runs until it is killed, ignores SIGTERM and has no network.
type Options struct {
	Name       string
	Image      string   // "" is Image
	Cmd        []string // nil is Stubborn
	Labels     map[string]string
	Restart    container.RestartPolicyMode // "" is no
	AutoRemove bool
	Volumes    []string // paths that get an anonymous volume
	Binds      []string // name:/path for a named volume
	Network    string   // "" is none
	// CreateOnly leaves it created and never started.
	CreateOnly bool
	// Adjust changes what no other field can.
	Adjust func(*container.Config, *container.HostConfig)
}

// Stubborn is a command that ignores SIGTERM, as every process with id 1 does
// that installs no handler.
func Stubborn() []string { return []string{"sleep", "86400"} }

// Polite is a command that ends with 0 on SIGTERM.
func Polite() []string {
	return []string{"sh", "-c", `trap 'exit 0' TERM; while :; do sleep 86400 & wait $!; done`}
}

// Run makes a container and starts it, and gives its id. It is removed when
// the test ends, with its anonymous volumes.
func (e *Engine) Run(tb testing.TB, o Options) (id string) {
	tb.Helper()
	cfg := &container.Config{Image: o.Image, Cmd: o.Cmd, Labels: o.Labels}
	if cfg.Image == "" {
		cfg.Image = Image
	}
	if cfg.Cmd == nil {
		cfg.Cmd = Stubborn()
	}
	if len(o.Volumes) > 0 {
		cfg.Volumes = map[string]struct{}{}
		for _, path := range o.Volumes {
			cfg.Volumes[path] = struct{}{}
		}
	}
	host := &container.HostConfig{
		AutoRemove:    o.AutoRemove,
		Binds:         o.Binds,
		NetworkMode:   container.NetworkMode(o.Network),
		RestartPolicy: container.RestartPolicy{Name: o.Restart},
	}
	if o.Network == "" {
		host.NetworkMode = "none"
	}
	if o.Adjust != nil {
		o.Adjust(cfg, host)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	made, err := e.cli.ContainerCreate(ctx, cfg, host, nil, nil, o.Name)
	if err != nil {
		tb.Fatalf("create a container: %v", err)
	}
	tb.Cleanup(func() { e.Remove(tb, made.ID) })
	if !o.CreateOnly {
		if err := e.cli.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
			tb.Fatalf("start container %s: %v", made.ID, err)
		}
	}
	return made.ID
}

// Exec starts a command in a container and does not wait for its end.
func (e *Engine) Exec(tb testing.TB, id string, cmd ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	made, err := e.cli.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: cmd})
	if err == nil {
		err = e.cli.ContainerExecStart(ctx, made.ID, container.ExecStartOptions{Detach: true})
	}
	if err != nil {
		tb.Fatalf("exec %v in container %s: %v", cmd, id, err)
	}
}

// Remove ends a container and waits until it is gone. One that is gone
// already is fine.
func (e *Engine) Remove(tb testing.TB, id string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.remove(ctx, id); err != nil {
		tb.Errorf("remove container %s: %v", id, err)
	}
}

// gone says whether the engine knows no such container. Podman 4.3.1 says it
// with a 500 of one that goes in that very moment.
func gone(err error) bool {
	return errdefs.IsNotFound(err) || err != nil && strings.Contains(err.Error(), "does not exist in database: no such container")
}

func (e *Engine) remove(ctx context.Context, id string) error {
	e.slot <- struct{}{}
	defer func() { <-e.slot }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := e.cli.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if gone(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C: // after a success too: only "no such container" says that it is gone
		}
	}
}

// Inspect gives what the engine says of a container.
func (e *Engine) Inspect(tb testing.TB, id string) container.InspectResponse {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := e.cli.ContainerInspect(ctx, id)
	if err != nil {
		tb.Fatalf("inspect container %s: %v", id, err)
	}
	return c
}

// Exists says whether the engine still knows the container.
func (e *Engine) Exists(tb testing.TB, id string) bool {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := e.cli.ContainerInspect(ctx, id)
	if err != nil && !gone(err) {
		tb.Fatalf("inspect container %s: %v", id, err)
	}
	return err == nil
}

// IDs gives every container that the engine knows.
func (e *Engine) IDs(tb testing.TB) map[string]bool {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all, err := e.cli.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		tb.Fatalf("list containers: %v", err)
	}
	ids := make(map[string]bool, len(all))
	for _, c := range all {
		ids[c.ID] = true
	}
	return ids
}

// Wait waits until what the engine says of a container satisfies is.
func (e *Engine) Wait(tb testing.TB, id string, is func(*container.State) bool) {
	tb.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c := e.Inspect(tb, id)
		if is(c.State) {
			return
		}
		select {
		case <-deadline:
			tb.Fatalf("container %s did not get there; it is %+v", id, c.State)
		case <-tick.C:
		}
	}
}

// removeAll ends every container, so that dockerd has nothing to wait for when
// it is told to end.
func (e *Engine) removeAll() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all, err := e.cli.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return // it is down or sick; ending dockerd has its own way out
	}
	for _, c := range all {
		_ = e.remove(ctx, c.ID)
	}
}
