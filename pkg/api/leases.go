package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/reaperd/reaperd/internal/duration"
	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/providers"
)

// Heartbeats takes leases and heartbeats. Its errors are lease.ErrKey,
// ErrTTL, ErrUnknown and ErrFull, and providers.ErrNotFound and
// ErrUnavailable; any other is the daemon's own fault. by says who asks, as it
// goes into the records: "uid 1000" or "token".
type Heartbeats interface {
	// Renew makes a lease or renews it; l has the ttl that it got.
	Renew(key string, ttl time.Duration, by string) (l lease.Lease, created bool, err error)
	// Release ends a lease: what it covered is due at once.
	Release(key, by string) (lease.Lease, error)
	// Forget takes a lease out of the judging, which kills nothing.
	Forget(key, by string) error
	// Lease gives a lease, also one that is over.
	Lease(key string) (lease.Lease, error)
	// Beat takes a heartbeat for one sandbox, by its id or the beginning of
	// that if no other has it, and gives the whole.
	Beat(ref providers.Ref, by string) (providers.Ref, error)
}

// usualTTL is the ttl of a lease that asks for none.
const usualTTL = time.Minute

func leaseRoutes(h Heartbeats) []route {
	const one = "/api/v1/leases/{key}"
	routes := []route{
		{method: http.MethodPut, path: one, changes: true, query: []string{"ttl"}, do: func(c *call) (int, any, error) {
			ttl := usualTTL
			if c.query.Has("ttl") {
				var err error
				if ttl, err = duration.Parse(c.query.Get("ttl")); err != nil {
					return 0, nil, &problem{status: http.StatusBadRequest, message: "ttl: " + err.Error()}
				}
			}
			l, created, err := h.Renew(c.PathValue("key"), ttl, c.by)
			if created {
				return http.StatusCreated, leaseAnswer(l), err
			}
			return http.StatusOK, leaseAnswer(l), err
		}},
		{method: http.MethodGet, path: one, do: func(c *call) (int, any, error) {
			l, err := h.Lease(c.PathValue("key"))
			return http.StatusOK, leaseAnswer(l), err
		}},
		{method: http.MethodDelete, path: one, changes: true, do: func(c *call) (int, any, error) {
			return http.StatusNoContent, nil, h.Forget(c.PathValue("key"), c.by)
		}},
		{method: http.MethodPost, path: one + "/release", changes: true, do: func(c *call) (int, any, error) {
			l, err := h.Release(c.PathValue("key"), c.by)
			return http.StatusOK, leaseAnswer(l), err
		}},
		{method: http.MethodPut, path: "/api/v1/sandboxes/{provider}/{id}/heartbeat", changes: true, do: func(c *call) (int, any, error) {
			ref, err := h.Beat(providers.Ref{Provider: c.PathValue("provider"), ID: c.PathValue("id")}, c.by)
			return http.StatusOK, struct {
				Provider string `json:"provider"`
				ID       string `json:"id"`
			}{ref.Provider, ref.ID}, err
		}},
	}
	for i := range routes {
		do := routes[i].do
		routes[i].do = func(c *call) (int, any, error) {
			if h == nil {
				return 0, nil, &problem{status: http.StatusNotImplemented, message: "this reaperd takes no heartbeats"}
			}
			status, body, err := do(c)
			return status, body, heartbeatProblem(err)
		}
	}
	return routes
}

// heartbeatProblem says how an error of Heartbeats is answered.
func heartbeatProblem(err error) error {
	for _, known := range []struct {
		err    error
		status int
	}{
		{lease.ErrKey, http.StatusBadRequest},
		{lease.ErrTTL, http.StatusBadRequest},
		{lease.ErrUnknown, http.StatusNotFound},
		{providers.ErrNotFound, http.StatusNotFound},
		{lease.ErrFull, http.StatusServiceUnavailable},
		{providers.ErrUnavailable, http.StatusServiceUnavailable},
	} {
		if errors.Is(err, known.err) {
			return &problem{status: known.status, message: err.Error()}
		}
	}
	return err
}

// leaseJSON is a lease as it is answered.
type leaseJSON struct {
	Key       string      `json:"key"`
	State     lease.State `json:"state"`
	TTL       string      `json:"ttl"`
	Created   time.Time   `json:"created,omitzero"`
	Renewed   time.Time   `json:"renewed,omitzero"`
	Ends      time.Time   `json:"ends,omitzero"` // unless it is renewed
	Released  time.Time   `json:"released,omitzero"`
	Forgotten time.Time   `json:"forgotten,omitzero"`
	By        string      `json:"by"`
}

func leaseAnswer(l lease.Lease) leaseJSON {
	return leaseJSON{
		Key: l.Key, State: l.State(time.Now()), TTL: duration.Format(l.TTL),
		Created: l.Created.UTC(), Renewed: l.Renewed.UTC(), Ends: l.Ends().UTC(),
		Released: l.Released.UTC(), Forgotten: l.Forgotten.UTC(), By: l.By,
	}
}
