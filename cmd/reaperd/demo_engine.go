package main

import (
	"archive/tar"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/reaperd/reaperd/pkg/providers/docker"
)

// demoEngine is the Docker engine that a demo also uses; the zero value is
// none.
type demoEngine struct{ address string }

// findDemoEngine looks for an engine that answers and on which this binary
// could run, or says why there is none.
func findDemoEngine(ctx context.Context, env environment) (engine demoEngine, without string) {
	address, err := docker.Find(env.getenv)
	if err != nil {
		return demoEngine{}, "no Docker engine was found"
	}
	if !strings.HasPrefix(address, "unix://") && (address != env.getenv("DOCKER_HOST") || strings.HasPrefix(address, "ssh://")) {
		return demoEngine{}, "the engine at " + address + " is not on this machine"
	}
	if static, err := isStatic("/proc/self/exe"); err != nil || !static {
		return demoEngine{}, "this binary is not static and would not run in a container; make build makes one that does"
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	e := demoEngine{address}
	cli, err := e.client()
	if err == nil {
		defer func() { _ = cli.Close() }()
		_, err = cli.ContainerList(ctx, container.ListOptions{Limit: 1})
	}
	if err != nil {
		return demoEngine{}, "the engine at " + address + " does not answer: " + printable(err.Error())
	}
	return e, ""
}

// isStatic says whether a program runs without a loader and libraries.
func isStatic(path string) (bool, error) {
	f, err := elf.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false, nil
		}
	}
	return true, nil
}

func (e demoEngine) client() (*client.Client, error) {
	return client.NewClientWithOpts(client.FromEnv, client.WithHost(e.address), client.WithAPIVersionNegotiation())
}

// buildImage makes an image that holds this binary and nothing else, so that no
// registry is needed.
func (e demoEngine) buildImage(ctx context.Context, id string) (name string, err error) {
	cli, err := e.client()
	if err != nil {
		return "", err
	}
	defer func() { _ = cli.Close() }()
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(tarSelf(w)) }()
	name = "reaperd-demo:" + id
	answer, err := cli.ImageImport(ctx, image.ImportSource{Source: r, SourceName: "-"}, name, image.ImportOptions{
		Changes: []string{`ENTRYPOINT ["/reaperd", "demo", "sleep"]`, "LABEL " + demoTag + "=" + id},
	})
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, answer)
	return name, errors.Join(err, answer.Close())
}

func tarSelf(w io.Writer) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer func() { _ = self.Close() }()
	info, err := self.Stat()
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	if err := t.WriteHeader(&tar.Header{Name: "reaperd", Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	if _, err := io.Copy(t, self); err != nil {
		return err
	}
	return t.Close()
}

func (e demoEngine) startContainer(ctx context.Context, img string, s stray, id string) (string, error) {
	cli, err := e.client()
	if err != nil {
		return "", err
	}
	defer func() { _ = cli.Close() }()
	labels := map[string]string{demoTag: id}
	for k, v := range s.tags {
		labels[k] = v
	}
	cfg := &container.Config{Image: img, Labels: labels}
	if s.how != "" {
		cfg.Cmd = []string{s.how}
	}
	made, err := cli.ContainerCreate(ctx, cfg, &container.HostConfig{NetworkMode: "none"}, nil, nil, "reaperd-demo-"+id+"-"+s.name)
	if err != nil {
		return "", err
	}
	return made.ID, cli.ContainerStart(ctx, made.ID, container.StartOptions{})
}

// clearUp removes the demo's containers and its image, and says how many of
// them it found.
func (e demoEngine) clearUp(ctx context.Context, id string) (found int, err error) {
	cli, err := e.client()
	if err != nil {
		return 0, err
	}
	defer func() { _ = cli.Close() }()
	left, err := cli.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", demoTag+"="+id))})
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, c := range left {
		if c.Labels[demoTag] != id { // a filter only narrows; some engines ignore it
			continue
		}
		found++
		err := cli.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove %s: %w", c.ID, err))
		}
	}
	_, err = cli.ImageRemove(ctx, "reaperd-demo:"+id, image.RemoveOptions{Force: true})
	switch {
	case err == nil:
		found++
	case !errdefs.IsNotFound(err):
		errs = append(errs, err)
	}
	return found, errors.Join(errs...)
}
