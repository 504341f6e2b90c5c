package docker

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestAnEngineIsReachedThroughSSH(t *testing.T) {
	e := enginetest.Shared(t)
	ssh := newFakeSSH(t, through(t, e.Host()))
	p := openAt(t, "ssh://me@box:2222/run/its own.sock")
	w := watch(t, e, p)
	id := e.Run(t, enginetest.Options{})
	w.soon(t, id, "start", 0)
	if sb := mustList(t, p)[id]; sb.State != providers.StateRunning {
		t.Errorf("it is listed as %+v", sb)
	}
	mustStop(t, p, id, providers.StopOptions{Action: providers.ActionRemove})
	if e.Exists(t, id) {
		t.Error("it was not removed")
	}
	if err := p.Probe(within(t)); err != nil {
		t.Error(err)
	}
	there, err := p.Identity(within(t))
	if here, err2 := openAt(t, e.Host()).Identity(within(t)); here != there || err != nil || err2 != nil {
		t.Errorf("one engine is %q through ssh and %q by its socket (%v, %v)", there, here, err, err2)
	}
	args := ssh.args(t)
	want := []string{"-l", "me", "-p", "2222"}
	if !slices.Equal(args[:4], want) || !slices.Contains(args, "BatchMode=yes") {
		t.Errorf("ssh was called with %q", args)
	}
	if got := args[len(args)-3:]; !slices.Equal(got, []string{"--", "box", "docker '--host=unix:///run/its own.sock' system dial-stdio"}) {
		t.Errorf("ssh was called with … %q", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	w.broke(t)
	ssh.allGone(t)
}

func TestAnSSHThatFailsSaysWhyAndIsTriedAgain(t *testing.T) {
	e := enginetest.Shared(t)
	ssh := newFakeSSH(t, "exit 9")
	p := openAt(t, "ssh://box")
	for name, tc := range map[string]struct {
		does  string
		want  string
		cause providers.Cause
	}{
		"nobody there": {
			"echo 'Warning: something' >&2; echo 'ssh: connect to host box port 22: Connection refused' >&2; exit 255",
			"ssh://box: ssh: connect to host box port 22: Connection refused: provider unavailable", providers.CauseUnavailable,
		},
		"no key": {"echo 'me@box: Permission denied (publickey).' >&2; exit 255", "ssh://box: me@box: Permission denied (publickey).: permission denied", providers.CauseDenied},
		"no docker": {
			"read line; echo 'bash: docker: command not found' >&2; echo >&2; exit 127",
			"ssh://box: bash: docker: command not found: provider unavailable", providers.CauseUnavailable,
		},
		"one left behind": {
			"setsid sleep 4 >/dev/null <&1 & echo 'mux: no more' >&2; exit 255", "ssh://box: mux: no more: provider unavailable", providers.CauseUnavailable,
		},
		"silent":  {"exit 3", "ssh://box: exit status 3: provider unavailable", providers.CauseUnavailable},
		"unclean": {`printf 'no\033[2J \342\200\256way\n' >&2; exit 1`, "ssh://box: no [2J way: provider unavailable", providers.CauseUnavailable},
		"no end":  {`head -c 100000 /dev/zero | tr '\0' x >&2; exit 1`, "ssh://box: " + strings.Repeat("x", clipAt-1) + "…: provider unavailable", providers.CauseUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			ssh.does(t, tc.does)
			all, err := p.List(within(t))
			if err == nil || err.Error() != "list containers: "+tc.want || all != nil {
				t.Errorf("List gave %v, %v; want %s", all, err, tc.want)
			}
			if got := providers.CauseOf(err); got != tc.cause {
				t.Errorf("cause %s, want %s", got, tc.cause)
			}
			if err := p.Probe(within(t)); err == nil || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("Probe gave %v", err)
			}
		})
	}
	ssh.does(t, through(t, e.Host()))
	mustList(t, p)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	ssh.allGone(t)
}

func TestWithoutAnSSHThatIsWhatIsSaid(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := openAt(t, "ssh://box").List(within(t))
	if !errors.Is(err, providers.ErrUnavailable) || !strings.Contains(err.Error(), `ssh://box: exec: "ssh": executable file not found`) {
		t.Errorf("List gave %v", err)
	}
}

func TestAnSSHThatHangsEndsWithTheCall(t *testing.T) {
	for name, does := range map[string]string{
		"itself":                "exec sleep 1000",
		"with one that it left": "sleep 1000 & sleep 1000",
		"deaf to signals":       "trap '' TERM HUP INT; while :; do sleep 1000; done",
	} {
		t.Run(name, func(t *testing.T) {
			ssh := newFakeSSH(t, does)
			p := openAt(t, "ssh://box")
			ctx, cancel := context.WithCancel(t.Context())
			listed := make(chan error, 1)
			go func() {
				_, err := p.List(ctx)
				listed <- err
			}()
			until(t, "ssh starts", func() bool { return len(ssh.pids(t)) == 1 })
			began := time.Now()
			cancel()
			if err := <-listed; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "ssh://box") {
				t.Errorf("List gave %v", err)
			}
			ssh.allGone(t)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("that took %v", took)
			}
		})
	}
}

func TestAnSSHThatDiesEndsItsWatch(t *testing.T) {
	e := enginetest.Shared(t)
	ssh := newFakeSSH(t, through(t, e.Host()))
	p := openAt(t, "ssh://box")
	w := watch(t, e, p)
	for _, pid := range ssh.pids(t) {
		if process, err := os.FindProcess(pid); err == nil {
			_ = process.Kill()
		}
	}
	w.broke(t)
	mustList(t, p)
}

func TestOnlySoManySSHLogInAtOnce(t *testing.T) {
	newFakeSSH(t, "exec sleep 1000")
	d, err := newSSHDialer("ssh://box")
	if err != nil {
		t.Fatal(err)
	}
	d.loginTime = time.Hour
	var last net.Conn
	for range loginsAtOnce {
		conn, err := d.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		last = conn
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.dial(ctx, "", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one more: %v", err)
	}
	_ = last.Close()
	d.loginTime = time.Millisecond
	for range 3 { // each counts as logged in soon
		conn, err := d.dial(within(t), "", "")
		if err != nil {
			t.Fatalf("when there is room: %v", err)
		}
		defer func() { _ = conn.Close() }()
	}
}

func TestAnSSHConnectionObeysDeadlines(t *testing.T) {
	newFakeSSH(t, "exec sleep 1000")
	d, err := newSSHDialer("ssh://box")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read gave %v", err)
	}
	if _, err := conn.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write gave %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Errorf("Close gave %v", err)
	}
}
