package docker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

// socketInfo is what stat gives of a file of that mode.
type socketInfo struct {
	fs.FileInfo
	mode fs.FileMode
}

func (s socketInfo) Mode() fs.FileMode { return s.mode }

// pretend gives an environment of those variables and files.
func pretend(vars map[string]string, files map[string]fs.FileMode) environment {
	return environment{
		getenv:   func(k string) string { return vars[k] },
		hostname: func() (string, error) { return "host", nil },
		stat: func(path string) (fs.FileInfo, error) {
			if mode, ok := files[path]; ok {
				return socketInfo{mode: mode}, nil
			}
			return nil, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
		},
	}
}

func TestFindingTheEngine(t *testing.T) {
	all := map[string]fs.FileMode{
		"/var/run/docker.sock": fs.ModeSocket, "/run/user/7/docker.sock": fs.ModeSocket,
		"/run/podman/podman.sock": fs.ModeSocket, "/run/user/7/podman/podman.sock": fs.ModeSocket,
	}
	without := func(paths ...string) map[string]fs.FileMode {
		left := map[string]fs.FileMode{}
		for p, m := range all {
			if !slices.Contains(paths, p) {
				left[p] = m
			}
		}
		return left
	}
	xdg := map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}
	for name, tc := range map[string]struct {
		host  string
		vars  map[string]string
		files map[string]fs.FileMode
		want  string
	}{
		"host wins":                {"unix:///mine", map[string]string{"DOCKER_HOST": "tcp://a:1"}, all, "unix:///mine"},
		"then DOCKER_HOST":         {"", map[string]string{"DOCKER_HOST": "tcp://a:1"}, all, "tcp://a:1"},
		"then Docker's socket":     {"", xdg, all, "unix:///var/run/docker.sock"},
		"then rootless Docker's":   {"", xdg, without("/var/run/docker.sock"), "unix:///run/user/7/docker.sock"},
		"then Podman's":            {"", xdg, without("/var/run/docker.sock", "/run/user/7/docker.sock"), "unix:///run/podman/podman.sock"},
		"then rootless Podman's":   {"", xdg, map[string]fs.FileMode{"/run/user/7/podman/podman.sock": fs.ModeSocket}, "unix:///run/user/7/podman/podman.sock"},
		"a folder is not a socket": {"", nil, map[string]fs.FileMode{"/var/run/docker.sock": fs.ModeDir, "/run/podman/podman.sock": fs.ModeSocket}, "unix:///run/podman/podman.sock"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newConnection(Settings{Host: tc.host}, pretend(tc.vars, tc.files))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.find(); got.address != tc.want || err != nil {
				t.Errorf("found %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestAnAddressThatCannotWorkIsRefusedAtOnce(t *testing.T) {
	for address, want := range map[string]string{
		"localhost:2375":          "has no scheme: write unix:///path/to/docker.sock, tcp://host:port or ssh://user@host",
		"/var/run/docker.sock":    "has no scheme: write unix:///var/run/docker.sock",
		"ssh://":                  "names no place",
		"ssh://me@there?x=y":      "query parameters are not allowed",
		"ssh://me:secret@there":   "an address takes no password",
		"tcp://me@there:2376":     "an address takes no password, and a user only with ssh://",
		"npipe:////./pipe/docker": `scheme "npipe" is not supported`,
		"http://there:2375":       `scheme "http" is not supported`,
		"unix://":                 "names no place",
		"tcp://":                  "names no place",
		"unix://docker.sock":      "starts with a slash",
	} {
		for origin, settings := range map[string]Settings{"host": {Host: address}, "DOCKER_HOST": {}} {
			_, err := open("x", settings, pretend(map[string]string{"DOCKER_HOST": address}, nil))
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), origin+": ") {
				t.Errorf("%s %q: %v; want %q", origin, address, err, want)
			}
		}
	}
	if _, err := open("x", Settings{Host: "tcp://a:1"}, pretend(map[string]string{"DOCKER_TLS_VERIFY": "1"}, nil)); err == nil {
		t.Error("DOCKER_TLS_VERIFY without certificates was taken")
	}
}

func TestNothingFoundNamesEveryPlaceTriedAndIsTriedAgain(t *testing.T) {
	e := enginetest.Shared(t)
	files := map[string]fs.FileMode{}
	env := pretend(map[string]string{"XDG_RUNTIME_DIR": filepath.Dir(e.Socket())}, files)
	p, err := open("x", Settings{}, env)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	all, err := p.List(within(t))
	if all != nil || !errors.Is(err, providers.ErrUnavailable) {
		t.Errorf("List gave %v, %v", all, err)
	}
	for _, place := range []string{"DOCKER_HOST", "/var/run/docker.sock", e.Socket(), "/run/podman/podman.sock", "/podman/podman.sock"} {
		if !strings.Contains(err.Error(), place) {
			t.Errorf("%q does not name %s", err, place)
		}
	}
	files[e.Socket()] = fs.ModeSocket
	if _, err := p.List(within(t)); err != nil {
		t.Errorf("now that it is there: %v", err)
	}
}

func TestDetect(t *testing.T) {
	if !detect(func(k string) string { return map[string]string{"DOCKER_HOST": "tcp://a:1"}[k] }) {
		t.Error("DOCKER_HOST is set and nothing was detected")
	}
	e := enginetest.Shared(t)
	if !detect(func(k string) string { return map[string]string{"XDG_RUNTIME_DIR": filepath.Dir(e.Socket())}[k] }) {
		t.Error("a socket exists and nothing was detected")
	}
}

func TestAnEngineThatIsAwayIsUnavailableAndComesBack(t *testing.T) {
	e := enginetest.Start(t)
	p := openAt(t, e.Host())
	mustList(t, p)
	e.Down(t)
	for name, prepare := range map[string]func(){
		"absent":          func() {},
		"left by a crash": func() { mustListen(t, e.Socket()) },
	} {
		prepare()
		all, err := p.List(within(t))
		if all != nil || !errors.Is(err, providers.ErrUnavailable) || !strings.Contains(err.Error(), e.Host()) {
			t.Errorf("%s: List gave %v, %v; want ErrUnavailable and the host", name, all, err)
		}
		if _, err := p.Get(within(t), strings.Repeat("0", 64)); !errors.Is(err, providers.ErrUnavailable) {
			t.Errorf("%s: Get gave %v; want ErrUnavailable", name, err)
		}
	}
	e.Up(t)
	mustList(t, p)
}

// mustListen leaves a socket at path that nobody listens on.
func mustListen(t *testing.T, path string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: path})
	}
	if err == nil {
		err = syscall.Close(fd)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestASocketThatRefusesUsSaysWhoseItIs runs this binary once more as nobody,
// who lists twice: the second time when the socket's group is nobody's.
func TestASocketThatRefusesUsSaysWhoseItIs(t *testing.T) {
	if host := os.Getenv("DOCKERTEST_NOBODY"); host != "" {
		p := openAt(t, host)
		for range 2 {
			_, err := p.List(within(t))
			fmt.Printf("\ncause=%s error=%v\n", providers.CauseOf(err), err)
			_, _ = fmt.Scanln()
		}
		return
	}
	e := enginetest.Start(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestASocketThatRefusesUsSaysWhoseItIs$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{"DOCKERTEST_NOBODY=" + e.Host()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() string {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "cause=") {
				return lines.Text()
			}
		}
		t.Errorf("it ended early: %v", lines.Err())
		return ""
	}
	first := next()
	for _, want := range []string{"cause=denied", e.Socket(), "mode 0660", "root (0)", "nobody (65534)", "nogroup (65534)"} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in\n%s", want, first)
		}
	}
	if err := os.Chown(e.Socket(), 0, 65534); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, "\n")
	if second := next(); second != "cause= error=<nil>" {
		t.Errorf("when it is allowed: %s", second)
	}
	_ = in.Close()
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// ranged answers as an engine that speaks API versions from min to max only.
func ranged(lowest, highest string) enginetest.Hook {
	return func(r enginetest.Request) http.HandlerFunc {
		switch {
		case r.Path == "/_ping":
			return func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", highest) }
		case r.Version < lowest: // the same number of digits throughout
			return enginetest.Answer(http.StatusBadRequest, `{"message":"client version `+r.Version+` is too old. Minimum supported API version is `+lowest+`, please upgrade your client to a newer version"}`)
		case r.Version > highest:
			return enginetest.Answer(http.StatusBadRequest, `{"message":"client version `+r.Version+` is too new. Maximum supported API version is `+highest+`"}`)
		}
		return enginetest.Answer(http.StatusOK, `[]`)
	}
}

