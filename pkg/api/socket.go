package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// SocketOptions says where a unix socket is and who may connect to it. Whoever
// may, may change everything.
type SocketOptions struct {
	Path string
	Mode fs.FileMode
	// Group is the name or number of the group that it is given to; "" leaves
	// it with the daemon's own.
	Group string
	// Instead is the server whose socket may be replaced although it answers.
	Instead *Server
}

// ListenSocket makes the socket, and its folder if that is missing; Serve then
// answers on it. A socket that nobody answers on is left over, and replaced.
func ListenSocket(ctx context.Context, so SocketOptions, o Options) (*Server, error) {
	l, file, err := bind(ctx, so)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", so.Path, err)
	}
	s := newServer(l, o)
	s.addr, s.socket = so.Path, file
	s.http.ConnContext = withPeer
	return s, nil
}

// bind makes the socket in a folder of its own, which is closed to others, and
// moves it to its place when it has its mode and group.
func bind(ctx context.Context, so SocketOptions) (_ net.Listener, _ *socketFile, err error) {
	gid, err := groupID(so.Group)
	if err != nil {
		return nil, nil, err
	}
	folder := filepath.Dir(so.Path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, nil, err
	}
	if err := vacant(ctx, so); err != nil {
		return nil, nil, err
	}
	closed, err := os.MkdirTemp(folder, ".r")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(closed)) }()
	made := filepath.Join(closed, "s")
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", made)
	if errors.Is(err, syscall.EINVAL) {
		err = fmt.Errorf("the path has %d bytes, too many for a socket: write a shorter one", len(so.Path))
	}
	if err != nil {
		return nil, nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // it would go by the name that it was made under
	}
	info, err := place(made, gid, so)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, &socketFile{so.Path, info}, nil
}

func place(made string, gid int, so SocketOptions) (fs.FileInfo, error) {
	if gid >= 0 {
		if err := os.Chown(made, -1, gid); err != nil {
			return nil, fmt.Errorf("give it to group %s: %w", so.Group, err)
		}
	}
	if err := os.Chmod(made, so.Mode.Perm()); err != nil {
		return nil, err
	}
	info, err := os.Lstat(made)
	if err != nil {
		return nil, err
	}
	return info, os.Rename(made, so.Path)
}

// askFor is for how long whoever has the socket is given to take a connection.
const askFor = 2 * time.Second

// vacant says why a socket cannot be put at the path: because there is
// something else, or somebody who answers.
func vacant(ctx context.Context, so SocketOptions) error {
	info, err := os.Lstat(so.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is something else, which is no socket: move it away or write another path")
	case so.Instead != nil && so.Instead.socket != nil && os.SameFile(info, so.Instead.socket.info):
		return nil
	}
	d := net.Dialer{Timeout: askFor}
	c, err := d.DialContext(ctx, "unix", so.Path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("another reaperd answers on %s", so.Path), c.Close())
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("it cannot be told whether another reaperd answers: %w", err)
	}
}

// groupID gives the number of a group, -1 for none.
func groupID(group string) (int, error) {
	if group == "" {
		return -1, nil
	}
	if gid, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(gid), nil
	}
	g, err := user.LookupGroup(group)
	if _, unknown := errors.AsType[user.UnknownGroupError](err); unknown {
		return 0, fmt.Errorf("there is no group %q on this machine: write the name or number of one", group)
	}
	if err != nil {
		return 0, fmt.Errorf("look up group %q: %w", group, err)
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return 0, fmt.Errorf("look up group %q: %w", group, err)
	}
	return gid, nil
}

// socketFile is the file of a socket, to know it again.
type socketFile struct {
	path string
	info fs.FileInfo
}

// remove removes the file unless another has taken its place.
func (f *socketFile) remove() error {
	if f == nil {
		return nil
	}
	there, err := os.Lstat(f.path)
	if err != nil || !os.SameFile(there, f.info) {
		return nil
	}
	return os.Remove(f.path)
}

// peer is the key under which the context of a request over a unix socket has
// who makes it.
type peer struct{}

// withPeer notes who connected. That they could is the right to change.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	by := "socket"
	if u, ok := c.(*net.UnixConn); ok {
		if uid, err := peerUID(u); err == nil {
			by = fmt.Sprintf("uid %d", uid)
		}
	}
	return context.WithValue(ctx, peer{}, by)
}
