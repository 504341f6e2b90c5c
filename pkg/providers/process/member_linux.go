package process

import (
	"cmp"
	"errors"
	"path"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process tells one process from every other of this boot: pids are used
// again, and not within one tick.
type process struct {
	start uint64
	pid   int
}

// compare orders by age.
func (p process) compare(q process) int {
	return cmp.Or(cmp.Compare(p.start, q.start), cmp.Compare(p.pid, q.pid))
}

// member is one process of a sandbox.
type member struct {
	process
	key     key
	tags    string // REAPERD_TAGS
	comm    string
	stopped bool
}

// errUnclear says that a process has an environment which cannot be made out.
var errUnclear = errors.New("environment cannot be made out")

const (
	// maxEnviron is more than the kernel lets a program be started with (6 MiB
	// of arguments and environment).
	maxEnviron = 8 << 20
	// The kernel hands over less than was asked for only at the end.
	firstRead = 64 << 10
	// settle is how often an environment that is empty in mid-exec is read.
	settle = 50
)

// reader reads the files of /proc into one buffer: what it gives is valid
// until the next call.
type reader struct{ buf []byte }

func (r *reader) file(dirfd int, name string) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	if r.buf == nil {
		r.buf = make([]byte, firstRead)
	}
	for n := 0; ; {
		got, err := retry(func() (int, error) { return unix.Read(fd, r.buf[n:]) })
		if err != nil {
			return nil, err
		}
		if n += got; n < len(r.buf) {
			return r.buf[:n], nil
		}
		if n >= maxEnviron {
			return nil, errUnclear
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
}

func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func (r *reader) stat(dirfd int, dir string) (stat, error) {
	b, err := r.file(dirfd, dir+"stat")
	if err != nil {
		return stat{}, err
	}
	s, err := parseStat(b)
	if err != nil {
		return stat{}, errors.Join(errUnclear, err)
	}
	return s, nil
}

// environ reads the environment a process was started with. Zombies and
// kernel threads have none; a process in the midst of exec shows none for a
// moment and is asked again, so that it cannot slip through.
func (r *reader) environ(dirfd int, dir string) ([]byte, error) {
	for try := range settle {
		b, failed := r.file(dirfd, dir+"environ")
		if failed == nil && len(b) > 0 {
			return b, nil
		}
		denied := errors.Is(failed, unix.EACCES) || errors.Is(failed, unix.EPERM)
		// What has no memory is refused as if it were gone: ask whether it is.
		if failed != nil && !denied && !errors.Is(failed, unix.ESRCH) {
			return nil, failed
		}
		s, err := r.stat(dirfd, dir)
		switch {
		case err != nil:
			return nil, err
		case s.dead() && s.state != 'Z':
			return nil, unix.ESRCH // it ends under our eyes
		case s.dead(), s.kernel():
			return nil, nil
		case denied:
			return nil, failed
		case s.environEnd != 0 && s.environEnd <= s.environStart:
			return nil, nil
		case s.environEnd != 0 && try > settle/2:
			return nil, errUnclear // not in exec: it took the memory away
		case try > settle/2:
			<-time.After(time.Millisecond)
		default:
			runtime.Gosched()
		}
	}
	return nil, errUnclear
}

// sandbox gives the id in the environment of a process; "" if there is none.
func (r *reader) sandbox(dirfd int, dir string) (string, error) {
	block, err := r.environ(dirfd, dir)
	if err != nil {
		return "", err
	}
	id, ok := lookup(block, sandboxVariable)
	if !ok || !validID(string(id)) {
		return "", nil
	}
	return string(id), nil
}

// member reads what a process of a sandbox is. It is not ok for one that
// carries no sandbox, has ended, or lives in another PID namespace than space:
// that one is a container's, whose engine's kind takes care of it. Everything
// is read through one descriptor of the process's folder, which outlives no
// process: it cannot come to show another of the same pid.
func (r *reader) member(pid int, dir, space string) (m member, ok bool, err error) {
	dirfd, err := retry(func() (int, error) {
		return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return member{}, false, err
	}
	defer func() { _ = unix.Close(dirfd) }()

	block, err := r.environ(dirfd, "")
	if err != nil {
		return member{}, false, err
	}
	id, ok := lookup(block, sandboxVariable)
	if !ok || !validID(string(id)) {
		return member{}, false, nil
	}
	m.key.id = string(id)
	tags, _ := lookup(block, tagsVariable)
	m.tags = string(tags)

	theirs, err := readlink(dirfd, "ns/pid")
	if err != nil || theirs != space {
		return member{}, false, err
	}
	status, err := r.file(dirfd, "status")
	if err != nil {
		return member{}, false, err
	}
	if m.key.uid, ok = parseRealUID(status); !ok {
		return member{}, false, errUnclear
	}
	s, err := r.stat(dirfd, "")
	if err != nil || s.dead() {
		return member{}, false, err
	}
	m.process = process{start: s.start, pid: pid}
	m.comm, m.stopped = s.comm, s.stopped()
	return m, true, nil
}

// image is the base name of what the process runs; its own name for itself
// where that cannot be read.
func (m *member) image(dir string) string {
	exe, err := readlink(unix.AT_FDCWD, dir+"/exe")
	if err != nil {
		return m.comm
	}
	return path.Base(strings.TrimSuffix(exe, " (deleted)"))
}

func readlink(dirfd int, name string) (string, error) {
	var b [unix.PathMax]byte
	n, err := retry(func() (int, error) { return unix.Readlinkat(dirfd, name, b[:]) })
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}
