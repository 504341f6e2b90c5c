package enginetest

import "syscall"

// diesWithUs has the kernel send the process SIGTERM when the thread that
// started it ends, and keeps it out of the terminal's signals.
func diesWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// inItsOwnWorld gives the process PID, mount and network namespaces of its own
// with it as their init, so that the kernel ends with it whatever it started
// and mounted.
func inItsOwnWorld() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Unshareflags: syscall.CLONE_NEWNS, // which Go also makes private
	}
}

func unmount(path string) error { return syscall.Unmount(path, syscall.MNT_DETACH) }

// onOverlay says whether the folder lies on an overlay file system, as in a
// container, on which no other one can be mounted.
func onOverlay(folder string) bool {
	const overlay = 0x794c7630
	var fs syscall.Statfs_t
	return syscall.Statfs(folder, &fs) == nil && fs.Type == overlay
}
