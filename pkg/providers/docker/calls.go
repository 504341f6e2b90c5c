package docker

import (
	"maps"
	"regexp"
	"sync"
)

// tally counts the requests that were sent to an engine, by what they ask for.
type tally struct {
	mu sync.Mutex
	by map[string]uint64
}

// The requests, by the words under which they are counted.
var requests = []struct {
	op   string
	path *regexp.Regexp // of the method and the path, without a version
}{
	{"list", regexp.MustCompile(`^GET /containers/json$`)},
	{"inspect", regexp.MustCompile(`^GET /containers/[^/]+/json$`)},
	{"stop", regexp.MustCompile(`^POST /containers/[^/]+/(stop|kill)$`)},
	{"update", regexp.MustCompile(`^POST /containers/[^/]+/(update|pause|unpause)$`)},
	{"remove", regexp.MustCompile(`^DELETE /containers/[^/]+$`)},
	{"evidence", regexp.MustCompile(`^GET /containers/[^/]+/(logs|top)$`)},
	{"activity", regexp.MustCompile(`^GET /(containers/[^/]+/stats|exec/[^/]+/json)$`)},
	{"events", regexp.MustCompile(`^GET /events$`)},
	{"probe", regexp.MustCompile(`^GET /networks$`)},
	{"connect", regexp.MustCompile(`^(GET|HEAD) /(_ping|info|version)$`)},
}

const otherRequests = "other"

var version = regexp.MustCompile(`^/v[0-9.]+/`)

// opOf gives the word for a request.
func opOf(method, path string) string {
	asked := method + " " + version.ReplaceAllString(path, "/")
	for _, r := range requests {
		if r.path.MatchString(asked) {
			return r.op
		}
	}
	return otherRequests
}

func newTally() *tally {
	t := &tally{by: map[string]uint64{otherRequests: 0}}
	for _, r := range requests {
		t.by[r.op] = 0
	}
	return t
}

func (t *tally) note(method, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[opOf(method, path)]++
}

// Calls is how many requests were sent to the engine, by what they ask for: each
// op of a closed set is there from the start.
func (p *Provider) Calls() map[string]uint64 {
	p.conn.calls.mu.Lock()
	defer p.conn.calls.mu.Unlock()
	return maps.Clone(p.conn.calls.by)
}
