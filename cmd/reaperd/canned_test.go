package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// cannedEngine answers as a Docker engine would, with containers made up by a
// test: what a real engine has no means to show, and no need of root.
type cannedEngine struct {
	host string

	mu         sync.Mutex
	containers []canned
	changes    []string // requests that change something
	sick       bool     // answers nothing but 500
	stubborn   string   // the container that it fails to delete
}

// cannedError makes an answer a status of 500.
type cannedError string

type canned struct {
	id, name, image, status string
	labels                  map[string]string
	created, started        time.Time
}

func newCannedEngine(t *testing.T, containers ...canned) *cannedEngine {
	t.Helper()
	e := &cannedEngine{containers: containers}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_ping", e.answer(func(*http.Request) any { return "OK" }))
	mux.HandleFunc("GET /v1.41/info", e.answer(func(*http.Request) any { return map[string]string{"ID": t.Name()} }))
	mux.HandleFunc("GET /v1.41/containers/json", e.answer(e.list))
	mux.HandleFunc("GET /v1.41/containers/{id}/json", e.answer(func(r *http.Request) any {
		if i := e.index(r); i >= 0 {
			return e.containers[i].inspect()
		}
		return nil
	}))
	mux.HandleFunc("POST /v1.41/containers/{id}/stop", e.answer(func(r *http.Request) any {
		e.changes = append(e.changes, r.Method+" "+r.URL.RequestURI())
		if i := e.index(r); i >= 0 {
			e.containers[i].status = "exited"
			return ""
		}
		return nil
	}))
	mux.HandleFunc("DELETE /v1.41/containers/{id}", e.answer(func(r *http.Request) any {
		if r.PathValue("id") == e.stubborn {
			return cannedError("device busy")
		}
		e.changes = append(e.changes, r.Method+" "+r.URL.RequestURI())
		i := e.index(r)
		if i < 0 {
			return nil
		}
		e.containers = slices.Delete(e.containers, i, i+1)
		return ""
	}))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	e.host = "tcp://" + srv.Listener.Addr().String()
	return e
}

// answer gives what f does as JSON, and 404 for nil.
func (e *cannedEngine) answer(f func(*http.Request) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		w.Header().Set("API-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		if e.sick && r.URL.Path != "/_ping" {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"message":"no \u001b[31mspace left"}`))
			return
		}
		v := f(r)
		if v == nil {
			w.WriteHeader(http.StatusNotFound)
			v = map[string]string{"message": "No such container"}
		}
		if text, ok := v.(cannedError); ok {
			w.WriteHeader(http.StatusInternalServerError)
			v = map[string]string{"message": string(text)}
		}
		_ = json.NewEncoder(w).Encode(v)
	}
}

func (e *cannedEngine) index(r *http.Request) int {
	return slices.IndexFunc(e.containers, func(c canned) bool { return c.id == r.PathValue("id") })
}

func (e *cannedEngine) list(*http.Request) any {
	out := []any{}
	for _, c := range e.containers {
		out = append(out, map[string]any{
			"Id": c.id, "Names": []string{"/" + c.name}, "Image": c.image, "State": c.status,
			"Labels": c.labels, "Created": c.created.Unix(),
		})
	}
	return out
}

func (c canned) inspect() any {
	return map[string]any{
		"Id": c.id, "Name": "/" + c.name, "Created": c.created.Format(time.RFC3339Nano),
		"State":      map[string]any{"Status": c.status, "StartedAt": c.started.Format(time.RFC3339Nano), "FinishedAt": "0001-01-01T00:00:00Z"},
		"Config":     map[string]any{"Image": c.image, "Labels": c.labels},
		"HostConfig": map[string]any{"NetworkMode": "none"},
	}
}

// made gives the requests that changed something since the last call.
func (e *cannedEngine) made() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	made := e.changes
	e.changes = nil
	return made
}

func (e *cannedEngine) setSick(sick bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sick = sick
}

// hexID gives a full container id that begins with the digits given.
func hexID(start string) string { return start + strings.Repeat("0", 64-len(start)) }

// cannedConfig writes a configuration for the engines given, each under a name,
// with policies, and gives its path.
func cannedConfig(t *testing.T, policies string, engines ...any) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("policies: [p.yaml]\nproviders:\n")
	for i := 0; i < len(engines); i += 2 {
		host, ok := engines[i+1].(string)
		if !ok {
			host = engines[i+1].(*cannedEngine).host
		}
		fmt.Fprintf(&b, "  - {name: %s, kind: docker, host: %q}\n", engines[i], host)
	}
	return write(t, "reaperd.yaml", b.String(), "p.yaml", policies) + "/reaperd.yaml"
}
