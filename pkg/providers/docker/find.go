package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/cli/cli/connhelper/ssh"

	"github.com/reaperd/reaperd/pkg/providers"
)

// place is where an engine is and how it proves there that it is the one.
type place struct {
	address string    // unix:///path, tcp://host:port or ssh://[user@]host[:port][/path]
	via     string    // the docker context that says so; "" without
	tls     *tlsFiles // nil: without TLS
}

// String is for people.
func (p place) String() string {
	if p.via != "" {
		return p.address + " (docker context " + p.via + ")"
	}
	return p.address
}

// environment is what finding an engine looks at, apart from the settings and
// the files of docker's command line.
type environment struct {
	getenv   func(string) string
	stat     func(path string) (fs.FileInfo, error)
	hostname func() (string, error)
}

func hostEnvironment() environment {
	return environment{getenv: os.Getenv, stat: os.Stat, hostname: os.Hostname}
}

// chosen gives the place that somebody chose for this very process, in the
// settings or the environment; the zero place if nobody did.
func (env environment) chosen(s Settings) (place, error) {
	if err := s.check(); err != nil {
		return place{}, err
	}
	if s.Host != "" {
		return env.at(s.Host, "host", s.tls())
	}
	if s.Context != "" && s.Context != defaultContext {
		return env.contexts().find(s.Context, "context")
	}
	if host := env.getenv("DOCKER_HOST"); host != "" {
		return env.at(host, "DOCKER_HOST", nil)
	}
	if name := env.getenv("DOCKER_CONTEXT"); name != "" && name != defaultContext && s.Context == "" {
		return env.contexts().find(name, "DOCKER_CONTEXT")
	}
	return place{}, nil
}

// at gives the place at an address. Without TLS files of its own, what is
// reached by TCP takes those of the environment.
func (env environment) at(address, origin string, own *tlsFiles) (place, error) {
	if err := checkAddress(address, origin); err != nil {
		return place{}, err
	}
	p := place{address: address, tls: own}
	if own != nil || !strings.HasPrefix(address, "tcp://") {
		return p, nil
	}
	folder, verify := env.getenv("DOCKER_CERT_PATH"), env.getenv("DOCKER_TLS_VERIFY") != ""
	if folder == "" && verify {
		return place{}, errors.New("DOCKER_TLS_VERIFY is set without DOCKER_CERT_PATH: set it to the folder of ca.pem, cert.pem and key.pem")
	}
	if folder != "" {
		p.tls = tlsIn(folder, "DOCKER_CERT_PATH")
		p.tls.unchecked = !verify
	}
	return p, nil
}

// errNowhere is the error for an engine that nobody chose and that is not in
// the usual places.
var errNowhere = errors.New("no Docker or Podman engine found")

// search gives the place for which docker's command line was set up, else that
// of the first usual socket that exists, or an error that names all that was
// tried. Only the first of these is a choice, and is not passed over when it
// cannot be followed.
func (env environment) search(s Settings) (place, error) {
	tried := []string{"host (not set)", "context (" + saidOr(s.Context, "not set") + ")", "DOCKER_HOST (not set)"}
	fromVariable := env.getenv("DOCKER_CONTEXT")
	tried = append(tried, "DOCKER_CONTEXT ("+saidOr(fromVariable, "not set")+")")
	if s.Context == "" && fromVariable == "" {
		all := env.contexts()
		name, without, err := all.current()
		if err == nil && name != "" {
			var p place
			if p, err = all.find(name, "the current docker context"); err == nil {
				return p, nil
			}
		}
		if err != nil {
			return place{}, fmt.Errorf("%w: %w", err, providers.ErrUnavailable)
		}
		tried = append(tried, "the current docker context ("+without+")")
	}
	for _, path := range env.usualSockets() {
		info, err := env.stat(path)
		switch {
		case err == nil && info.Mode()&fs.ModeSocket != 0:
			return place{address: "unix://" + path}, nil
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
	return place{}, fmt.Errorf("%w: tried %s: %w", errNowhere, strings.Join(tried, ", "), providers.ErrUnavailable)
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

func saidOr(said, otherwise string) string {
	if said != "" {
		return said
	}
	return otherwise
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
	const instead = "write unix:///path/to/docker.sock, tcp://host:port or ssh://user@host"
	scheme, rest, found := strings.Cut(address, "://")
	if u, err := url.Parse(address); err == nil && u.User != nil {
		if _, secret := u.User.Password(); secret || scheme != "ssh" {
			// The address is not repeated: what it should not have may be a secret.
			return fmt.Errorf("%s: an address takes no password, and a user only with ssh://", origin)
		}
	}
	switch {
	case !found && strings.HasPrefix(address, "/"):
		return fmt.Errorf("%s: %q has no scheme: write unix://%s", origin, address, address)
	case !found:
		return fmt.Errorf("%s: %q has no scheme: %s", origin, address, instead)
	case scheme != "unix" && scheme != "tcp" && scheme != "ssh":
		return fmt.Errorf("%s: %q: scheme %q is not supported: %s", origin, address, scheme, instead)
	case rest == "":
		return fmt.Errorf("%s: %q names no place: %s", origin, address, instead)
	case scheme == "unix" && !filepath.IsAbs(rest):
		return fmt.Errorf("%s: %q: the path of a socket starts with a slash: write unix:///path/to/docker.sock", origin, address)
	case scheme == "ssh":
		if _, err := ssh.ParseURL(address); err != nil {
			return fmt.Errorf("%s: %q: %w: write ssh://user@host, ssh://user@host:port or ssh://user@host/path/to/docker.sock", origin, address, err)
		}
	}
	return nil
}

// detect says whether an engine seems to be here, for a configuration that
// names no provider. A choice that cannot be followed counts: it is an error
// that people should see.
func detect(getenv func(string) string) bool {
	env := hostEnvironment()
	env.getenv = getenv
	if p, err := env.chosen(Settings{}); err != nil || p.address != "" {
		return true
	}
	_, err := env.search(Settings{})
	return !errors.Is(err, errNowhere)
}
