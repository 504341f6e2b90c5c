package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docker/cli/cli/connhelper/ssh"

	"github.com/reaperd/reaperd/pkg/providers"
)

// sshDialer reaches an engine by running `docker system dial-stdio` on its
// machine, one ssh for each connection, as docker's command line does. How an
// address becomes a command is docker's own package. Its connection is not:
// that has no deadlines, shows the whole of what ssh printed, and waits
// without end for a process that ssh left behind.
type sshDialer struct {
	address string
	args    []string
	// logins are those that may still be logging in: sshd begins to refuse
	// some of them at ten (MaxStartups). One that was not heard of for loginTime
	// counts as logged in, since a stop answers only when the grace is over.
	logins    slots
	loginTime time.Duration
}

// loginsAtOnce leaves others a place.
const loginsAtOnce = 6

var sshOptions = []string{
	"-T", "-a", "-x", "-o", "ClearAllForwardings=yes",
	"-o", "BatchMode=yes", // nobody is there to be asked
	"-o", "ConnectTimeout=10",
	"-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3", // a stream of events may be silent for hours
}

func newSSHDialer(address string) (*sshDialer, error) {
	spec, err := ssh.ParseURL(address)
	if err != nil {
		return nil, err
	}
	remote := []string{"docker", "system", "dial-stdio"}
	if strings.Trim(spec.Path, "/") != "" {
		remote = []string{"docker", "--host=unix://" + spec.Path, "system", "dial-stdio"}
	}
	args, err := spec.Command(sshOptions, remote...)
	if err != nil {
		return nil, err
	}
	return &sshDialer{address: address, args: args, logins: make(slots, loginsAtOnce), loginTime: time.Second}, nil
}

// dial starts an ssh. Whether it gets through shows at the first read.
func (d *sshDialer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := d.logins.take(ctx); err != nil {
		return nil, err
	}
	c := &sshConn{address: d.address, loggedIn: sync.OnceFunc(d.logins.free), ended: make(chan struct{})}
	login := time.AfterFunc(d.loginTime, c.loggedIn)
	if err := c.start(d.args, login); err != nil {
		login.Stop()
		c.loggedIn()
		return nil, &reachError{d.address + ": " + clip(err.Error()), providers.ErrUnavailable}
	}
	return c, nil
}

// sshConn is a connection through the standard input and output of an ssh.
type sshConn struct {
	address  string
	in, out  *os.File // our ends of what it reads and writes
	kill     context.CancelFunc
	loggedIn func()
	said     lastWords

	ended chan struct{} // closed when it was reaped
	err   error         // how it ended; read only after ended
}

func (c *sshConn) start(args []string, login *time.Timer) (err error) {
	var theirIn, theirOut *os.File
	defer func() {
		for _, f := range []*os.File{theirIn, theirOut} {
			_ = f.Close() // a nil file has nothing to close
		}
		if err != nil {
			_, _ = c.in.Close(), c.out.Close()
		}
	}()
	if theirIn, c.in, err = os.Pipe(); err != nil {
		return err
	}
	if c.out, theirOut, err = os.Pipe(); err != nil {
		return err
	}
	// It lives as long as the connection does, not as the call that opened it.
	life, kill := context.WithCancel(context.Background())
	cmd := exec.CommandContext(life, "ssh", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, &c.said
	// In a group of its own: an interrupt from the terminal is for reaperd,
	// which finishes its calls first, and what ssh starts (ProxyCommand) ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for who keeps its standard error open
	if err := cmd.Start(); err != nil {
		kill()
		return err
	}
	c.kill = kill
	go func() {
		if err := cmd.Wait(); !errors.Is(err, exec.ErrWaitDelay) {
			c.err = err
		}
		login.Stop()
		c.loggedIn()
		close(c.ended)
	}()
	return nil
}

func (c *sshConn) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	if n > 0 {
		c.loggedIn()
	}
	return n, c.explained(err)
}

func (c *sshConn) Write(p []byte) (int, error) {
	n, err := c.in.Write(p)
	return n, c.explained(err)
}

// explained gives what ssh said in place of an end that only follows from it.
func (c *sshConn) explained(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	select {
	case <-c.ended:
	case <-time.After(2 * time.Second): // its output ended and it did not
		return err
	}
	if c.err == nil {
		return err
	}
	why, kind := c.said.line(), providers.ErrUnavailable
	if why == "" {
		why = c.err.Error()
	}
	if strings.Contains(strings.ToLower(why), "permission denied") {
		kind = providers.ErrDenied
	}
	return &reachError{c.address + ": " + clip(why), kind}
}

// Close kills the ssh and waits until it is reaped.
func (c *sshConn) Close() error {
	c.kill()
	<-c.ended
	return errors.Join(c.in.Close(), c.out.Close())
}

func (c *sshConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
func (c *sshConn) SetReadDeadline(t time.Time) error  { return c.out.SetReadDeadline(t) }
func (c *sshConn) SetWriteDeadline(t time.Time) error { return c.in.SetWriteDeadline(t) }
func (c *sshConn) LocalAddr() net.Addr                { return sshAddr("") }
func (c *sshConn) RemoteAddr() net.Addr               { return sshAddr(c.address) }

type sshAddr string

func (sshAddr) Network() string  { return "ssh" }
func (a sshAddr) String() string { return string(a) }

// lastWords keeps the end of what is written to it.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

const wordsKept = 4 << 10

func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	w.text = bytes.Clone(w.text[max(0, len(w.text)-wordsKept):])
	return len(p), nil
}

// line gives the last line that has something in it.
func (w *lastWords) line() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := bytes.TrimSpace(w.text)
	return string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]))
}
