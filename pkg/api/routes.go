package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/reaperd/reaperd/internal/strictyaml"
)

// route is one that speaks JSON.
type route struct {
	method, path string
	// changes: not everybody may.
	changes bool
	// query are the parameters that it takes.
	query []string
	do    func(c *call) (status int, body any, err error)
}

// call is one request to a route, of somebody who may make it.
type call struct {
	*http.Request
	by    string // who asks; "" where it does not matter
	query url.Values
}

// problem is an error that says how it is answered.
type problem struct {
	status  int
	message string
	// challenge is what WWW-Authenticate says, if anything.
	challenge string
}

func (p *problem) Error() string { return p.message }

// mostBody is how large a request's body may be. None of the routes reads it.
const mostBody = 64 << 10

func handleRoutes(mux *http.ServeMux, o Options) {
	methods := map[string][]string{}
	for _, r := range append(leaseRoutes(o.Heartbeats), reloadRoute(o.Reload)) {
		methods[r.path] = append(methods[r.path], r.method)
		mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, req *http.Request) {
			status, body, err := r.answer(w, req, o.Token)
			if err != nil {
				refuse(w, err)
				return
			}
			answer(w, status, body)
		})
	}
	for path, allowed := range methods {
		if slices.Contains(allowed, http.MethodGet) {
			allowed = append(allowed, http.MethodHead)
		}
		slices.Sort(allowed)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			refuse(w, &problem{
				status:  http.StatusMethodNotAllowed,
				message: fmt.Sprintf("%s is not for %s: use %s", r.Method, r.URL.Path, strings.Join(allowed, ", ")),
			})
		})
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, &problem{status: http.StatusNotFound, message: fmt.Sprintf("there is no %s here", r.URL.Path)})
	})
}

func (r route) answer(w http.ResponseWriter, req *http.Request, token *Token) (status int, body any, err error) {
	c := call{Request: req}
	if r.changes {
		if c.by, err = asker(req, token); err != nil {
			return 0, nil, err
		}
	}
	if err := passOver(w, req); err != nil {
		return 0, nil, err
	}
	if c.query, err = queryOf(req.URL, r.query); err != nil {
		return 0, nil, err
	}
	return r.do(&c)
}

// passOver reads the body to its end, so that the connection can be used
// again, unless it is too long for that.
func passOver(w http.ResponseWriter, r *http.Request) error {
	tooLong := &problem{
		status:  http.StatusRequestEntityTooLarge,
		message: fmt.Sprintf("the body is longer than %d bytes: send none", mostBody),
	}
	if r.ContentLength > mostBody {
		w.Header().Set("Connection", "close")
		return tooLong
	}
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, mostBody))
	if _, is := errors.AsType[*http.MaxBytesError](err); is {
		return tooLong
	}
	if err != nil {
		return &problem{status: http.StatusBadRequest, message: fmt.Sprintf("read the body: %v", err)}
	}
	return nil
}

// queryOf reads the parameters strictly: one that is misspelt would silently
// mean its default.
func queryOf(u *url.URL, known []string) (url.Values, error) {
	bad := func(format string, args ...any) error {
		return &problem{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, bad("the query cannot be read: %v", err)
	}
	for name, values := range query {
		if !slices.Contains(known, name) {
			return nil, bad("unknown query parameter %.70q%s", name, strictyaml.DidYouMean(name, known))
		}
		if len(values) > 1 {
			return nil, bad("the query parameter %q is given %d times: give it once", name, len(values))
		}
	}
	return query, nil
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Cache-Control", "no-store")
	if body == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(body) // a client that went away is no concern of ours
}

// refuse answers with what is wrong.
func refuse(w http.ResponseWriter, err error) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		p = &problem{status: http.StatusInternalServerError, message: err.Error()}
	}
	if p.challenge != "" {
		w.Header().Set("WWW-Authenticate", p.challenge)
	}
	answer(w, p.status, struct {
		Error string `json:"error"`
	}{p.message})
}

func reloadRoute(reload func() error) route {
	return route{method: http.MethodPost, path: "/-/reload", changes: true, do: func(*call) (int, any, error) {
		if reload == nil {
			return 0, nil, &problem{status: http.StatusNotImplemented, message: "this reaperd cannot be asked to reload"}
		}
		if err := reload(); err != nil {
			return 0, nil, err
		}
		return http.StatusOK, struct {
			Status string `json:"status"`
		}{"reloaded"}, nil
	}}
}
