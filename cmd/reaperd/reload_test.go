package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/api"
)

const lastReload = "reaperd_config_last_reload_successful"

// rewrite puts another text in the place of a file of the scene's.
func (s *scene) rewrite(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(filepath.Dir(s.file), name)
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "$ID", s.id)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) configuration(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// reload sends SIGHUP and waits for what the daemon says of it.
func (d *service) reload(t *testing.T, says string) map[string]any {
	t.Helper()
	before := len(d.logged(says, ""))
	d.signal(t, syscall.SIGHUP)
	until(t, "the daemon says: "+says, func() bool {
		if d.ended() {
			t.Fatal("the daemon ended")
		}
		return len(d.logged(says, "")) > before
	})
	lines := d.logged(says, "")
	return lines[len(lines)-1]
}

const (
	reloaded = "reloaded"
	refused  = "reload failed, and what ran before runs on"
)

const spareAll = `version: 1
policies:
  - name: all
    match: {tags: {reaperd.test: $ID}}
    limits: {max_uptime: 100d}
`

// A process is spared by the policies that the daemon starts with, and taken by
// those that it is given.
func TestReloadTakesUpNewPolicies(t *testing.T) {
	t.Parallel()
	s := newScene(t, spareAll, "  - {name: local, kind: process}\n")
	ended := s.process(t, "a")
	d := s.daemon(t)
	s.rewrite(t, "p.yaml", takeAll)
	d.reload(t, reloaded)
	<-ended
	d.untilMetric(t, `reaperd_reclaims_total{outcome="reclaimed",policy="all",provider="local",reason="max_uptime"}`, 1)
	d.stop(t)
}

func TestAReloadThatFailsLeavesAllAsItWas(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	s := newScene(t, spareAll, "  - {name: local, kind: process}\n")
	good := s.configuration(t)
	d := s.daemon(t)
	for _, tc := range []struct{ name, policies, config, says string }{
		{"a misspelt limit", strings.ReplaceAll(takeAll, "max_uptime", "max_uptim"), good, `did you mean "max_uptime"?`},
		{"half a file", takeAll[:40], good, "p.yaml"},
		{"no policies", spareAll, strings.ReplaceAll(good, "policies: [p.yaml]", "policies: []"), "no policies"},
		{"a file that is not there", spareAll, strings.ReplaceAll(good, "p.yaml", "q.yaml"), "matches no file"},
		{"an unknown key", takeAll, good + "dryrun: true\n", `did you mean "dry_run"?`},
		{"a taken address", takeAll, strings.ReplaceAll(good, "127.0.0.1:0", taken.Addr().String()), "address already in use"},
		{"another state", takeAll, strings.ReplaceAll(good, "dsn: ''", "dsn: auto"), "state.dsn cannot be changed"},
		{"another log format", takeAll, strings.ReplaceAll(good, "log: {level: debug}", "log: {level: debug, format: console}"), "restart the daemon"},
	} {
		t.Log(tc.name)
		s.rewrite(t, "p.yaml", tc.policies)
		s.rewrite(t, "reaperd.yaml", tc.config)
		if line := d.reload(t, refused); !strings.Contains(fmt.Sprint(line["error"]), tc.says) {
			t.Errorf("%s: it says %v, want %q", tc.name, line["error"], tc.says)
		}
		d.untilMetric(t, lastReload, 0)
	}
	ended := s.process(t, "a")
	d.scans(t, "local", 3)
	select {
	case <-ended:
		t.Error("policies of a reload that failed were carried out")
	default:
	}
	s.rewrite(t, "p.yaml", spareAll)
	s.rewrite(t, "reaperd.yaml", good)
	d.reload(t, reloaded)
	d.untilMetric(t, lastReload, 1)
	d.stop(t)
}

func TestReloadMovesTheListener(t *testing.T) {
	t.Parallel()
	s := newScene(t, spareAll, "  - {name: local, kind: process}\n")
	d := s.daemon(t)
	old := d.address
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	s.rewrite(t, "reaperd.yaml", strings.ReplaceAll(s.configuration(t), "127.0.0.1:0", address))
	if line := d.reload(t, reloaded); line["listen"] != address {
		t.Errorf("it listens on %v, want %s", line["listen"], address)
	}
	d.address = address
	if status, body := d.get(t, "/readyz"); status != 200 {
		t.Errorf("at the new address: %d %s", status, body)
	}
	if c, err := net.Dial("tcp", old); err == nil {
		_ = c.Close()
		t.Error("the old address still answers")
	}
	d.stop(t)
}

// Twenty signals at once, and one in the middle of a scan: the daemon lives, and
// what runs in the end is what the files say.
func TestManyHangupsAreOne(t *testing.T) {
	t.Parallel()
	s := newScene(t, spareAll, "  - {name: local, kind: process}\n")
	ended := s.process(t, "a")
	d := s.daemon(t)
	for range 20 {
		d.signal(t, syscall.SIGHUP)
	}
	s.rewrite(t, "p.yaml", takeAll)
	d.reload(t, reloaded)
	<-ended
	d.stop(t)
}

// A slow client of the old address is no reason to say that the reload failed,
// to leave it half done, or to have whoever asked for it wait.
func TestASlowClientDoesNotKeepTheListenerFromMoving(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	f := front{failed: func(err error) { t.Error(err) }, log: zap.NewNop(), options: api.Options{
		Metrics: prometheus.NewRegistry(),
		Ready:   func() error { close(asked); <-answer; return nil },
	}}
	if err := f.open(t.Context(), places{listen: "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	first, got := f.tcp.Addr(), make(chan error, 1)
	go func() {
		got <- visit(t.Context(), "http://"+first+"/readyz")
	}()
	<-asked
	if err := f.open(t.Context(), places{listen: "localhost:0"}); err != nil {
		t.Errorf("open: %v", err)
	}
	if len(got) > 0 {
		t.Error("the slow client was waited for, or given no time")
	}
	if c, err := net.Dial("tcp", first); err == nil {
		_ = c.Close()
		t.Error("the old address still answers")
	}
	if err := <-got; err == nil {
		t.Error("the slow client was waited for longer than a reload may take")
	}
	close(answer)
	if err := visit(t.Context(), "http://"+f.tcp.Addr()+"/healthz"); err != nil {
		t.Error(err)
	}
	if err := f.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// visit makes one request, whose answer does not matter.
func visit(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// An engine that was detected and is just being restarted when the daemon
// reloads is one that cannot be looked at, not one that there is not.
func TestAReloadKeepsWhatWasDetected(t *testing.T) {
	t.Parallel()
	host := "DOCKER_HOST"
	env := environment{getenv: func(name string) string {
		if name == host {
			return "unix:///nowhere/docker.sock"
		}
		return ""
	}, environ: func() []string { return nil }}
	config := &loaded{Config: defaultConfig()}
	b, err := assemble(env, config, buildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	host = "" // it is there no more
	next := *b
	if _, err := next.draw(env, config, buildOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, target := range next.targets {
		if target.Kind == "docker" {
			return
		}
	}
	t.Errorf("the engine is not looked at any more: %v", next.detected)
}
