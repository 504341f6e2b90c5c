package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait: how long something may take on a loaded machine,
// not how long it should.
const patience = 90 * time.Second

// binary builds reaperd once, as make build does, and gives its path.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "reaperd-test-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for children of other users
		return "", err
	}
	// It sees its input end with this process, however that ends.
	sweeper := exec.Command("sh", "-c", `cat >/dev/null; rm -rf "$1"`, "sh", dir)
	sweeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if held, err = sweeper.StdinPipe(); err != nil {
		return "", err
	}
	if err := sweeper.Start(); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "reaperd")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

// held stays open for as long as the binary is needed.
var held io.Closer

// spawned is a reaperd in a process of its own.
type spawned struct {
	*exec.Cmd
	out, errs output
	exited    chan struct{} // closed once it has ended and said all
}

// start runs the binary with an environment that holds the search path and what
// environ adds. It is killed when the test ends, if it still runs. adjust may
// be nil.
func start(t testing.TB, environ []string, adjust func(*exec.Cmd), args ...string) *spawned {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatalf("build reaperd: %v", err)
	}
	c := &spawned{Cmd: exec.Command(path, args...), exited: make(chan struct{})}
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, environ...)
	c.Stdout, c.Stderr = &c.out, &c.errs
	if adjust != nil {
		adjust(c.Cmd)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.exited)
		_ = c.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-c.exited
		if t.Failed() {
			t.Logf("reaperd %v said\n%s%s", args, c.out.String(), c.errs.String())
		}
	})
	return c
}

// signal sends it a signal.
func (c *spawned) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := c.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}

// wait waits for its end and gives its exit code; -1 if a signal ended it.
func (c *spawned) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-c.exited:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	return c.ProcessState.ExitCode()
}

// ended says whether it has ended already.
func (c *spawned) ended() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// output is what a child says, readable while it does.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ io.Writer = (*output)(nil)

// Write takes in what the child says.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String gives what was said so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// until waits for a condition.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		case <-tick.C:
		}
	}
}

// dialSocket reaches whoever listens on a unix socket, whatever the address.
func dialSocket(path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}

// fetch gives a page's body.
func fetch(t testing.TB, client *http.Client, url string) string {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", url, resp.Status, err, b)
	}
	return string(b)
}
