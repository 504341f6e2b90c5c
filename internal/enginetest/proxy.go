package enginetest

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Proxy stands in front of an engine, records every request and can answer
// single ones in the engine's place. It passes plain requests on and event
// streams, but not connections that are hijacked (attach, exec).
type Proxy struct {
	host    string
	forward *httputil.ReverseProxy

	mu       sync.Mutex
	hook     Hook
	headers  func(http.Header)
	requests []Request
}

// Hook is asked for each request; what it gives answers the request in the
// engine's place. Nil passes the request on. See Proxy.Forward, Hold, Cut,
// Answer and Proxy.Rewrite for what to give.
type Hook func(r Request) http.HandlerFunc

// Request is one request as it was received.
type Request struct {
	Method  string
	Path    string // without the version: /containers/json
	Version string // of the API, as the path says it: 1.41
	Query   string
	Header  http.Header
}

// Mutating says whether the request could change something.
func (r Request) Mutating() bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// String gives "METHOD /path?query".
func (r Request) String() string {
	if r.Query == "" {
		return r.Method + " " + r.Path
	}
	return r.Method + " " + r.Path + "?" + r.Query
}

// NewProxy starts a proxy in front of the engine. It is closed when the test
// ends.
func NewProxy(tb testing.TB, e *Engine) *Proxy {
	tb.Helper()
	return NewProxyTo(tb, e.Socket())
}

// NewProxyTo starts a proxy in front of the unix socket at that path, which
// need not be there yet.
func NewProxyTo(tb testing.TB, socket string) *Proxy {
	tb.Helper()
	root, err := os.MkdirTemp(tempRoot(), "reaperd-proxy-")
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(root, "docker.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	quiet := log.New(io.Discard, "", 0)
	p := &Proxy{
		host: "unix://" + path,
		forward: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine"
				r.Out.Header.Del("Accept-Encoding")
			},
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					var d net.Dialer
					return d.DialContext(ctx, "unix", socket)
				},
				DisableKeepAlives:  true, // an engine that restarts leaves none behind
				DisableCompression: true,
			},
			FlushInterval: -1,
			ErrorLog:      quiet,
		},
	}
	p.forward.ModifyResponse = func(resp *http.Response) error {
		p.mu.Lock()
		change := p.headers
		p.mu.Unlock()
		if change != nil {
			change(resp.Header)
		}
		return nil
	}
	srv := &http.Server{Handler: p, ErrorLog: quiet}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	tb.Cleanup(func() {
		_ = srv.Close()
		wg.Wait()
		_ = os.RemoveAll(root)
	})
	return p
}

// Host is the proxy's address, unix://….
func (p *Proxy) Host() string { return p.host }

// Hook puts h in front of every request from now on. Nil takes it away.
func (p *Proxy) Hook(h Hook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = h
}

// Headers has change see, and change, the headers of every answer of the engine
// from now on. Nil takes it away.
func (p *Proxy) Headers(change func(http.Header)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.headers = change
}

// Requests gives what was received since the start or the last Reset, without
// the pings of version negotiation.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.requests), func(r Request) bool { return r.Path == "/_ping" })
}

// Mutations gives those of Requests that could change something.
func (p *Proxy) Mutations() []Request {
	return slices.DeleteFunc(p.Requests(), func(r Request) bool { return !r.Mutating() })
}

// Reset forgets what was received.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = nil
}

var versioned = regexp.MustCompile(`^/v([0-9.]+)(/.*)$`)

// ServeHTTP records the request and answers it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone()}
	if m := versioned.FindStringSubmatch(r.URL.Path); m != nil {
		req.Version, req.Path = m[1], m[2]
	}
	p.mu.Lock()
	p.requests = append(p.requests, req)
	hook := p.hook
	p.mu.Unlock()
	if hook != nil {
		if answer := hook(req); answer != nil {
			answer(w, r)
			return
		}
	}
	p.Forward(w, r)
}

// Forward passes the request on to the engine.
func (p *Proxy) Forward(w http.ResponseWriter, r *http.Request) { p.forward.ServeHTTP(w, r) }

// Rewrite passes the request on and changes the answer's body on its way back.
func (p *Proxy) Rewrite(change func(body []byte) []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var got recorder
		p.Forward(&got, r)
		body := change(got.body.Bytes())
		for k, v := range got.Header() {
			w.Header()[k] = v
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(got.status)
		_, _ = w.Write(body)
	}
}

// Delay passes the request on once released is closed, unless the client goes
// away before.
func (p *Proxy) Delay(released <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-released:
			p.Forward(w, r)
		case <-r.Context().Done():
		}
	}
}

// Hold never answers: it waits until the client goes away.
func Hold(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the server notices a client that leaves only then
	<-r.Context().Done()
}

// Cut breaks the connection without an answer.
func Cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// Stall sends the start of a good answer, and then nothing until the client
// goes away.
func Stall(start string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, start)
		_ = http.NewResponseController(w).Flush()
		Hold(w, r)
	}
}

// Answer gives that status and body, as JSON.
func Answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}
