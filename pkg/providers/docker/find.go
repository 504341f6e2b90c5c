package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/reaperd/reaperd/pkg/providers"
)

// environment is what finding an engine looks at, apart from the settings.
type environment struct {
	getenv   func(string) string
	stat     func(path string) (fs.FileInfo, error)
	hostname func() (string, error)
}

func hostEnvironment() environment {
	return environment{getenv: os.Getenv, stat: os.Stat, hostname: os.Hostname}
}

// usualSockets are where engines listen when nobody said where: Docker,
// rootless Docker, Podman, rootless Podman.
func (env environment) usualSockets() []string {
	found := []string{"/var/run/docker.sock"}
	runtime := env.getenv("XDG_RUNTIME_DIR")
	if runtime != "" {
		found = append(found, filepath.Join(runtime, "docker.sock"))
	}
	found = append(found, "/run/podman/podman.sock")
	if runtime != "" {
		found = append(found, filepath.Join(runtime, "podman/podman.sock"))
	}
	return found
}

// explicit gives the address that somebody chose, "" if nobody did, and who.
func (env environment) explicit(host string) (address, origin string) {
	if host != "" {
		return host, "host"
	}
	return env.getenv("DOCKER_HOST"), "DOCKER_HOST"
}

// search gives the address of the first usual socket that exists, or an error
// that names every place tried.
func (env environment) search() (string, error) {
	tried := []string{"DOCKER_HOST (not set)"}
	for _, path := range env.usualSockets() {
		info, err := env.stat(path)
		switch {
		case err == nil && info.Mode()&fs.ModeSocket != 0:
			return "unix://" + path, nil
		case err == nil:
			tried = append(tried, path+" (not a socket)")
		case errors.Is(err, fs.ErrNotExist):
			tried = append(tried, path+" (absent)")
		default:
			tried = append(tried, path+" ("+clip(bare(err).Error())+")")
		}
	}
	if env.getenv("XDG_RUNTIME_DIR") == "" {
		tried = append(tried, "XDG_RUNTIME_DIR (not set)")
	}
	return "", fmt.Errorf("no Docker or Podman socket found: tried host (not set), %s: %w",
		strings.Join(tried, ", "), providers.ErrUnavailable)
}

// bare takes the path off a file error whose path is told already.
func bare(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// checkAddress refuses an address that could never work.
func checkAddress(address, origin string) error {
	scheme, rest, found := strings.Cut(address, "://")
	switch {
	case !found && strings.HasPrefix(address, "/"):
		return fmt.Errorf("%s: %q has no scheme: write unix://%s", origin, address, address)
	case !found:
		return fmt.Errorf("%s: %q has no scheme: write unix:///path/to/docker.sock or tcp://host:port", origin, address)
	case scheme == "ssh":
		return fmt.Errorf("%s: %q: ssh:// is not supported: forward the socket (ssh -L) and write unix:///path/to/docker.sock", origin, address)
	case scheme != "unix" && scheme != "tcp":
		return fmt.Errorf("%s: %q: scheme %q is not supported: write unix:///path/to/docker.sock or tcp://host:port", origin, address, scheme)
	case rest == "":
		return fmt.Errorf("%s: %q names no place: write unix:///path/to/docker.sock or tcp://host:port", origin, address)
	case scheme == "unix" && !filepath.IsAbs(rest):
		return fmt.Errorf("%s: %q: the path of a socket starts with a slash: write unix:///path/to/docker.sock", origin, address)
	}
	return nil
}

// detect says whether an engine seems to be here, for a configuration that
// names no provider.
func detect(getenv func(string) string) bool {
	env := hostEnvironment()
	env.getenv = getenv
	if address, _ := env.explicit(""); address != "" {
		return true
	}
	_, err := env.search()
	return err == nil
}
