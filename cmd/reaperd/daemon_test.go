package main

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// scene is one test's own corner: a tag that only its sandboxes carry, and a
// configuration whose policies ask for that tag.
type scene struct {
	id   string
	file string
}

// sceneTag is on every sandbox of these tests, with the scene's id.
const sceneTag = "reaperd.test"

// newScene writes the configuration of an armed daemon that scans every second.
// In both texts $ID stands for the scene's id.
func newScene(t testing.TB, policies, providers string) *scene {
	t.Helper()
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails
	s := &scene{id: hex.EncodeToString(b)}
	in := strings.NewReplacer("$ID", s.id)
	config := "dry_run: false\nschedule: '@every 1s'\nlog: {level: debug}\nstate: {dsn: ''}\nhttp: {listen: '127.0.0.1:0'}\nsocket: {path: ''}\npolicies: [p.yaml]\nproviders:\n"
	dir := write(t, "reaperd.yaml", config+in.Replace(providers), "p.yaml", in.Replace(policies))
	s.file = filepath.Join(dir, "reaperd.yaml")
	return s
}

// tags gives the scene's tag and more, as key and value by turns.
func (s *scene) tags(more ...string) map[string]string {
	tags := map[string]string{sceneTag: s.id}
	for i := 0; i < len(more); i += 2 {
		tags[more[i]] = more[i+1]
	}
	return tags
}

// box starts a container that carries the scene's tag and more.
func (s *scene) box(t testing.TB, e *enginetest.Engine, more ...string) string {
	t.Helper()
	return e.Run(t, enginetest.Options{Labels: s.tags(more...)})
}

// once is the outcome of run --once as a child.
func (s *scene) once(t testing.TB, args ...string) said {
	t.Helper()
	c := start(t, nil, nil, append([]string{"run", "--once", "-c", s.file}, args...)...)
	code := c.wait(t)
	return said{code, c.out.String(), c.errs.String()}
}

// dockerAt is a provider's line in a configuration.
func dockerAt(name, host string) string {
	return fmt.Sprintf("  - {name: %s, kind: docker, host: %q}\n", name, host)
}

// takeAll is a policy that takes everything of the scene's at once.
const takeAll = `version: 1
policies:
  - name: all
    match: {tags: {reaperd.test: $ID}}
    limits: {max_uptime: 1ms}
    action: {type: remove, grace: 0s}
`

// service is a running daemon.
type service struct {
	*spawned
	address string
}

// daemon starts the daemon and waits until it says that it runs.
func (s *scene) daemon(t testing.TB, args ...string) *service {
	t.Helper()
	return s.daemonAs(t, nil, args...)
}

func (s *scene) daemonAs(t testing.TB, adjust func(*exec.Cmd), args ...string) *service {
	t.Helper()
	d := &service{spawned: start(t, nil, adjust, append([]string{"run", "-c", s.file}, args...)...)}
	until(t, "the daemon runs", func() bool {
		if d.ended() {
			t.Fatal("the daemon ended")
		}
		for _, line := range d.lines() {
			if line["msg"] == "reaperd is running" {
				d.address, _ = line["listen"].(string)
			}
		}
		return d.address != ""
	})
	return d
}

// lines gives its log so far.
func (d *service) lines() []map[string]any {
	var lines []map[string]any
	for line := range strings.Lines(d.errs.String()) {
		var fields map[string]any
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &fields) == nil {
			lines = append(lines, fields)
		}
	}
	return lines
}

// logged gives the lines of its log that say msg of that sandbox; "" is any.
func (d *service) logged(msg, sandbox string) []map[string]any {
	var found []map[string]any
	for _, line := range d.lines() {
		if line["msg"] == msg && (sandbox == "" || line["sandbox"] == sandbox) {
			found = append(found, line)
		}
	}
	return found
}

// get fetches a page.
func (d *service) get(t testing.TB, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + d.address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// metrics gives every series by its full name.
func (d *service) metrics(t testing.TB) map[string]float64 {
	t.Helper()
	status, body := d.get(t, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics: %d %s", status, body)
	}
	series := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		name, value, _ := cutLast(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(name, "#") {
			series[name] = v
		}
	}
	return series
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// untilMetric waits for a series to have a value.
func (d *service) untilMetric(t testing.TB, series string, want float64) {
	t.Helper()
	var got map[string]float64
	defer func() {
		if t.Failed() {
			maps.DeleteFunc(got, func(name string, _ float64) bool { return !strings.HasPrefix(name, "reaperd_") })
			t.Logf("the last metrics: %v", got)
		}
	}()
	until(t, fmt.Sprintf("%s is %v", series, want), func() bool {
		got = d.metrics(t)
		v, there := got[series]
		return there && v == want
	})
}

// scans waits for that many more successful scans of a provider.
func (d *service) scans(t testing.TB, provider string, n float64) {
	t.Helper()
	series := fmt.Sprintf(`reaperd_scans_total{provider=%q,result="success"}`, provider)
	from := d.metrics(t)[series]
	until(t, "there were more scans of "+provider, func() bool { return d.metrics(t)[series] >= from+n })
}

// stop ends the daemon as systemd would and expects a clean end.
func (d *service) stop(t testing.TB) {
	t.Helper()
	d.signal(t, syscall.SIGTERM)
	if code := d.wait(t); code != exitClean {
		t.Errorf("the daemon ended with %d", code)
	}
}
