package api

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/providers"
)

// book takes heartbeats as the daemon does.
type book struct {
	*lease.Book

	mu    sync.Mutex
	beats []string
}

func newBook() *book { return &book{Book: lease.NewBook(24 * time.Hour)} }

func (b *book) Renew(key string, ttl time.Duration, by string) (lease.Lease, bool, error) {
	return b.Book.Renew(key, ttl, by, time.Now())
}
func (b *book) Release(key, by string) (lease.Lease, error) {
	return b.Book.Release(key, by, time.Now())
}
func (b *book) Forget(key, by string) error           { return b.Book.Forget(key, by, time.Now()) }
func (b *book) Lease(key string) (lease.Lease, error) { return b.Get(key) }

func (b *book) Beat(ref providers.Ref, by string) (providers.Ref, error) {
	const whole = "0123456789ab"
	switch {
	case ref.Provider == "down":
		return providers.Ref{}, fmt.Errorf("beat for %s: %w", ref, providers.ErrUnavailable)
	case ref.Provider == "broken":
		return providers.Ref{}, fmt.Errorf("beat for %s: out of ink", ref)
	case ref.Provider != "dev" || !strings.HasPrefix(whole, ref.ID):
		return providers.Ref{}, fmt.Errorf("beat for %s: %w", ref, providers.ErrNotFound)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beats = append(b.beats, by)
	return providers.Ref{Provider: "dev", ID: whole}, nil
}

func options() Options { return Options{Metrics: registry(), Ready: ready} }

// serve has a server answer until the test ends.
func serve(t testing.TB, s *Server) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// newPath gives a path that is short enough for a socket.
func newPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "run", "reaperd.sock")
}

func listenSocket(t testing.TB, path string, o Options) *Server {
	t.Helper()
	s, err := ListenSocket(t.Context(), SocketOptions{Path: path, Mode: 0o660}, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// client talks to one server.
type client struct {
	http  http.Client
	base  string
	token string
}

func overSocket(t testing.TB, path string) *client {
	tr := &http.Transport{MaxIdleConnsPerHost: 64, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &client{http: http.Client{Transport: tr}, base: "http://reaperd"}
}

func overTCP(t testing.TB, s *Server, token string) *client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &client{http: http.Client{Transport: tr}, base: "http://" + s.Addr(), token: token}
}

type answered struct {
	status int
	header http.Header
	body   string
}

func (c *client) do(t testing.TB, method, path string, body io.Reader) answered {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.base+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Error(err)
		return answered{}
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Error(err)
	}
	return answered{resp.StatusCode, resp.Header, string(b)}
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
