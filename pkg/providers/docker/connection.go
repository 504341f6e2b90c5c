package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/tlsconfig"

	"github.com/reaperd/reaperd/pkg/providers"
)

// engine is what this kind calls of the Docker client, and nothing else.
type engine interface {
	ContainerList(ctx context.Context, o container.ListOptions) ([]container.Summary, error)
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
	ContainerUpdate(ctx context.Context, id string, c container.UpdateConfig) (container.UpdateResponse, error)
	ContainerPause(ctx context.Context, id string) error
	ContainerUnpause(ctx context.Context, id string) error
	ContainerStop(ctx context.Context, id string, o container.StopOptions) error
	ContainerKill(ctx context.Context, id, signal string) error
	ContainerLogs(ctx context.Context, id string, o container.LogsOptions) (io.ReadCloser, error)
	ContainerTop(ctx context.Context, id string, arguments []string) (container.TopResponse, error)
	ContainerRemove(ctx context.Context, id string, o container.RemoveOptions) error
	Events(ctx context.Context, o events.ListOptions) (<-chan events.Message, <-chan error)
	Info(ctx context.Context) (system.Info, error)
	Ping(ctx context.Context) (types.Ping, error)
	NegotiateAPIVersionPing(p types.Ping)
}

// connection finds the engine, keeps a client of it whose API version was
// negotiated, and makes a new one when the engine refuses that version: it may
// be upgraded, or put back, while reaperd runs.
type connection struct {
	env  environment
	now  func() time.Time // by which skew is measured
	skew skew
	// turn lets one caller at a time make a client. Others wait for it, but no
	// longer than their own contexts allow.
	turn slots

	mu      sync.Mutex
	address string // "" until it is found
	chosen  bool   // somebody said so, it was not searched for
	live    *liveClient
}

// liveClient is a client and what lies below it.
type liveClient struct {
	engine
	http      *http.Client // for what the Docker client has no call for
	base      string       // before the path in such a request's URL
	transport *http.Transport
	dropped   chan struct{} // closed when it is given up
}

func newConnection(host string, env environment) (*connection, error) {
	c := &connection{env: env, now: time.Now, turn: make(slots, 1)}
	address, origin := env.explicit(host)
	if address == "" {
		return c, nil
	}
	if err := checkAddress(address, origin); err != nil {
		return nil, err
	}
	if strings.HasPrefix(address, "tcp://") && env.getenv("DOCKER_TLS_VERIFY") != "" && env.getenv("DOCKER_CERT_PATH") == "" {
		return nil, errors.New("DOCKER_TLS_VERIFY is set without DOCKER_CERT_PATH: set it to the folder of ca.pem, cert.pem and key.pem")
	}
	c.address, c.chosen = address, true
	return c, nil
}

// where is the engine's address, for people.
func (c *connection) where() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.address == "" {
		return "an address not found yet"
	}
	return c.address
}

func (c *connection) current() *liveClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live
}

// client gives the live client, or makes one. A client is seen by others only
// after its version was negotiated, since the Docker client reads its version
// unguarded.
func (c *connection) client(ctx context.Context) (*liveClient, error) {
	if l := c.current(); l != nil {
		return l, nil
	}
	if err := c.turn.take(ctx); err != nil {
		return nil, err
	}
	defer c.turn.free()
	if l := c.current(); l != nil {
		return l, nil
	}
	address, err := c.find()
	if err != nil {
		return nil, err
	}
	l, err := c.dial(address)
	if err != nil {
		return nil, err
	}
	ping, err := l.Ping(ctx)
	if err != nil {
		l.transport.CloseIdleConnections()
		return nil, err
	}
	l.NegotiateAPIVersionPing(ping)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = l
	return l, nil
}

// find gives the engine's address. One that was found by searching is kept:
// another engine that appears later is not the one whose sandboxes are known.
func (c *connection) find() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.address == "" {
		found, err := c.env.search()
		if err != nil {
			return "", err
		}
		c.address = found
	}
	return c.address, nil
}

// drop gives up a client, unless another took its place already. Calls that it
// is in are finished, but a stream of events ends.
func (c *connection) drop(l *liveClient) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == l {
		c.live = nil
		close(l.dropped)
	}
	l.transport.CloseIdleConnections()
}

