package docker

import (
	"context"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/container"
)

// self knows which containers reaperd lives in: its own, and those whose
// network or PID namespace it shares, which would take it down with them.
type self struct {
	candidates func() []string // what may be its own id, the surest first

	turn slots // one caller at a time asks the engine
	mu   sync.Mutex
	done bool // it was found out, whatever the answer
	own  identity
}

// identity is a container with the names of its namespaces: the id of the
// container that a namespace was made for. The zero value is none.
type identity struct{ id, network, pid string }

func newSelf(proc fs.FS, hostname func() (string, error)) self {
	return self{
		turn:       make(slots, 1),
		candidates: sync.OnceValue(func() []string { return candidates(proc, hostname) }),
	}
}

var (
	// Docker mounts files of its own over these three in every container, out
	// of a folder named after it: …/containers/<id>/hostname, and Podman out of
	// …/overlay-containers/<id>/userdata/hostname. On the host such folders are
	// mounted as well, but on other places.
	mountedFiles = map[string]bool{"/etc/hostname": true, "/etc/hosts": true, "/etc/resolv.conf": true}
	folderID     = regexp.MustCompile(`containers/([0-9a-f]{64})/`)
	cgroupID     = regexp.MustCompile(`(?:^|[/-])([0-9a-f]{64})(?:\.scope)?(?:/|$)`)
	shortID      = regexp.MustCompile(`^[0-9a-f]{12}$`)
)

// candidates gives what may be the id of the container that this process runs
// in: from the files that the engine mounts (/proc/self/mountinfo), from the
// control group's path where cgroups v1 or the host's namespace show it
// (/proc/self/cgroup), and the host's name, which is the id's start unless
// somebody chose another.
func candidates(proc fs.FS, hostname func() (string, error)) []string {
	var found []string
	if b, err := fs.ReadFile(proc, "mountinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			// id, parent, device, root within the file system, mount point, …
			if f := strings.Fields(line); len(f) > 4 && mountedFiles[f[4]] {
				if m := folderID.FindStringSubmatch(f[3]); m != nil {
					found = append(found, m[1])
					break
				}
			}
		}
	}
	if b, err := fs.ReadFile(proc, "cgroup"); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
				if m := cgroupID.FindStringSubmatch(f[2]); m != nil {
					found = append(found, m[1])
					break
				}
			}
		}
	}
	if name, err := hostname(); err == nil && shortID.MatchString(name) {
		found = append(found, name)
	}
	return found
}

// find asks the engine once which of the candidates it knows. An error says
// that this is not known yet.
func (s *self) find(ctx context.Context, p *Provider) error {
	if s.found() {
		return nil
	}
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.free()
	if s.found() {
		return nil
	}
	var own identity
	for _, id := range s.candidates() {
		ctx, cancel := context.WithTimeout(ctx, p.deadlines.inspect)
		c, failed := p.rawInspect(ctx, id)
		cancel()
		if failed.is(http.StatusNotFound) {
			continue // it lives in a container of another engine, or in none
		}
		if failed != nil {
			return failed.translated()
		}
		if c.ID == id || shortID.MatchString(id) && strings.HasPrefix(c.ID, id) && c.Config.Hostname == id {
			own = identify(c)
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done, s.own = true, own
	return nil
}

func (s *self) found() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

// isID says whether that id is reaperd's own container, as far as is known.
func (s *self) isID(id string) bool {
	s.mu.Lock()
	own := s.own.id
	s.mu.Unlock()
	if own != "" {
		return own == id
	}
	for _, c := range s.candidates() {
		if c == id {
			return true
		}
	}
	return false
}

// includes says whether stopping the container would stop reaperd or cut it
// off, as far as is known.
func (s *self) includes(c container.InspectResponse) bool {
	if s.isID(c.ID) {
		return true
	}
	s.mu.Lock()
	own := s.own
	s.mu.Unlock()
	if own.id == "" {
		return false
	}
	other := identify(c)
	return other.network != "" && other.network == own.network || other.pid != "" && other.pid == own.pid
}

// identify names a container's namespaces. Those of the host are nobody's.
func identify(c container.InspectResponse) identity {
	id := identity{id: c.ID, network: c.ID, pid: c.ID}
	if c.HostConfig == nil {
		return id
	}
	if n := c.HostConfig.NetworkMode; n.IsContainer() {
		id.network = n.ConnectedContainer()
	} else if n.IsHost() {
		id.network = ""
	}
	if p := c.HostConfig.PidMode; p.IsContainer() {
		id.pid = p.Container()
	} else if p.IsHost() {
		id.pid = ""
	}
	return id
}
