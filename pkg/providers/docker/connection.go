package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

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
	ContainerStatsOneShot(ctx context.Context, id string) (container.StatsResponseReader, error)
	ContainerExecInspect(ctx context.Context, exec string) (container.ExecInspect, error)
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
	settings Settings
	env      environment
	now      func() time.Time // by which skew is measured
	skew     skew
	calls    *tally
	// turn lets one caller at a time make a client. Others wait for it, but no
	// longer than their own contexts allow.
	turn slots

	mu    sync.Mutex
	place place // the zero place until it is found
	live  *liveClient
}

// liveClient is a client and what lies below it.
type liveClient struct {
	engine
	http      *http.Client // for what the Docker client has no call for
	base      string       // before the path in such a request's URL
	transport *http.Transport
	speaks    string        // the highest API version that the engine said it has
	dropped   chan struct{} // closed when it is given up
}

func newConnection(s Settings, env environment) (*connection, error) {
	chosen, err := env.chosen(s)
	if err != nil {
		return nil, err
	}
	return &connection{settings: s, env: env, now: time.Now, calls: newTally(), turn: make(slots, 1), place: chosen}, nil
}

// where is the engine's address, for people.
func (c *connection) where() string {
	if at := c.at(); at.address != "" {
		return at.String()
	}
	return "an address not found yet"
}

func (c *connection) at() place {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.place
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
	at, err := c.find()
	if err != nil {
		return nil, err
	}
	l, err := c.dial(at)
	if err != nil {
		return nil, err
	}
	var x exchange
	ping, err := l.Ping(context.WithValue(ctx, exchangeKey{}, &x))
	if err != nil {
		l.transport.CloseIdleConnections()
		return nil, x.reason(err)
	}
	l.NegotiateAPIVersionPing(ping)
	l.speaks = ping.APIVersion
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = l
	return l, nil
}

// find gives the engine's place. One that was found by searching is kept:
// another engine that appears later is not the one whose sandboxes are known.
func (c *connection) find() (place, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place.address == "" {
		found, err := c.env.search(c.settings)
		if err != nil {
			return place{}, err
		}
		c.place = found
	}
	return c.place, nil
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

func (c *connection) dial(at place) (*liveClient, error) {
	transport := &http.Transport{
		MaxIdleConns: inspectsAtOnce, MaxIdleConnsPerHost: inspectsAtOnce, IdleConnTimeout: 30 * time.Second,
	}
	scheme, to := "http", at.address
	var through *sshDialer
	if strings.HasPrefix(at.address, "ssh://") {
		var err error
		if through, err = newSSHDialer(at.address); err != nil {
			return nil, &reachError{at.String() + ": " + clip(err.Error()), providers.ErrUnavailable}
		}
		to = "http://" + client.DummyHost
	}
	if at.tls != nil {
		config, err := at.tls.config()
		if err != nil {
			return nil, err
		}
		// The former is for a connection through a proxy that the environment
		// names, the latter for all others.
		transport.TLSClientConfig, transport.DialTLSContext, scheme = config, at.tls.dial, "https"
	}
	recorded := &http.Client{Transport: recorder{transport, c}, CheckRedirect: client.CheckRedirect}
	cli, err := client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: transport}),
		client.WithHost(to), // teaches the transport to dial
		client.WithHTTPClient(recorded),
		client.WithScheme(scheme),
		client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", at, clip(err.Error()), providers.ErrUnavailable)
	}
	if through != nil {
		transport.DialContext, transport.Proxy = through.dial, nil
	}
	host := client.DummyHost // whatever the transport was taught, over a unix socket
	if rest, tcp := strings.CutPrefix(at.address, "tcp://"); tcp {
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
	status  int         // of the answer; 0: there was none
	noEntry bool        // the engine was not reached
	why     *reachError // why it was not, where that is known better than the client tells
	speaks  string      // the engine's highest API version, where it refused the client's
}

// reason gives the better of two errors.
func (x exchange) reason(err error) error {
	if x.why != nil {
		return x.why
	}
	return err
}

type exchangeKey struct{}

func (rec recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	rec.conn.calls.note(r.Method, r.URL.Path)
	sent := rec.conn.now()
	resp, err := rec.next.RoundTrip(r)
	if err == nil {
		rec.conn.skew.note(sent, rec.conn.now(), resp.Header)
	}
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
		if err == nil {
			x.status = resp.StatusCode
		} else {
			x.why = rec.conn.unreached(err)
			op, isOp := errors.AsType[*net.OpError](err)
			x.noEntry = x.why != nil || isOp && op.Op == "dial"
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
		x.speaks = l.speaks
		return none, c.failed(ctx, x, x.reason(err))
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
