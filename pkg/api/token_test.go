package api

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// watched gives a token in that file, and what is logged of it.
func watched(path string) (*Token, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	return NewToken(path, zap.New(core)), logs
}

// guarded gives the address of a server over TCP.
func guarded(t *testing.T, token *Token) *Server {
	t.Helper()
	o := options()
	o.Listen, o.Heartbeats, o.Token = "127.0.0.1:0", newBook(), token
	o.Reload = func() error { return nil }
	s, err := Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	return s
}

// changes are the requests that not everybody may make.
func changes() [][2]string {
	var all [][2]string
	for _, r := range append(leaseRoutes(nil), reloadRoute(nil)) {
		if r.method != "GET" {
			all = append(all, [2]string{r.method, strings.NewReplacer("{key}", "job", "{provider}", "dev", "{id}", "01").Replace(r.path)})
		}
	}
	return all
}

func TestWithoutATokenNothingChangesOverTCP(t *testing.T) {
	for name, token := range map[string]*Token{"nil": nil, "no file": NewToken("", zap.NewNop())} {
		t.Run(name, func(t *testing.T) {
			s := guarded(t, token)
			for _, shown := range []string{"", "anything"} {
				c := overTCP(t, s, shown)
				for _, r := range changes() {
					got := c.do(t, r[0], r[1], nil)
					if got.status != 403 || !strings.Contains(got.body, "use the unix socket, or set http.token_file") {
						t.Errorf("%s: %+v", r, got)
					}
				}
				if got := c.do(t, "GET", "/api/v1/leases/job", nil); got.status != 404 {
					t.Errorf("to look: %+v", got)
				}
			}
		})
	}
}

func TestTheTokenHasToBeShownOverTCP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, "s3cret\n")
	token, _ := watched(file)
	s := guarded(t, token)
	for _, header := range []string{
		"", "s3cret", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crets", "Bearer S3CRET", "Basic s3cret", "Bearer s3cret s3cret", "Bearers3cret",
	} {
		for _, r := range changes() {
			err := token.check(header)
			p, ok := err.(*problem) //nolint:errorlint // it is not wrapped
			if !ok || p.status != 401 || strings.Contains(p.message+p.challenge, "s3cre") {
				t.Errorf("%q, %s: %v", header, r, err)
			}
		}
	}
	for _, r := range changes() {
		got := overTCP(t, s, "").do(t, r[0], r[1], nil)
		if got.status != 401 || got.header.Get("WWW-Authenticate") != `Bearer realm="reaperd"` || !strings.Contains(got.body, "send the header Authorization: Bearer") {
			t.Errorf("%s without: %+v", r, got)
		}
		got = overTCP(t, s, "wrong").do(t, r[0], r[1], nil)
		if got.status != 401 || got.header.Get("WWW-Authenticate") != `Bearer realm="reaperd", error="invalid_token"` {
			t.Errorf("%s with a wrong one: %+v", r, got)
		}
	}
	c := overTCP(t, s, "s3cret")
	if got := c.do(t, "PUT", "/api/v1/leases/job", nil); got.status != 201 || !strings.Contains(got.body, `"by":"token"`) {
		t.Errorf("%+v", got)
	}
	if got := c.do(t, "POST", "/-/reload", nil); got.status != 200 {
		t.Errorf("%+v", got)
	}
	if err := token.check("bearer  s3cret "); err != nil {
		t.Errorf("the scheme's case and blanks: %v", err)
	}
}

func TestATokenThatCannotBeReadLetsNobodyIn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, text, says string }{
		"not there":     {filepath.Join(dir, "gone"), "", "no such file"},
		"empty":         {file, "", "it is empty"},
		"blank":         {file, " \n\t\n", "it is empty"},
		"two words":     {file, "a b", "one word of ASCII"},
		"two lines":     {file, "a\nb", "one word of ASCII"},
		"not ASCII":     {file, "geheim€", "one word of ASCII"},
		"beyond bounds": {file, strings.Repeat("s3cret", 1000), "more than 4096 bytes"},
		"a folder":      {dir, "", "not a regular file"},
		"a pipe":        {pipe, "", "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.path == file {
				writeFile(t, file, tc.text)
			}
			token, logs := watched(tc.path)
			for _, header := range []string{"", "Bearer ", "Bearer " + tc.text, "Bearer a"} {
				p, ok := token.check(header).(*problem) //nolint:errorlint // it is not wrapped
				if !ok || p.status != 503 || strings.Contains(p.message, tc.path) {
					t.Errorf("%q: %+v", header, p)
				}
			}
			if all := logs.All(); len(all) != 1 || !strings.Contains(all[0].ContextMap()["error"].(string), tc.says) {
				t.Errorf("logged: %+v", all)
			}
		})
	}
}

func TestTheTokenCanBeReplaced(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	old := time.Now().Add(-time.Hour)
	put := func(text string, at time.Time) {
		t.Helper()
		writeFile(t, file, text)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	put("first", old)
	token, logs := watched(file)
	works := func(good, bad string) {
		t.Helper()
		if err := token.check("Bearer " + good); good != "" && err != nil {
			t.Errorf("%s: %v", good, err)
		}
		if token.check("Bearer "+bad) == nil {
			t.Errorf("%s still opens", bad)
		}
	}
	works("first", "other")
	if token.read == nil {
		t.Error("a file that rests is read for each request")
	}
	put("other", old.Add(time.Second)) // of one size
	works("other", "first")
	put("longer-one", old.Add(time.Second)) // at one time
	works("longer-one", "other")
	moved := filepath.Join(dir, "new") // of one size and time
	writeFile(t, moved, "another-on")
	if err := os.Chtimes(moved, old.Add(time.Second), old.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(moved, file); err != nil {
		t.Fatal(err)
	}
	works("another-on", "longer-one")
	// Two changes so close that the file's time may not tell them apart.
	now := time.Now()
	put("new-a", now)
	works("new-a", "another-on")
	put("new-b", now)
	works("new-b", "new-a")

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	works("", "new-b")
	works("", "new-b")
	put("back", old)
	works("back", "new-b")
	token.SetFile("")
	works("", "back")
	writeFile(t, moved, "elsewhere")
	token.SetFile(moved)
	works("elsewhere", "back")
	var said []string
	for _, e := range logs.All() {
		said = append(said, e.Message)
		for _, secret := range []string{"first", "other", "longer-one", "another-on", "new-", "back", "elsewhere"} {
			if f, ok := e.ContextMap()["error"].(string); ok && strings.Contains(f, secret) {
				t.Errorf("logged a secret: %s", f)
			}
		}
	}
	if len(said) != 2 || !strings.Contains(said[0], "cannot be used") || !strings.Contains(said[1], "can be used again") {
		t.Errorf("logged: %q", said)
	}
}
