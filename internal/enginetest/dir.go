package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// dirPrefix marks an engine's folder. Paths of unix sockets must stay under
// 108 bytes, so it lies right under the folder for temporary files.
const dirPrefix = "reaperd-engine-"

// dir is the folder in which one engine keeps everything it has.
type dir struct {
	root string
	// lock is held by this process and, through an inherited descriptor, by
	// dockerd and what it starts: a folder whose lock is free is abandoned.
	lock *os.File
}

func tempRoot() string {
	if root := os.TempDir(); len(root) <= 32 {
		return root
	}
	return "/tmp"
}

func newDir() (*dir, error) {
	root, err := os.MkdirTemp(tempRoot(), dirPrefix)
	if err != nil {
		return nil, err
	}
	d := &dir{root: root}
	// Others may reach the socket's folder, to be refused by the socket itself.
	if err := os.Chmod(root, 0o711); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	// Locked before it has the name that sweep looks for.
	if d.lock, err = lockFile(d.path("lock.new"), os.O_CREATE); err == nil {
		err = os.Rename(d.path("lock.new"), d.path("lock"))
	}
	if err != nil {
		return nil, errors.Join(err, d.remove())
	}
	return d, nil
}

func (d *dir) path(name string) string { return filepath.Join(d.root, name) }

func (d *dir) logTail() string {
	b, err := os.ReadFile(d.path("log"))
	if err != nil {
		return err.Error()
	}
	return tail(b, 20)
}

// remove unmounts what is mounted below the folder and deletes it.
func (d *dir) remove() error {
	if d.lock != nil {
		_ = d.lock.Close()
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var below []string
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], d.root+"/") {
			below = append(below, f[4])
		}
	}
	slices.Reverse(below) // later mounts may lie on earlier ones
	for _, m := range below {
		if err := unmount(m); err != nil {
			return fmt.Errorf("unmount %s: %w", m, err)
		}
	}
	d.clearControlGroups()
	return os.RemoveAll(d.root)
}

// containers gives the ids of those whose files the folder holds.
func (d *dir) containers() []string {
	var ids []string
	for _, of := range []string{"data/containers/*", "data/*-containers/*"} { // Docker's, Podman's
		found, _ := filepath.Glob(d.path(of))
		for _, path := range found {
			ids = append(ids, filepath.Base(path))
		}
	}
	return ids
}

// killOrphans ends what a killed dockerd left running: its containerd and
// shims, known by the folder in their command line, and its containers, known
// by their ids in the names of their control groups.
func (d *dir) killOrphans() {
	containers := d.containers()
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		cmdline, _ := os.ReadFile(p + "/cmdline")
		cgroup, _ := os.ReadFile(p + "/cgroup")
		ours := bytes.Contains(cmdline, []byte(d.root+"/")) ||
			slices.ContainsFunc(containers, func(c string) bool {
				return bytes.Contains(cgroup, []byte(c))
			})
		pid, err := strconv.Atoi(filepath.Base(p))
		if ours && err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// sweep deletes the folders of engines whose test binaries were killed.
func sweep() {
	found, _ := filepath.Glob(filepath.Join(tempRoot(), dirPrefix+"*"))
	for _, root := range found {
		d := &dir{root: root}
		lock, err := lockFile(d.path("lock"), 0)
		if err != nil {
			continue // somebody uses it, or is just making it
		}
		d.lock = lock
		_ = d.remove()
	}
}

func lockFile(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
