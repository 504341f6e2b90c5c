package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVar) != "" {
		asChild(os.Args[1])
		return
	}
	goleak.VerifyTestMain(m)
}

func registry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "reaperd_tests_total", Help: "For tests."})
	c.Add(3)
	reg.MustRegister(c)
	return reg
}

func ready() error { return nil }

func TestRoutes(t *testing.T) {
	notReady := func() error { return errors.New("shutting down") }
	for _, tc := range []struct {
		method, path string
		ready        func() error
		status       int
		says         string
	}{
		{"GET", "/metrics", ready, 200, "\nreaperd_tests_total 3\n"},
		{"GET", "/healthz", ready, 200, "ok\n"},
		{"GET", "/healthz", notReady, 200, "ok\n"},
		{"HEAD", "/healthz", ready, 200, ""},
		{"GET", "/readyz", ready, 200, "ok\n"},
		{"GET", "/readyz", notReady, 503, "not ready: shutting down\n"},
		{"GET", "/", ready, 200, "/metrics"},
		{"GET", "/unknown", ready, 404, ""},
		{"GET", "/metrics/", ready, 404, ""},
		{"GET", "/healthz/../../etc/passwd", ready, 307, ""},
		{"GET", "/debug/pprof/", ready, 404, ""},
		{"POST", "/metrics", ready, 405, ""},
		{"POST", "/healthz", ready, 405, ""},
		{"PUT", "/readyz", ready, 405, ""},
		{"DELETE", "/", ready, 405, ""},
		{"POST", "/unknown", ready, 404, ""},
	} {
		rec := httptest.NewRecorder()
		Handler(Options{Metrics: registry(), Ready: tc.ready}).ServeHTTP(rec, httptest.NewRequest(tc.method, tc.path, nil))
		if rec.Code != tc.status || !strings.Contains(rec.Body.String(), tc.says) {
			t.Errorf("%s %s: %d %q; want %d and %q", tc.method, tc.path, rec.Code, rec.Body, tc.status, tc.says)
		}
	}
}

func TestMetricsSpeakOpenMetricsWhenAsked(t *testing.T) {
	req := httptest.NewRequest("GET", "/metrics", nil)
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	rec := httptest.NewRecorder()
	Handler(Options{Metrics: registry(), Ready: ready}).ServeHTTP(rec, req)
	if !strings.HasSuffix(rec.Body.String(), "# EOF\n") {
		t.Errorf("%s: %s", rec.Header().Get("Content-Type"), rec.Body)
	}
}

// Half of the metrics shown as if they were all would be a lie.
func TestMetricsThatCannotBeGatheredAreAnError(t *testing.T) {
	broken := registry()
	broken.MustRegister(failing{prometheus.NewDesc("reaperd_failing", "Fails.", nil, nil)})
	rec := httptest.NewRecorder()
	Handler(Options{Metrics: broken, Ready: ready}).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != http.StatusInternalServerError {
		t.Errorf("status %d", rec.Code)
	}
}

// failing is a collector that cannot tell.
type failing struct{ desc *prometheus.Desc }

func (f failing) Describe(ch chan<- *prometheus.Desc) { ch <- f.desc }
func (f failing) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(f.desc, errors.New("collector failed"))
}

// pipes is a listener whose connections are in memory, so that a bubble's time
// passes while a server waits for them.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9480} }

func (p *pipes) dial(t *testing.T) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	p.conns <- server
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// served runs f beside a server in a bubble of virtual time.
func served(t *testing.T, o Options, f func(t *testing.T, s *Server, l *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		s := newServer(l, o)
		done := make(chan error, 1)
		go func() { done <- s.Serve() }()
		f(t, s, l)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestAClientThatDripsItsHeadersIsCutOff(t *testing.T) {
	served(t, Options{Metrics: registry(), Ready: ready}, func(t *testing.T, _ *Server, l *pipes) {
		c := l.dial(t)
		began := time.Now()
		var drip sync.WaitGroup
		defer drip.Wait()
		drip.Go(func() {
			for _, b := range []byte("GET /metrics HTTP/1.1\r\nHost: x\r\nX-Drip: " + strings.Repeat("a", 1000)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				<-time.After(time.Second)
			}
		})
		answer, err := io.ReadAll(c)
		if err != nil || strings.Contains(string(answer), "200 OK") {
			t.Errorf("%q, %v", answer, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("cut off after %v", took)
		}
	})
}

func TestAClientThatOnlyConnectsIsCutOff(t *testing.T) {
	served(t, Options{Metrics: registry(), Ready: ready}, func(t *testing.T, _ *Server, l *pipes) {
		began := time.Now()
		if _, err := io.ReadAll(l.dial(t)); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("cut off after %v", took)
		}
	})
}

func TestHeadersBeyondMeasureAreRefused(t *testing.T) {
	served(t, Options{Metrics: registry(), Ready: ready}, func(t *testing.T, _ *Server, l *pipes) {
		c := l.dial(t)
		go func() {
			_, _ = io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("a", 64<<10)+"\r\n\r\n")
		}()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

func TestShutdownLetsRequestsUnderWayFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan struct{})
		l := newPipes()
		s := newServer(l, Options{Metrics: registry(), Ready: func() error {
			close(entered)
			<-time.After(2 * time.Second)
			return errors.New("at its leisure")
		}})
		done := make(chan error, 1)
		go func() { done <- s.Serve() }()
		c := l.dial(t)
		go func() { _, _ = io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n") }()
		answered := make(chan int, 1)
		go func() {
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				answered <- 0
				return
			}
			_ = resp.Body.Close()
			answered <- resp.StatusCode
		}()
		<-entered
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if status := <-answered; status != http.StatusServiceUnavailable {
			t.Errorf("the request under way got %d", status)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestShutdownDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		l := newPipes()
		s := newServer(l, Options{Metrics: registry(), Ready: func() error { close(entered); <-release; return nil }})
		done := make(chan error, 1)
		go func() { done <- s.Serve() }()
		c := l.dial(t)
		go func() { _, _ = io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n") }()
		<-entered
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		close(release)
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestListenTakesAFreePortAndSaysWhatIsWrongWithATakenOne(t *testing.T) {
	s, err := Listen(t.Context(), Options{Listen: "127.0.0.1:0", Metrics: registry(), Ready: ready})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr()+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	if _, err := Listen(t.Context(), Options{Listen: s.Addr()}); err == nil || !strings.Contains(err.Error(), "listen on "+s.Addr()) {
		t.Errorf("a second Listen: %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
