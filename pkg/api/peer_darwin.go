package api

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// peerUID gives the user who connected, as the kernel knows it.
func peerUID(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Xucred
	controlled := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	if err := errors.Join(controlled, err); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}