func TestAnEngineUpgradedUnderUsIsNegotiatedWithAgain(t *testing.T) {
	proxy := enginetest.NewProxyTo(t, "/nowhere")
	a, folder := newAuthority(t), t.TempDir()
	a.files(t, folder)
	newFakeSSH(t, through(t, proxy.Host()))
	for name, settings := range map[string]Settings{
		"socket": {Host: proxy.Host()},
		"tls":    newTLSFront(t, proxy.Host(), a).settings(folder),
		"ssh":    {Host: "ssh://box"},
	} {
		t.Run(name, func(t *testing.T) {
			p := openBy(t, settings)
			var pings atomic.Int32
			for _, versions := range [][2]string{{"1.12", "1.41"}, {"1.44", "1.52"}, {"1.12", "1.40"}, {"1.44", "1.47"}} {
				speaks := ranged(versions[0], versions[1])
				proxy.Hook(func(r enginetest.Request) http.HandlerFunc {
					if r.Path == "/_ping" {
						pings.Add(1)
					}
					return speaks(r)
				})
				for range 2 {
					mustList(t, p)
				}
				if got := pings.Swap(0); got != 1 {
					t.Errorf("%v took %d pings, want 1", versions, got)
				}
			}
		})
	}
}

func TestARealEnginesVersionIsNegotiated(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	mustList(t, openAt(t, proxy.Host()))
	ping, err := e.Client(t).Ping(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := proxy.Requests()[0].Version; got != ping.APIVersion {
		t.Errorf("spoke version %s with an engine of %s", got, ping.APIVersion)
	}
	proxy.Hook(on("HEAD", "/_ping", func(http.ResponseWriter, *http.Request) {})) // says no version
	mustList(t, openAt(t, proxy.Host()))
}

func TestNoVersionInCommonNamesBothRangesAndIsNotTriedForEver(t *testing.T) {
	proxy := enginetest.NewProxyTo(t, "/nowhere")
	proxy.Hook(ranged("1.90", "1.95"))
	all, err := openAt(t, proxy.Host()).List(within(t))
	if all != nil || !errors.Is(err, providers.ErrUnavailable) || !strings.Contains(err.Error(), "reaperd has 1.51 and older, the engine has 1.90 to 1.95 (") {
		t.Errorf("List gave %v, %v; want ErrUnavailable and both ranges", all, err)
	}
	if got := proxy.Requests(); len(got) != 2 {
		t.Errorf("it asked %d times: %v", len(got), paths(got))
	}
}

func TestIdentityIsTheEngines(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	direct, err := openAt(t, e.Host()).Identity(within(t))
	if err != nil || direct == "" {
		t.Fatalf("%q, %v", direct, err)
	}
	if through, err := openAt(t, proxy.Host()).Identity(within(t)); through != direct || err != nil {
		t.Errorf("the same engine gives %q and %q, %v", direct, through, err)
	}
	other := enginetest.Start(t)
	if id, err := openAt(t, other.Host()).Identity(within(t)); id == direct || err != nil {
		t.Errorf("another engine gives %q too, %v", id, err)
	}
	proxy.Hook(on("GET", "/info", enginetest.Answer(http.StatusOK, `{}`)))
	if id, err := openAt(t, proxy.Host()).Identity(within(t)); err == nil {
		t.Errorf("an engine without an id gives %q", id)
	}
}

func TestAContainerKnowsItself(t *testing.T) {
	e := enginetest.Shared(t)
	id := e.Run(t, enginetest.Options{
		Cmd:    []string{"sh", "-c", "cat /proc/self/mountinfo; echo end; exec sleep 86400"},
		Adjust: func(c *container.Config, _ *container.HostConfig) { c.Tty = true },
	})
	proc := procOf(t, map[string]string{"mountinfo": logsUntil(t, e, id, "end")})
	if got := candidates(proc, noHostname); len(got) != 1 || got[0] != id {
		t.Errorf("it takes itself for %v, it is %s", got, id)
	}
}

// logsUntil gives what a container with a terminal printed before that line.
func logsUntil(t *testing.T, e *enginetest.Engine, id, line string) string {
	t.Helper()
	cli := e.Client(t)
	text := ""
	until(t, "the container prints "+line, func() bool {
		r, err := cli.ContainerLogs(within(t), id, container.LogsOptions{ShowStdout: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(string(b), "\r\n", "\n")
		return strings.HasSuffix(text, line+"\n")
	})
	return text
}
