// Package enginetest gives tests engines of their own: a real dockerd and a real
// Podman, on sockets in temporary folders, started without systemd, that die
// with the test binary. No test ever reaches an engine that it did not start.
package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"
)

// patience bounds every wait for an engine: how long one may take on a loaded
// machine, not how long it should.
const patience = 60 * time.Second

// kind is a sort of engine.
type kind struct {
	name    string
	program func() (string, error)
	// command says how to run it on that folder.
	command func(binary string, d *dir) (*exec.Cmd, error)
	orphans bool // what it started may outlive it when it is killed
}

var docker = kind{
	name:    "dockerd",
	program: func() (string, error) { return program("dockerd") },
	command: dockerCommand,
	orphans: true,
}

// Engine is one private engine. Start and Shared give a dockerd that answers,
// StartPodman and SharedPodman a Podman.
type Engine struct {
	kind kind
	dir  *dir
	cli  *client.Client
	slot chan struct{} // removals at once; more than a few can deadlock Docker 20.10

	mu   sync.Mutex
	proc *process
}

// Start gives an engine that belongs to this test alone, for tests that
// restart it or count everything on it. It is gone when the test ends.
func Start(tb testing.TB) *Engine {
	tb.Helper()
	return startFor(tb, docker)
}

func startFor(tb testing.TB, k kind) *Engine {
	tb.Helper()
	need(tb, k)
	e, err := start(k)
	if err != nil {
		tb.Fatalf("start an engine: %v", err)
	}
	tb.Cleanup(func() {
		if err := e.close(); err != nil {
			tb.Errorf("stop the engine: %v", err)
		}
	})
	return e
}

// Host is the engine's address, unix://….
func (e *Engine) Host() string { return "unix://" + e.Socket() }

// Socket is the path of the engine's socket.
func (e *Engine) Socket() string { return e.dir.path("docker.sock") }

// PID is dockerd's process id, which changes with Restart, and that of the
// process on which the whole of a Podman hangs.
func (e *Engine) PID() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.proc.cmd.Process.Pid
}

// Client gives a client of the engine that is closed when the test ends.
func (e *Engine) Client(tb testing.TB) *client.Client {
	tb.Helper()
	cli, err := open(e.Host())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = cli.Close() })
	return cli
}

// Restart stops dockerd as a reboot would, containers included, and starts it
// again on the same data. Podman's containers outlive it.
func (e *Engine) Restart(tb testing.TB) {
	tb.Helper()
	e.Down(tb)
	e.Up(tb)
}

// Down stops the engine and leaves its data. The socket goes with it.
func (e *Engine) Down(tb testing.TB) {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.down(); err != nil {
		tb.Fatalf("stop the engine: %v", err)
	}
}

func (e *Engine) down() error {
	if e.proc.commands == nil {
		return e.proc.stop(e)
	}
	if _, err := io.WriteString(e.proc.commands, "down\n"); err != nil {
		return err
	}
	return e.eventually(false)
}

// Up starts the engine after Down.
func (e *Engine) Up(tb testing.TB) {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.up(); err != nil {
		tb.Fatalf("start the engine again: %v", err)
	}
}

// up starts the engine's process, unless only its service was stopped, and
// waits until the engine answers.
func (e *Engine) up() (err error) {
	if e.proc == nil || e.proc.commands == nil {
		if e.proc, err = launch(e.kind, e.dir); err != nil {
			return err
		}
	}
	if e.proc.commands != nil {
		if _, err := io.WriteString(e.proc.commands, "up\n"); err != nil {
			return err
		}
	}
	return e.eventually(true)
}

func open(host string) (*client.Client, error) {
	return client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
}

func start(k kind) (*Engine, error) {
	sweep()
	d, err := newDir()
	if err != nil {
		return nil, err
	}
	e := &Engine{kind: k, dir: d, slot: make(chan struct{}, 4)}
	if e.cli, err = open(e.Host()); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	if err = e.up(); e.proc == nil {
		return nil, errors.Join(err, d.remove())
	}
	if err == nil {
		err = e.importShell()
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// eventually waits until the engine answers, or until it does not any more.
func (e *Engine) eventually(answers bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := e.cli.Ping(ctx)
		if (err == nil) == answers {
			return nil
		}
		select {
		case <-e.proc.exited:
			return fmt.Errorf("%s ended: %w; its last words:\n%s", e.kind.name, e.proc.err, e.dir.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer, or does not cease to: %w; its last words:\n%s", e.kind.name, err, e.dir.logTail())
		case <-tick.C:
		}
	}
}

func (e *Engine) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removeAll()
	_ = e.cli.Close()
	return errors.Join(e.proc.stop(e), e.dir.remove())
}

// process is a running engine and the goroutine that waits for it.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // how it ended; read after exited is closed
	// commands is what a Podman's supervisor obeys, and dies without.
	commands io.WriteCloser
}

// launch starts an engine on d. When this process dies, however it dies, the
// kernel sends dockerd the signal on which it stops its containers and its
// containerd, and a Podman's supervisor SIGKILL. That signal is tied to the
// thread that forked, so the thread is kept for as long as the engine lives.
func launch(k kind, d *dir) (*process, error) {
	binary, err := k.program()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(d.path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd, err := k.command(binary, d)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{d.lock}

	p := &process{cmd: cmd, exited: make(chan struct{})}
	if k.name == podman.name {
		if p.commands, err = cmd.StdinPipe(); err != nil {
			return nil, err
		}
	}
	began := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		began <- err
		if err == nil {
			if p.err = cmd.Wait(); p.err == nil {
				p.err = errors.New("exit status 0")
			}
			close(p.exited)
		}
	}()
	if err := <-began; err != nil {
		return nil, err
	}
	return p, nil
}

func dockerCommand(binary string, d *dir) (*exec.Cmd, error) {
	cmd := exec.Command(binary,
		"--config-file", d.path("daemon.json"),
		"--host", "unix://"+d.path("docker.sock"),
		"--data-root", d.path("data"),
		"--exec-root", d.path("exec"),
		"--pidfile", d.path("pid"),
		"--bridge=none", "--iptables=false", "--ip-masq=false",
		"--shutdown-timeout=2")
	cmd.SysProcAttr = diesWithUs()
	// Keeps the machine's own /etc/docker/daemon.json out of it.
	return cmd, os.WriteFile(d.path("daemon.json"), []byte("{}\n"), 0o600)
}

// stop asks the engine to end, and ends what it started if it does not.
func (p *process) stop(e *Engine) error {
	if p.commands != nil {
		_ = p.commands.Close()
	} else {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(patience):
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
	if e.kind.orphans {
		e.dir.killOrphans()
	}
	return fmt.Errorf("%s did not end in %v when it was asked to and was killed; its last words:\n%s", e.kind.name, patience, e.dir.logTail())
}

// program finds an engine's program.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, folder := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s is installed", name)
}

// tail gives the last lines of b.
func tail(b []byte, lines int) string {
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
