package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reaperd/reaperd/pkg/providers"
)

const nobody = 65534

// report is what another reaperd, in another place, saw and did.
type report struct {
	Sandboxes  []providers.Sandbox
	Unreadable int
	Cause      providers.Cause // of stopping PROCESS_TEST_TARGET
	Kernel     string          // what is wrong with a kernel thread
}

// scan is that other reaperd.
func scan() {
	p := New("elsewhere")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var r report
	var err error
	if r.Sandboxes, err = p.List(ctx); err != nil {
		panic(err)
	}
	r.Unreadable = p.Unreadable()
	if _, err := p.table.files.environ(unix.AT_FDCWD, "/proc/2/"); err != nil {
		r.Kernel = err.Error()
	}
	if id := os.Getenv("PROCESS_TEST_TARGET"); id != "" {
		for _, sb := range r.Sandboxes {
			if sb.ID == id {
				r.Cause = providers.CauseOf(p.Stop(ctx, sb, providers.StopOptions{Action: providers.ActionRemove}))
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		panic(err)
	}
}

func (r *report) find(id string) (providers.Sandbox, bool) {
	i := slices.IndexFunc(r.Sandboxes, func(sb providers.Sandbox) bool { return sb.ID == id })
	if i < 0 {
		return providers.Sandbox{}, false
	}
	return r.Sandboxes[i], true
}

func read(t *testing.T, from io.Reader) report {
	t.Helper()
	var r report
	if err := json.NewDecoder(from).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

func asNobody() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

func TestForeignProcessesAreCountedNotGuessed(t *testing.T) {
	needRoot(t)
	theirs, own := newID(), newID()
	startMember(t, "sleep", theirs)
	startAs(t, asNobody(), "sleep", "REAPERD_SANDBOX="+own)
	r := read(t, startAs(t, asNobody(), "scan").said)
	if sb, ok := r.find(ref(theirs)); ok {
		t.Errorf("nobody lists root's %+v", sb)
	}
	if _, ok := r.find(fmt.Sprint(nobody, ":", own)); !ok {
		t.Error("nobody does not list nobody's own")
	}
	if r.Unreadable == 0 {
		t.Error("nothing unreadable: at least root's member is")
	}
	if s, err := New("").table.files.stat(unix.AT_FDCWD, "/proc/2/"); err == nil && s.kernel() && r.Kernel != "" {
		t.Errorf("a kernel thread counts as unreadable: %s", r.Kernel)
	}
	p := New("local")
	eventually(t, "root can read all", func() bool {
		_, err := p.List(within(t))
		return err == nil && p.Unreadable() == 0
	})
}

func TestNobodyJoinsAnothersSandbox(t *testing.T) {
	needRoot(t)
	id := newID()
	root := startMember(t, "sleep", id)
	other := startAs(t, asNobody(), "sleep", "REAPERD_SANDBOX="+id, "REAPERD_TAGS=reaperd.protect=true")
	p := New("local")
	sb := mustGet(t, p, id)
	if sb.Extra["processes"] != "1" || len(sb.Tags) != 0 {
		t.Errorf("root's has %s processes and tags %v: want its own", sb.Extra["processes"], sb.Tags)
	}
	if err := p.Stop(within(t), sb, providers.StopOptions{Action: providers.ActionRemove}); err != nil {
		t.Fatal(err)
	}
	isGone(t, p, id)
	_ = root.Wait()
	if _, err := p.Get(within(t), fmt.Sprint(nobody, ":", id)); err != nil {
		t.Errorf("nobody's: %v; want it to live", err)
	}
	other.end()
}

// A setuid program is its user's, and does not join the sandbox of its file's owner.
func TestRealUserCounts(t *testing.T) {
	needRoot(t)
	id := newID()
	startAs(t, &syscall.SysProcAttr{Credential: &syscall.Credential{}}, "setuid", "REAPERD_SANDBOX="+id)
	p := New("local")
	if _, err := p.Get(within(t), fmt.Sprint(nobody, ":", id)); err != nil {
		t.Errorf("with real uid nobody and effective uid root: %v", err)
	}
	isGone(t, p, id)
}

func TestOtherPIDNamespaceIsNotOurs(t *testing.T) {
	needRoot(t)
	id := newID()
	inner := startAs(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}, "sleep", "REAPERD_SANDBOX="+id)
	p := New("local")
	isGone(t, p, id)
	startMember(t, "sleep", id)
	sb := mustGet(t, p, id)
	if sb.Extra["processes"] != "1" {
		t.Errorf("%s processes, want the one outside", sb.Extra["processes"])
	}
	if err := p.Stop(within(t), sb, providers.StopOptions{Action: providers.ActionRemove}); err != nil {
		t.Fatal(err)
	}
	if s, err := p.table.files.stat(unix.AT_FDCWD, "/proc/"+strconv.Itoa(inner.Process.Pid)+"/"); err != nil || s.dead() || s.stopped() {
		t.Errorf("the one inside: state %c, %v; want it untouched", s.state, err)
	}
}

func TestReaperdLeavesItsOwnSandboxAlone(t *testing.T) {
	for _, tc := range []struct{ name, script string }{
		{"it is a member", `exec "$REAPER"`},
		{"its parent is", `env -u REAPERD_SANDBOX "$REAPER"; true`},
		{"its parent's parent is", `env -u REAPERD_SANDBOX sh -c '"$REAPER"; true'; true`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id := newID()
			startMember(t, "sleep", id)
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(within(t), "sh", "-c", tc.script)
			cmd.Env = environment("REAPER="+exe, helperVariable+"=scan", "REAPERD_SANDBOX="+id, "PROCESS_TEST_TARGET="+ref(id))
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			r := read(t, out)
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			sb, ok := r.find(ref(id))
			if !ok || !sb.Self || sb.Extra["processes"] != "1" {
				t.Errorf("it sees %+v: want Self, and neither itself nor its parents among the processes", sb)
			}
			if r.Cause != providers.CauseUnsupported {
				t.Errorf("stop gave %q, want unsupported", r.Cause)
			}
			if sb := mustGet(t, New("local"), id); sb.Self || sb.State != providers.StateRunning {
				t.Errorf("seen from outside: %+v; want it running", sb)
			}
		})
	}
}

// setuid takes the credentials of a setuid-root program that nobody runs.
func setuid() {
	if err := unix.Setresuid(nobody, 0, 0); err != nil {
		panic(err)
	}
	say("ready")
	hold()
}
