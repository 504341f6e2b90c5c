package process

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// pids goes through the process ids in /proc in their order, one at a time: a
// process that is born while an earlier one is looked at is still on the list.
// With a whole buffer at once the list would end where it was when it was read,
// and what forks and exits in a loop lives only there.
type pids struct {
	dir   int
	one   [32]byte  // room for one id
	more  [512]byte // for the names in /proc that are longer
	names []string
}

func openPIDs() (*pids, error) {
	dir, err := retry(func() (int, error) {
		return unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, unavailable(err)
	}
	return &pids{dir: dir}, nil
}

func (p *pids) close() { _ = unix.Close(p.dir) }

// next gives the next id, and 0 at the end.
func (p *pids) next() (int, error) {
	for {
		for len(p.names) > 0 {
			name := p.names[0]
			p.names = p.names[1:]
			if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
				return pid, nil
			}
		}
		n, err := p.read(p.one[:])
		if errors.Is(err, unix.EINVAL) { // it does not fit
			n, err = p.read(p.more[:])
		}
		if err != nil {
			return 0, unavailable(err)
		}
		if n == 0 {
			return 0, nil
		}
	}
}

func (p *pids) read(buf []byte) (int, error) {
	n, err := retry(func() (int, error) { return unix.ReadDirent(p.dir, buf) })
	if err == nil {
		_, _, p.names = unix.ParseDirent(buf[:n], -1, p.names[:0])
	}
	return n, err
}
