//go:build !linux

package enginetest

import (
	"errors"
	"syscall"
)

// Engines run on Linux only; this lets the rest of a package's tests compile.
func diesWithUs() *syscall.SysProcAttr { return nil }

func inItsOwnWorld() *syscall.SysProcAttr { return nil }

func unmount(string) error { return errors.ErrUnsupported }

func onOverlay(string) bool { return false }
