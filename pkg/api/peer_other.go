//go:build !linux && !darwin

package api

import (
	"errors"
	"net"
)

func peerUID(*net.UnixConn) (uint32, error) { return 0, errors.ErrUnsupported }
