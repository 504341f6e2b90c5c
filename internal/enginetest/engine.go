// Package enginetest gives tests a Docker engine of their own: a real dockerd
// on a socket in a temporary folder, started without systemd, that dies with
// the test binary. No test ever reaches an engine that it did not start.
package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// Engine is one private dockerd. Start and Shared give one that answers.
type Engine struct {
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
	need(tb)
	e, err := start()
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

// PID is dockerd's process id. It changes with Restart.
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
// again on the same data.
func (e *Engine) Restart(tb testing.TB) {
	tb.Helper()
	e.Down(tb)
	e.Up(tb)
}

// Down stops dockerd and leaves its data. The socket goes with it.
func (e *Engine) Down(tb testing.TB) {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.proc.stop(e.dir); err != nil {
		tb.Fatalf("stop the engine: %v", err)
	}
}

// Up starts dockerd after Down.
func (e *Engine) Up(tb testing.TB) {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	var err error
	if e.proc, err = launch(e.dir); err == nil {
		err = e.answers()
	}
	if err != nil {
		tb.Fatalf("start the engine again: %v", err)
	}
}

func open(host string) (*client.Client, error) {
	return client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
}

func start() (*Engine, error) {
	sweep()
	d, err := newDir()
	if err != nil {
		return nil, err
	}
	e := &Engine{dir: d, slot: make(chan struct{}, 4)}
	if e.cli, err = open(e.Host()); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	if e.proc, err = launch(d); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	err = e.answers()
	if err == nil {
		err = e.importShell()
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// answers waits until the engine does.
func (e *Engine) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := e.cli.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-e.proc.exited:
			return fmt.Errorf("dockerd ended: %w; its last words:\n%s", e.proc.err, e.dir.logTail())
		case <-ctx.Done():
			return fmt.Errorf("dockerd does not answer: %w; its last words:\n%s", err, e.dir.logTail())
		case <-tick.C:
		}
	}
}

func (e *Engine) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removeAll()
	_ = e.cli.Close()
	return errors.Join(e.proc.stop(e.dir), e.dir.remove())
}

// process is a running dockerd and the goroutine that waits for it.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // how it ended; read after exited is closed
}

// launch starts dockerd on d. When this process dies, however it dies, the
// kernel sends dockerd the signal on which it stops its containers and its
// containerd. That signal is tied to the thread that forked, so the thread is
// kept for as long as dockerd lives.
func launch(d *dir) (*process, error) {
	binary, err := dockerd()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(d.path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(binary,
		"--config-file", d.path("daemon.json"),
		"--host", "unix://"+d.path("docker.sock"),
		"--data-root", d.path("data"),
		"--exec-root", d.path("exec"),
		"--pidfile", d.path("pid"),
		"--bridge=none", "--iptables=false", "--ip-masq=false",
		"--shutdown-timeout=2")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{d.lock}
	cmd.SysProcAttr = diesWithUs()

	p := &process{cmd: cmd, exited: make(chan struct{})}
	began := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		began <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-began; err != nil {
		return nil, err
	}
	return p, nil
}

// stop asks dockerd to end, and ends what it started if it does not.
func (p *process) stop(d *dir) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	select {
	case <-p.exited:
		return nil
	case <-time.After(patience):
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
	d.killOrphans()
	return fmt.Errorf("dockerd did not end in %v after SIGTERM and was killed; its last words:\n%s", patience, d.logTail())
}

func dockerd() (string, error) {
	if path, err := exec.LookPath("dockerd"); err == nil {
		return path, nil
	}
	for _, folder := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(folder, "dockerd")); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no dockerd is installed")
}

// tail gives the last lines of b.
func tail(b []byte, lines int) string {
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
