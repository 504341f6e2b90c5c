package enginetest

import "syscall"

// diesWithUs has the kernel send the process SIGTERM when the thread that
// started it ends, and keeps it out of the terminal's signals.
func diesWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

func unmount(path string) error { return syscall.Unmount(path, syscall.MNT_DETACH) }
