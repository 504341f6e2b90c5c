package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/lease"
)

func TestRoutesOfLeases(t *testing.T) {
	b := newBook()
	o := options()
	o.Heartbeats = b
	path := newPath(t)
	serve(t, listenSocket(t, path, o))
	c := overSocket(t, path)
	const one, long = "/api/v1/leases/job", `a lease's key is 1 to 64 of A-Z, a-z, 0-9, dot, underscore and hyphen`
	for _, tc := range []struct {
		method, path string
		body         io.Reader
		status       int
		says         string
	}{
		{"GET", one, nil, 404, `{"error":"look up lease \"job\": there is no such lease"}`},
		{"POST", one + "/release", nil, 404, `{"error":"release lease \"job\": there is no such lease"}`},
		{"DELETE", one, nil, 404, `{"error":"forget lease \"job\": there is no such lease"}`},
		{"PUT", one, nil, 201, `"ttl":"1m"`},
		{"PUT", one + "?ttl=90s", nil, 200, `"ttl":"1m30s"`},
		{"PUT", one + "?ttl=2w", nil, 200, `"ttl":"1d"`},
		{"PUT", one, strings.NewReader(`{"whatever": 1}`), 200, `"state":"live"`},
		{"GET", one, nil, 200, `"state":"live"`},
		{"HEAD", one, nil, 200, ""},
		{"POST", one + "/release", nil, 200, `"state":"released"`},
		{"POST", one + "/release", nil, 200, `"state":"released"`},
		{"PUT", one, nil, 201, `"state":"live"`},
		{"DELETE", one, nil, 204, ""},
		{"DELETE", one, nil, 204, ""},
		{"GET", one, nil, 200, `"state":"forgotten"`},
		{"POST", one + "/release", nil, 404, "there is no such lease"},

		{"PUT", one + "?tll=5s", nil, 400, `{"error":"unknown query parameter \"tll\": did you mean \"ttl\"?"}`},
		{"PUT", one + "?ttl=5s&ttl=6s", nil, 400, `{"error":"the query parameter \"ttl\" is given 2 times: give it once"}`},
		{"PUT", one + "?ttl=5s;x", nil, 400, `the query cannot be read`},
		{"PUT", one + "?ttl=%zz", nil, 400, `the query cannot be read`},
		{"PUT", one + "?ttl=5", nil, 400, `{"error":"ttl: \"5\" has no unit: write 5s, 5m or 5h for seconds, minutes or hours"}`},
		{"PUT", one + "?ttl=", nil, 400, `ttl: a duration is missing`},
		{"PUT", one + "?ttl", nil, 400, `ttl: a duration is missing`},
		{"PUT", one + "?ttl=0s", nil, 400, `ttl: \"0s\" must be more than zero`},
		{"PUT", one + "?ttl=-5s", nil, 400, `ttl: \"-5s\" is negative`},
		{"GET", one + "?ttl=5s", nil, 400, `unknown query parameter \"ttl\"`},
		{"DELETE", one + "?force=1", nil, 400, `unknown query parameter \"force\"`},
		{"POST", one + "/release?x", nil, 400, `unknown query parameter \"x\"`},

		{"PUT", "/api/v1/leases/a%2Fb", nil, 400, `{"error":"renew lease \"a/b\": ` + long + `"}`},
		{"GET", "/api/v1/leases/a%20b", nil, 400, long},
		{"POST", "/api/v1/leases/a%00b/release", nil, 400, long},
		{"DELETE", "/api/v1/leases/%E2%82%AC", nil, 400, long},
		{"PUT", "/api/v1/leases/" + strings.Repeat("k", 65), nil, 400, long},
		{"PUT", "/api/v1/leases/" + strings.Repeat("k", 64), nil, 201, `"state":"live"`},

		{"PUT", "/api/v1/sandboxes/dev/0123/heartbeat", nil, 200, `{"provider":"dev","id":"0123456789ab"}`},
		{"PUT", "/api/v1/sandboxes/dev/9/heartbeat", nil, 404, `{"error":"beat for dev/9: sandbox not found"}`},
		{"PUT", "/api/v1/sandboxes/down/0/heartbeat", nil, 503, `provider unavailable`},
		{"PUT", "/api/v1/sandboxes/broken/0/heartbeat", nil, 500, `{"error":"beat for broken/0: out of ink"}`},
		{"PUT", "/api/v1/sandboxes/dev/0123/heartbeat?ttl=1s", nil, 400, `unknown query parameter \"ttl\"`},

		{"POST", one, nil, 405, `{"error":"POST is not for /api/v1/leases/job: use DELETE, GET, HEAD, PUT"}`},
		{"DELETE", one + "/release", nil, 405, `use POST`},
		{"GET", "/api/v1/sandboxes/dev/0123/heartbeat", nil, 405, `use PUT`},
		{"PUT", "/-/reload", nil, 405, `use POST`},
		{"PUT", "/api/v1/leases/", nil, 404, `{"error":"there is no /api/v1/leases/ here"}`},
		{"GET", "/api/v2", nil, 404, `{"error":"there is no /api/v2 here"}`},
		{"GET", "/api/v1/leases/job/renew", nil, 404, `there is no`},

		{"PUT", one, strings.NewReader(strings.Repeat("x", mostBody)), 201, `"state":"live"`},
		{"PUT", one, strings.NewReader(strings.Repeat("x", mostBody+1)), 413, `{"error":"the body is longer than 65536 bytes: send none"}`},
		{"PUT", one, io.LimitReader(zeros{}, mostBody+1), 413, `{"error":"the body is longer than 65536 bytes: send none"}`}, // of a length not told
		{"GET", one, io.LimitReader(zeros{}, mostBody+1), 413, `send none`},
	} {
		got := c.do(t, tc.method, tc.path, tc.body)
		if got.status != tc.status || !strings.Contains(got.body, tc.says) {
			t.Errorf("%s %s: %d %q; want %d and %q", tc.method, tc.path, got.status, got.body, tc.status, tc.says)
		}
		if kind := got.header.Get("Content-Type"); got.body != "" && kind != "application/json" {
			t.Errorf("%s %s: %s", tc.method, tc.path, kind)
		}
		if allow := got.header.Get("Allow"); (got.status == 405) != (allow != "") {
			t.Errorf("%s %s: Allow %q", tc.method, tc.path, allow)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestALeaseAsItIsAnswered(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	at := time.Date(2026, time.March, 14, 12, 0, 0, 0, berlin)
	b, err := json.Marshal(leaseAnswer(lease.Lease{
		Key: "job", TTL: 90 * time.Second, Created: at, Renewed: at.Add(time.Hour), Released: at.Add(2 * time.Hour), By: "uid 1000",
	}))
	want := `{"key":"job","state":"released","ttl":"1m30s","created":"2026-03-14T11:00:00Z","renewed":"2026-03-14T12:00:00Z",` +
		`"ends":"2026-03-14T12:01:30Z","released":"2026-03-14T13:00:00Z","by":"uid 1000"}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v\nwant %s", b, err, want)
	}
}

func TestWithoutHeartbeatsThereAreNoLeases(t *testing.T) {
	path := newPath(t)
	serve(t, listenSocket(t, path, options()))
	c := overSocket(t, path)
	for _, r := range append(leaseRoutes(nil), reloadRoute(nil)) {
		got := c.do(t, r.method, strings.NewReplacer("{key}", "job", "{provider}", "dev", "{id}", "1").Replace(r.path), nil)
		if got.status != 501 || !strings.Contains(got.body, `{"error":"this reaperd`) {
			t.Errorf("%s %s: %+v", r.method, r.path, got)
		}
	}
}

func TestReloadTellsWhatBecameOfIt(t *testing.T) {
	var wrong error
	o := options()
	o.Reload = func() error { return wrong }
	path := newPath(t)
	serve(t, listenSocket(t, path, o))
	c := overSocket(t, path)
	if got := c.do(t, "POST", "/-/reload", nil); got.status != 200 || got.body != "{\"status\":\"reloaded\"}\n" {
		t.Errorf("%+v", got)
	}
	wrong = errors.New(`p.yaml:3:5: unknown key "max_uptim"`)
	if got := c.do(t, "POST", "/-/reload", nil); got.status != 500 || !strings.Contains(got.body, `{"error":"p.yaml:3:5: unknown key \"max_uptim\""}`) {
		t.Errorf("%+v", got)
	}
}

func TestWhoConnectsOverTheSocketIsRecorded(t *testing.T) {
	b := newBook()
	o := options()
	o.Heartbeats = b
	path := newPath(t)
	serve(t, listenSocket(t, path, o))
	c := overSocket(t, path)
	c.do(t, "PUT", "/api/v1/leases/job", nil)
	c.do(t, "PUT", "/api/v1/sandboxes/dev/01/heartbeat", nil)
	want := fmt.Sprintf("uid %d", os.Getuid())
	if l, err := b.Get("job"); err != nil || l.By != want || len(b.beats) != 1 || b.beats[0] != want {
		t.Errorf("%+v, %q, %v, want %s", l, b.beats, err, want)
	}
}

// Whoever renews and whoever releases at the same time are each answered, and
// what was released last stays so.
func TestManyBeatsAndReleasesAtOnce(t *testing.T) {
	t.Parallel()
	const beaters, each = 50, 200
	b := newBook()
	o := options()
	o.Heartbeats = b
	path := newPath(t)
	serve(t, listenSocket(t, path, o))
	c := overSocket(t, path)
	var wg sync.WaitGroup
	for i := range beaters {
		wg.Go(func() {
			for n := range each {
				url := fmt.Sprintf("/api/v1/leases/job-%d?ttl=%ds", n%10, 60+i)
				if got := c.do(t, "PUT", url, nil); got.status != 200 && got.status != 201 {
					t.Errorf("%+v", got)
				}
				if i == 0 {
					if got := c.do(t, "POST", fmt.Sprintf("/api/v1/leases/job-%d/release", n%10), nil); got.status != 200 {
						t.Errorf("%+v", got)
					}
				}
			}
		})
	}
	wg.Wait()
	for n := range 10 {
		key := fmt.Sprintf("job-%d", n)
		c.do(t, "POST", "/api/v1/leases/"+key+"/release", nil)
		if l, err := b.Get(key); err != nil || l.State(time.Now()) != lease.Released {
			t.Errorf("%+v, %v", l, err)
		}
	}
	if n := len(b.Unsaved(lease.Origin{})); n != 10 {
		t.Errorf("%d leases to save", n)
	}
}
