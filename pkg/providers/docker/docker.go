// Package docker is the kind for Docker engines, and for Podman through its
// Docker-compatible socket. What it knows of the wire is from the Docker Engine
// API's reference (docs.docker.com/reference/api/engine) and from trials on
// Docker Engine 20.10 and Podman 4.3.1.
package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/api/types/system"

	"github.com/reaperd/reaperd/pkg/providers"
)

// Name is what `kind:` says in the configuration.
const Name = "docker"

// Settings are the kind's own keys in the configuration. At most one of Host
// and Context names the engine. With neither it is the one that docker's
// command line would use, or the first of the usual sockets that exists.
type Settings struct {
	// Host is the engine's address.
	Host string `yaml:"host" doc:"unix:///path, tcp://host:port or ssh://[user@]host[:port][/path]"`
	// Context names a docker context.
	Context string `yaml:"context" doc:"a docker context by name, in place of host"`
	// CAFile, CertFile and KeyFile are absolute paths of PEM files, for a Host
	// with tcp://. They are read for each new connection.
	CAFile   string `yaml:"ca_file" doc:"with tcp://: who signed the engine's certificate; without it, those whom the system trusts"`
	CertFile string `yaml:"cert_file" doc:"with tcp://: reaperd's own certificate"`
	KeyFile  string `yaml:"key_file" doc:"the key of cert_file"`
}

// check refuses settings that contradict each other.
func (s Settings) check() error {
	if s.Host != "" && s.Context != "" {
		return errors.New("context: host names the engine already: keep one of the two")
	}
	for _, f := range []struct{ key, path string }{{"ca_file", s.CAFile}, {"cert_file", s.CertFile}, {"key_file", s.KeyFile}} {
		switch {
		case f.path == "":
		case s.Context != "":
			return fmt.Errorf("%s: is only for a host with tcp://, a context brings its own", f.key)
		case !strings.HasPrefix(s.Host, "tcp://"):
			return fmt.Errorf("%s: is only for a host with tcp://", f.key)
		case !filepath.IsAbs(f.path):
			return fmt.Errorf("%s: want an absolute path, found %q", f.key, f.path)
		}
	}
	switch {
	case s.CertFile != "" && s.KeyFile == "":
		return errors.New("cert_file: needs its key: set key_file too")
	case s.CertFile == "" && s.KeyFile != "":
		return errors.New("key_file: needs its certificate: set cert_file too")
	}
	return nil
}

// Kind describes the kind to the registry.
func Kind() providers.Kind {
	k := providers.Define(Name, stopsAtOnce, Settings{},
		func(name string, s Settings) (providers.Provider, error) { return New(name, s) }, detect)
	k.Pauses, k.TellsActivity = true, true
	return k
}

// How many calls of a sort go to one engine at once. Docker 20.10 removes
// about twenty containers a second however many are asked for side by side, and
// can deadlock for good under sixteen (github.com/moby/libnetwork/issues/2649),
// so removals stay far below that. Stops mostly wait for the sandbox itself.
const (
	inspectsAtOnce = 8
	stopsAtOnce    = 16
	removesAtOnce  = 4
)

// deadlines bound single calls, inside whatever the caller's context allows.
type deadlines struct {
	list    time.Duration // a list, where the caller gave no deadline
	inspect time.Duration // an inspect for List: one wedged container must not hold the rest
	get     time.Duration // an inspect for Get and Stop, where the caller gave no deadline
	change  time.Duration // update, pause and unpause, which are quick
	margin  time.Duration // how much longer than the grace a stop may take
	kill    time.Duration
	remove  time.Duration
	info    time.Duration
	probe   time.Duration // a probe, where the caller gave no deadline
	sample  time.Duration // all calls for one sample of activity
	blind   time.Duration // how long List does not ask again for one that could not be read
}

var defaultDeadlines = deadlines{
	list: 30 * time.Second, inspect: 5 * time.Second, get: 10 * time.Second, change: 5 * time.Second,
	margin: 10 * time.Second, kill: 5 * time.Second, remove: 30 * time.Second, info: 10 * time.Second,
	probe: 2 * time.Second, sample: 5 * time.Second, blind: time.Minute,
}

// Provider is one Docker engine.
type Provider struct {
	name      string
	conn      *connection
	inventory inventory
	activity  activity
	self      self
	deadlines deadlines
	now       func() time.Time // for how long a container stays unread or idle, and for skew

	stops, removes slots
}

// New gives a provider for the engine that s names. It looks at addresses only:
// an engine that is not there is an error of the calls.
func New(name string, s Settings) (*Provider, error) { return open(name, s, hostEnvironment()) }

func open(name string, s Settings, env environment) (*Provider, error) {
	conn, err := newConnection(s, env)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		name:      name,
		conn:      conn,
		inventory: newInventory(),
		activity:  newActivity(),
		self:      newSelf(os.DirFS("/proc/self"), env.hostname),
		deadlines: defaultDeadlines,
		now:       time.Now,
		stops:     make(slots, stopsAtOnce),
		removes:   make(slots, removesAtOnce),
	}
	conn.now = func() time.Time { return p.now() }
	return p, nil
}

// Identity tells engines apart by what GET /info says: its id alone would not
// do, since Docker 20.10 reads that from a file in /etc/docker, which several
// engines of one machine share and cloned machines take with them. Podman 4.3.1
// makes up a new id for every answer, so it is known by the machine instead. It
// is an error where an engine has no id.
func (p *Provider) Identity(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.deadlines.info)
	defer cancel()
	ask := func(ctx context.Context, e *liveClient) (system.Info, error) { return e.Info(ctx) }
	info, err := call(ctx, p.conn, ask)
	if err != nil {
		return "", fmt.Errorf("ask for the engine's id: %w", err.translated())
	}
	if info.ID == "" {
		return "", fmt.Errorf("the engine at %s has no id of its own: %w", p.conn.where(), providers.ErrUnsupported)
	}
	again, err := call(ctx, p.conn, ask)
	if err != nil {
		return "", fmt.Errorf("ask again for the engine's id: %w", err.translated())
	}
	if again.ID != info.ID {
		info.ID = fmt.Sprintf("Linux %s, %d bytes", info.KernelVersion, info.MemTotal)
	}
	return strings.Join([]string{Name, info.ID, info.Name, info.DockerRootDir}, "|"), nil
}

// Close gives back idle connections and ends each Watch. Calls after it work
// and open new ones.
func (p *Provider) Close() error { return p.conn.close() }

// slots bound how many calls of a sort are made at once.
type slots chan struct{}

// take waits for a slot; the caller gives it back with free.
func (s slots) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slots) free() { <-s }

// orElse gives ctx a deadline if it has none.
func orElse(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}
