package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// nobody is a user without rights.
const nobody = 65534

// roleVar names what this test binary does when it is started as a child.
const roleVar = "REAPERD_TEST_API_ROLE"

// asChild is a role: it renews a lease over a socket and says what came of it.
func asChild(path string) {
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}}
	req, err := http.NewRequest(http.MethodPut, "http://reaperd/api/v1/leases/job", http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := c.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	line, _ := bufio.NewReader(resp.Body).ReadString('\n')
	fmt.Println(resp.StatusCode, line)
}

// child gives a way to renew a lease as another user.
func child(t *testing.T) func(gid int, path string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		enginetest.SkipOrFail(t, "to become another user needs root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "reaperd-nobody") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary := filepath.Join(dir, "test")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(binary, b, 0o755)); err != nil {
		t.Fatal(err)
	}
	return func(gid int, path string) string {
		c := exec.Command(binary, path)
		c.Env = append(os.Environ(), roleVar+"=renew")
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: uint32(gid)}}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Error(err)
		}
		return string(out)
	}
}

func TestWhoMayConnect(t *testing.T) {
	renews := child(t)
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	const group, others = 12345, 54321
	for _, tc := range []struct {
		name  string
		umask int
		mode  fs.FileMode
		group string
		as    int
		may   bool
	}{
		{"everybody", 0, 0o666, "", others, true},
		{"everybody, whatever the umask", 0o077, 0o666, "", others, true},
		{"nobody else", 0, 0o600, "", others, false},
		{"a group, but not others", 0, 0o660, strconv.Itoa(group), others, false},
		{"a group", 0, 0o660, strconv.Itoa(group), group, true},
		{"a group, whatever the umask", 0o077, 0o660, strconv.Itoa(group), group, true},
		{"root's group by name", 0, 0o660, "root", others, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			syscall.Umask(tc.umask)
			defer syscall.Umask(0)
			b := newBook()
			o := options()
			o.Heartbeats = b
			path := newPath(t)
			if err := os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			s, err := ListenSocket(t.Context(), SocketOptions{Path: path, Mode: tc.mode, Group: tc.group}, o)
			if err != nil {
				t.Fatal(err)
			}
			serve(t, s)
			info, err := os.Lstat(path)
			if err != nil || info.Mode() != fs.ModeSocket|tc.mode {
				t.Errorf("%v, %v", info, err)
			}
			said := renews(tc.as, path)
			if may := strings.HasPrefix(said, "201 "); may != tc.may {
				t.Errorf("%s", said)
			}
			if tc.may && !strings.Contains(said, fmt.Sprintf(`"by":"uid %d"`, nobody)) {
				t.Errorf("%s", said)
			}
			if !tc.may && !strings.Contains(said, "permission denied") {
				t.Errorf("%s", said)
			}
		})
	}
}

func TestTheFolderIsMade(t *testing.T) {
	path := newPath(t)
	s := listenSocket(t, path, options())
	serve(t, s)
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if s.Addr() != path {
		t.Errorf("address %s", s.Addr())
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) != 1 {
		t.Errorf("beside it: %v, %v", names, err)
	}
}

func TestASocketThatNobodyAnswersOnIsReplaced(t *testing.T) {
	path := newPath(t)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	serve(t, listenSocket(t, path, options()))
	if got := overSocket(t, path).do(t, "GET", "/healthz", nil); got.status != 200 {
		t.Errorf("%+v", got)
	}
}

func TestASocketThatIsInUseIsLeftAlone(t *testing.T) {
	path := newPath(t)
	serve(t, listenSocket(t, path, options()))
	_, err := ListenSocket(t.Context(), SocketOptions{Path: path, Mode: 0o660}, options())
	if want := "listen on " + path + ": another reaperd answers on " + path; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if got := overSocket(t, path).do(t, "GET", "/healthz", nil); got.status != 200 {
		t.Errorf("%+v", got)
	}
}

func TestWhereNoSocketCanBe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeFile(t, file, "precious")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		file:                                  "something else, which is no socket",
		link:                                  "something else, which is no socket",
		dir:                                   "something else, which is no socket",
		filepath.Join(file, "below"):          "not a directory",
		"/tmp/" + strings.Repeat("long", 100): "file name too long",
		filepath.Join(dir, strings.Repeat("long", 25), "reaperd.sock"): "too many for a socket: write a shorter one",
	} {
		_, err := ListenSocket(t.Context(), SocketOptions{Path: path, Mode: 0o660}, options())
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "listen on "+path+": ") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("%q, %v", b, err)
	}
	path := newPath(t)
	_, err := ListenSocket(t.Context(), SocketOptions{Path: path, Mode: 0o660, Group: "no-such-group"}, options())
	if err == nil || !strings.Contains(err.Error(), `there is no group "no-such-group" on this machine: write the name or number of one`) {
		t.Errorf("%v", err)
	}
}

func TestShutdownRemovesOnlyItsOwnSocket(t *testing.T) {
	path := newPath(t)
	first := listenSocket(t, path, options())
	if err := first.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	first = listenSocket(t, path, options())
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	serve(t, listenSocket(t, path, options()))
	if err := first.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := overSocket(t, path).do(t, "GET", "/healthz", nil); got.status != 200 {
		t.Errorf("the other's was removed: %+v", got)
	}
}

// A reload may change the mode of a socket that stays where it is: there is no
// instant at which nobody answers.
func TestASocketCanTakeThePlaceOfItsOwn(t *testing.T) {
	path := newPath(t)
	first := listenSocket(t, path, options())
	serving := make(chan error, 1)
	go func() { serving <- first.Serve() }()
	second, err := ListenSocket(t.Context(), SocketOptions{Path: path, Mode: 0o600, Instead: first}, options())
	if err != nil {
		t.Fatal(err)
	}
	serve(t, second)
	if err := first.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-serving; err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if got := overSocket(t, path).do(t, "GET", "/healthz", nil); got.status != 200 {
		t.Errorf("%+v", got)
	}
}
