package process

import (
	"syscall"
	"time"
	"unsafe"
)

// loopers is how long anything that multiplies goes on at most.
const loopers = 20 * time.Second

// late is what a looper says that nobody has stopped.
var late = [...]byte{'l', 'a', 't', 'e', '\n'}

// chain forks a child and ends, and so does the child, as fast as it can. It
// makes raw system calls only: after a fork without exec the Go runtime is not
// there any more. It ends with its lifeline, and after a while by itself.
//
//go:norace
//go:nosplit
func chain() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_FCNTL, lifeline, syscall.F_SETFL, syscall.O_NONBLOCK)
	var b byte
	var began, now syscall.Timespec
	const monotonic = 1
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&began)), 0)
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&now)), 0)
		_, _, e := syscall.RawSyscall(syscall.SYS_READ, lifeline, uintptr(unsafe.Pointer(&b)), 1)
		pid := uintptr(1)
		if now.Sec-began.Sec >= int64(loopers/time.Second) {
			_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&late)), uintptr(len(late)))
		} else if e == syscall.EAGAIN {
			pid, _, _ = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		}
		if pid != 0 { // the parent, or a fork that failed
			_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
}