func (c *connection) close() error {
	if l := c.current(); l != nil {
		c.drop(l)
	}
	return nil
}

func (c *connection) dial(address string) (*liveClient, error) {
	transport := &http.Transport{
		MaxIdleConns: inspectsAtOnce, MaxIdleConnsPerHost: inspectsAtOnce, IdleConnTimeout: 30 * time.Second,
	}
	scheme := "http"
	if folder := c.env.getenv("DOCKER_CERT_PATH"); folder != "" && strings.HasPrefix(address, "tcp://") {
		tls, err := tlsconfig.Client(tlsconfig.Options{
			CAFile:             filepath.Join(folder, "ca.pem"),
			CertFile:           filepath.Join(folder, "cert.pem"),
			KeyFile:            filepath.Join(folder, "key.pem"),
			InsecureSkipVerify: c.env.getenv("DOCKER_TLS_VERIFY") == "",
		})
		if err != nil {
			return nil, fmt.Errorf("read DOCKER_CERT_PATH: %s: %w", clip(err.Error()), providers.ErrUnavailable)
		}
		transport.TLSClientConfig, scheme = tls, "https"
	}
	recorded := &http.Client{Transport: recorder{transport, c}, CheckRedirect: client.CheckRedirect}
	cli, err := client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: transport}),
		client.WithHost(address), // teaches the transport to dial
		client.WithHTTPClient(recorded),
		client.WithScheme(scheme),
		client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", address, clip(err.Error()), providers.ErrUnavailable)
	}
	host := client.DummyHost // whatever the transport was taught, over a unix socket
	if rest, tcp := strings.CutPrefix(address, "tcp://"); tcp {
		host = rest
	}
	return &liveClient{
		engine: cli, http: recorded, base: scheme + "://" + host, transport: transport, dropped: make(chan struct{}),
	}, nil
}

// recorder notes in the request's context how a request went: the Docker client
// keeps only some statuses apart and hides why it could not connect. It also
// sees by each answer what time it is for the engine.
type recorder struct {
	next http.RoundTripper
	conn *connection
}

// exchange is how a request went.
type exchange struct {
	status  int  // of the answer; 0: there was none
	noEntry bool // nobody listens at the address
}

type exchangeKey struct{}

func (rec recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := rec.conn.now()
	resp, err := rec.next.RoundTrip(r)
	if err == nil {
		rec.conn.skew.note(sent, rec.conn.now(), resp.Header)
	}
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
		if err == nil {
			x.status = resp.StatusCode
		} else if op, ok := errors.AsType[*net.OpError](err); ok {
			x.noEntry = op.Op == "dial"
		}
	}
	return resp, err
}

// call makes one call. When the engine refuses the API version that was
// negotiated, it negotiates anew and tries once more.
func call[T any](ctx context.Context, c *connection, f func(context.Context, *liveClient) (T, error)) (T, *callError) {
	var none T
	for again := false; ; again = true {
		l, err := c.client(ctx)
		if err != nil {
			return none, c.failed(ctx, exchange{}, err)
		}
		var x exchange
		got, err := f(context.WithValue(ctx, exchangeKey{}, &x), l)
		if err == nil {
			return got, nil
		}
		if !again && refusedVersion(x.status, err) {
			c.drop(l)
			continue
		}
		return none, c.failed(ctx, x, err)
	}
}

// do is call for what gives nothing but an error.
func do(ctx context.Context, c *connection, f func(context.Context, *liveClient) error) *callError {
	_, err := call(ctx, c, func(ctx context.Context, e *liveClient) (struct{}, error) { return struct{}{}, f(ctx, e) })
	return err
}

// refusedVersion knows "client version 1.51 is too new. Maximum supported API
// version is 1.41" and its twin "is too old". The status alone, 400, says less.
func refusedVersion(status int, err error) bool {
	text := err.Error()
	return status == http.StatusBadRequest && strings.Contains(text, "client version") &&
		(strings.Contains(text, "is too new") || strings.Contains(text, "is too old"))
}
