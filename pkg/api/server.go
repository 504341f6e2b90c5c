// Package api is reaperd's HTTP face, over TCP and a unix socket: metrics,
// health, leases and heartbeats.
package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers on one TCP address or unix socket.
type Server struct {
	listener net.Listener
	addr     string
	socket   *socketFile // nil over TCP
	http     http.Server
}

// Options is what a Server is made from.
type Options struct {
	// Listen is the address, host:port; port 0 takes a free one. ListenSocket
	// does not look at it.
	Listen string
	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer
	// Ready says why the daemon is not ready to do its work; nil when it is.
	Ready func() error
	// Heartbeats takes leases and heartbeats; nil: nothing does.
	Heartbeats Heartbeats
	// Token is what has to be shown over TCP to change something; nil: over TCP
	// nothing can be changed.
	Token *Token
	// Reload has the configuration read anew, and gives what is wrong with it;
	// nil: it cannot be asked for.
	Reload func() error
}

// Listen takes the address; Serve then answers on it.
func Listen(ctx context.Context, o Options) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", o.Listen, err)
	}
	return newServer(l, o), nil
}

func newServer(l net.Listener, o Options) *Server {
	return &Server{
		listener: l,
		addr:     l.Addr().String(),
		http: http.Server{
			Handler:           Handler(o),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      30 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    16 << 10,
		},
	}
}

// Handler gives the routes: /metrics in Prometheus' text or OpenMetrics form;
// /healthz, 200 while the process can answer; /readyz, 200 once the daemon is
// at work, else 503; a page at / that names them; and those of routes, which
// speak JSON.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			text(w, http.StatusServiceUnavailable, "not ready: "+err.Error()+"\n")
			return
		}
		text(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "reaperd\n\n/metrics  for Prometheus\n/healthz  does the process answer\n/readyz   is the daemon at work\n")
	})
	handleRoutes(mux, o)
	return mux
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // a client that went away is no concern of ours
}

// Addr is the address that was taken, or the path of the socket.
func (s *Server) Addr() string { return s.addr }

// Serve answers until Shutdown.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", s.Addr(), err)
	}
	return nil
}

// Shutdown takes no more requests, removes the socket's file, and lets the
// requests under way finish until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	// While it is bound its inode cannot become another file's.
	removed := s.socket.remove()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	_ = s.listener.Close() // which has been done already if it ever served
	return errors.Join(removed, err)
}
