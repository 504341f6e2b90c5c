package main

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/reaperd/reaperd/pkg/api"
)

// socketDir gives a folder whose name is short enough for a socket.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// ask makes one request over a socket, or to a TCP address with a token.
func ask(t testing.TB, method, at, path, token string) (status int, body string) {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true}
	host := at
	if filepath.IsAbs(at) {
		host = "reaperd"
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", at)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+host+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(b)
}

func TestWhereTheSocketIs(t *testing.T) {
	t.Parallel()
	usual, nowhere := "/run/user/7/reaperd/reaperd.sock", ""
	if os.Geteuid() == 0 {
		usual, nowhere = "/run/reaperd/reaperd.sock", "/run/reaperd/reaperd.sock"
	}
	for name, tc := range map[string]struct {
		path string
		env  map[string]string
		want string
	}{
		"under systemd":       {socketAuto, map[string]string{"RUNTIME_DIRECTORY": "/run/r:/b", "XDG_RUNTIME_DIR": "/run/user/7"}, "/run/r/reaperd.sock"},
		"in the usual place":  {socketAuto, map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}, usual},
		"no place":            {socketAuto, map[string]string{"XDG_RUNTIME_DIR": "relative"}, nowhere},
		"where it is written": {"/a/b.sock", map[string]string{"RUNTIME_DIRECTORY": "/run/r"}, "/a/b.sock"},
		"nowhere":             {"", map[string]string{"RUNTIME_DIRECTORY": "/run/r"}, ""},
	} {
		var l loaded
		l.Socket.Path, l.Socket.Mode = tc.path, "0640"
		env := environment{getenv: func(name string) string { return tc.env[name] }}
		if got := l.socketPath(env); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if p := l.places(env); tc.want != "" && p.socket.Mode != 0o640 || p.usual != (tc.path == socketAuto) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestASocketThatIsOnlyLookedForIsNotNeeded(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	f := front{failed: func(err error) { t.Error(err) }, log: zap.New(core), options: api.Options{Metrics: prometheus.NewRegistry()}}
	closed := places{listen: "127.0.0.1:0", usual: true, socket: api.SocketOptions{Path: "/sys/reaperd/reaperd.sock", Mode: 0o660}}
	written := closed
	written.usual = false
	if err := f.open(t.Context(), written); err == nil || !strings.Contains(err.Error(), "listen on /sys/reaperd/reaperd.sock: ") {
		t.Errorf("one that is written: %v", err)
	}
	for _, p := range []places{closed, {listen: "127.0.0.1:0", usual: true}} {
		if err := f.open(t.Context(), p); err != nil || f.socket != nil {
			t.Fatalf("%v", err)
		}
	}
	if all := logs.All(); len(all) != 2 || !strings.Contains(all[0].Message, "there is no socket") || !strings.Contains(all[1].Message, "there is no place for a socket") {
		t.Errorf("%+v", all)
	}
	// Where there is one it is not given up for that.
	own := places{listen: "127.0.0.1:0", socket: api.SocketOptions{Path: filepath.Join(socketDir(t), "s"), Mode: 0o660}}
	if err := f.open(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if err := f.open(t.Context(), closed); err == nil || f.socket == nil || f.at != own {
		t.Errorf("%v, %+v", err, f.at)
	}
	if err := f.close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheDaemonAnswersOnASocket(t *testing.T) {
	t.Parallel()
	s := newScene(t, spareAll, "  - {name: local, kind: process}\n")
	dir := socketDir(t)
	path, token := filepath.Join(dir, "a.sock"), filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bare := s.configuration(t)
	with := func(socket string) string {
		return strings.Replace(bare, "socket: {path: ''}", "socket: {"+socket+"}", 1)
	}
	s.rewrite(t, "reaperd.yaml", with("path: "+path))
	d := s.daemon(t)
	inode := func(path string) fs.FileInfo {
		t.Helper()
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := inode(path)
	if first.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("%s", first.Mode())
	}
	reload := func(at, token string, wantStatus int, says string) {
		t.Helper()
		if status, body := ask(t, "POST", at, "/-/reload", token); status != wantStatus || !strings.Contains(body, says) {
			t.Errorf("%d %s, want %d %s", status, body, wantStatus, says)
		}
	}
	reload(path, "", 200, "reloaded")
	if !os.SameFile(first, inode(path)) {
		t.Error("a socket that stays was made anew")
	}
	reload(d.address, "", 403, "set http.token_file")
	reload(d.address, "s3cret", 403, "set http.token_file")

	// A bad file is told to who asks, and changes nothing.
	s.rewrite(t, "p.yaml", strings.ReplaceAll(takeAll, "max_uptime", "max_uptim"))
	reload(path, "", 500, `did you mean \"max_uptime\"?`)
	d.untilMetric(t, lastReload, 0)
	s.rewrite(t, "p.yaml", spareAll)

	// Another mode: the same place, never without an answer.
	s.rewrite(t, "reaperd.yaml", strings.Replace(with("path: "+path+", mode: '0600'"),
		"listen: '127.0.0.1:0'", "listen: '127.0.0.1:0', token_file: "+token, 1))
	reload(path, "", 200, "reloaded")
	if got := inode(path); got.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("%s", got.Mode())
	}
	reload(d.address, "", 401, "Authorization: Bearer")
	reload(d.address, "wrong", 401, "is not the one")
	reload(d.address, "s3cret", 200, "reloaded")

	// Another place, asked for over the one that goes.
	moved := filepath.Join(dir, "run", "b.sock")
	s.rewrite(t, "reaperd.yaml", with("path: "+moved))
	reload(path, "", 200, "reloaded")
	if _, err := os.Lstat(path); err == nil {
		t.Error("the old socket is still there")
	}
	reload(d.address, "s3cret", 403, "set http.token_file")

	// What cannot be had leaves all as it was, also what could.
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := free.Addr().String()
	_ = free.Close()
	s.rewrite(t, "reaperd.yaml", strings.Replace(with("path: "+token), "127.0.0.1:0", other, 1))
	reload(moved, "", 500, "something else, which is no socket")
	if status, _ := ask(t, "GET", d.address, "/healthz", ""); status != 200 {
		t.Errorf("the address before: %d", status)
	}
	if c, err := net.Dial("tcp", other); err == nil {
		_ = c.Close()
		t.Error("the address of a reload that failed answers")
	}

	// None, and back.
	s.rewrite(t, "reaperd.yaml", bare)
	reload(moved, "", 200, "reloaded")
	if _, err := os.Lstat(moved); err == nil {
		t.Error("the socket that is not wanted any more is there")
	}
	s.rewrite(t, "reaperd.yaml", with("path: "+path))
	d.reload(t, reloaded)
	reload(path, "", 200, "reloaded")

	second := start(t, nil, nil, "run", "-c", s.file)
	if code := second.wait(t); code != exitTrouble || !strings.Contains(second.errs.String(), "another reaperd answers on "+path) {
		t.Errorf("a second daemon: %d, %s", code, second.errs.String())
	}
	if status, _ := ask(t, "GET", path, "/readyz", ""); status != 200 {
		t.Errorf("after it the first answers %d", status)
	}
	d.stop(t)
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left over")
	}
}

// Reloads asked for over HTTP and by signals come one after the other, and each
// who asks is answered.
func TestManyReloadsAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, spareAll, "  - {name: local, kind: process}\n")
	path := filepath.Join(socketDir(t), "s")
	s.rewrite(t, "reaperd.yaml", strings.Replace(s.configuration(t), "socket: {path: ''}", "socket: {path: "+path+"}", 1))
	ended := s.process(t, "a")
	d := s.daemon(t)
	s.rewrite(t, "p.yaml", takeAll)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if status, body := ask(t, "POST", path, "/-/reload", ""); status != 200 {
				t.Errorf("%d %s", status, body)
			}
		})
		d.signal(t, syscall.SIGHUP)
	}
	wg.Wait()
	<-ended
	d.stop(t)
}
