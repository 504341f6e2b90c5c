package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// startDemo starts a demo whose temporary files go to a folder of its own.
func startDemo(t *testing.T, dockerHost string, args ...string) (c *spawned, temp string) {
	t.Helper()
	temp = t.TempDir()
	c = start(t, []string{"DOCKER_HOST=" + dockerHost}, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	}, append([]string{"demo"}, args...)...)
	return c, temp
}

// demoOf gives the demo's id, by its folder; "" before there is one.
func demoOf(temp string) string {
	found, _ := filepath.Glob(filepath.Join(temp, "reaperd-demo-*", "policies.yaml"))
	if len(found) == 0 {
		return ""
	}
	text, err := os.ReadFile(found[0])
	m := regexp.MustCompile(demoTag + `: "([0-9a-f]+)"`).FindSubmatch(text)
	if err != nil || m == nil {
		return ""
	}
	return string(m[1])
}

// remains gives what a demo left behind: files, processes, containers, images.
// The engine may be nil.
func remains(t *testing.T, e *enginetest.Engine, id, temp string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil {
		t.Fatal(err)
	}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range environs {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), demoTag+"="+id) {
			found = append(found, path)
		}
	}
	cmdlines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range cmdlines {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "\x00janitor\x00"+id) {
			found = append(found, path)
		}
	}
	if e != nil {
		engine := &http.Client{Transport: &http.Transport{DialContext: dialSocket(e.Socket()), DisableKeepAlives: true}}
		for _, list := range []string{"/containers/json?all=1", "/images/json?all=1"} {
			if strings.Contains(fetch(t, engine, "http://engine"+list), id) {
				found = append(found, list)
			}
		}
	}
	return found
}

func TestDemoWithAnEngine(t *testing.T) {
	e := enginetest.Shared(t)
	c, temp := startDemo(t, e.Host(), "--exit")
	until(t, "the demo has an id", func() bool { return demoOf(temp) != "" || c.ended() })
	id := demoOf(temp)
	if code := c.wait(t); code != exitClean || id == "" {
		t.Errorf("exit code %d, id %q", code, id)
	}
	if left := remains(t, e, id, temp); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	checkDemo(t, c.out.String(), []string{"process", "docker"})
}

// TestDemoWithoutAnEngine has an address that nobody answers on.
func TestDemoWithoutAnEngine(t *testing.T) {
	t.Parallel()
	c, temp := startDemo(t, "unix:///no/such/docker.sock", "--exit")
	if code := c.wait(t); code != exitClean {
		t.Errorf("exit code %d", code)
	}
	out := c.out.String()
	if want := "Starting stray sandboxes: processes only (the engine at unix:///no/such/docker.sock does not answer: "; !strings.HasPrefix(out, want) {
		t.Errorf("no %q", want)
	}
	checkDemo(t, out, []string{"process"})
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// checkDemo looks for what each sandbox should end as, with its reason.
func checkDemo(t *testing.T, out string, kinds []string) {
	t.Helper()
	ends := map[string]string{
		"crashed-agent": "reclaimed: demo-uptime, max_uptime (", "ignores-sigterm": "reclaimed: demo-uptime, max_uptime (",
		"asked-for-3s": "reclaimed: demo-ttl, ttl_tag (", "nobodys": "reclaimed: demo-owner, tag_missing (",
		"protected": "kept: protected", "production": "kept: ",
	}
	for _, kind := range kinds {
		for name, end := range ends {
			line := regexp.MustCompile("(?m)^" + kind + " +" + name + " .*" + regexp.QuoteMeta(end))
			if !line.MatchString(out) {
				t.Errorf("no line %q", line)
			}
		}
		for _, series := range []string{
			`reaperd_reclaims_total{outcome="reclaimed",policy="demo-ttl",provider="` + kind + `",reason="ttl_tag"} 1`,
			`reaperd_provider_up{provider="` + kind + `"} 1`,
		} {
			if !strings.Contains(out, "\n"+series+"\n") {
				t.Errorf("no %s", series)
			}
		}
	}
	for _, want := range []string{"\nFrom http://127.0.0.1:", "/metrics:\n", "\nExactly the right ones are gone.\n", "\nClearing up.\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestDemoClearsUpHoweverItEnds ends a demo in mid-start, and in mid-way.
func TestDemoClearsUpHoweverItEnds(t *testing.T) {
	e := enginetest.Shared(t)
	for name, tc := range map[string]struct {
		signal os.Signal
		at     func(*spawned) bool
		engine bool
	}{
		"killed while it starts":    {syscall.SIGKILL, func(c *spawned) bool { return strings.Contains(c.out.String(), "Starting") }, true},
		"killed in mid-way":         {syscall.SIGKILL, func(c *spawned) bool { return strings.Contains(c.out.String(), "kept: protected") }, true},
		"interrupted in mid-way":    {os.Interrupt, func(c *spawned) bool { return strings.Contains(c.out.String(), "kept: protected") }, true},
		"terminated while starting": {syscall.SIGTERM, func(c *spawned) bool { return strings.Contains(c.out.String(), "Starting") }, true},
		"killed without an engine":  {syscall.SIGKILL, func(c *spawned) bool { return strings.Contains(c.out.String(), "lives, until") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, on := "unix:///no/such/docker.sock", (*enginetest.Engine)(nil)
			if tc.engine {
				host, on = e.Host(), e
			}
			c, temp := startDemo(t, host)
			until(t, "it is there", func() bool { return demoOf(temp) != "" && tc.at(c) || c.ended() })
			id := demoOf(temp)
			c.signal(t, tc.signal)
			c.wait(t)
			var left []string
			defer func() {
				if t.Failed() {
					t.Logf("it left %v", left)
				}
			}()
			until(t, "all is cleared away", func() bool {
				left = remains(t, on, id, temp)
				return len(left) == 0
			})
			if tc.signal == os.Interrupt && c.ProcessState.ExitCode() != exitClean {
				t.Errorf("exit code %d", c.ProcessState.ExitCode())
			}
		})
	}
}

// TestDemoClearsUpWhatComesLate has the engine make a container, and an image,
// only after the demo that asked for it was killed and often looked after.
func TestDemoClearsUpWhatComesLate(t *testing.T) {
	t.Parallel()
	e := enginetest.Shared(t)
	for name, held := range map[string]string{"container": "/containers/create", "image": "/images/create"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := enginetest.NewProxy(t, e)
			reached, released, made := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var once sync.Once
			p.Hook(func(r enginetest.Request) http.HandlerFunc {
				if r.Path != held {
					return nil
				}
				return func(w http.ResponseWriter, r *http.Request) {
					first := false
					once.Do(func() { first = true })
					if !first {
						return
					}
					body, _ := io.ReadAll(r.Body) // the engine has heard all of it
					close(reached)
					<-released
					r = r.WithContext(context.WithoutCancel(r.Context()))
					r.Body = io.NopCloser(bytes.NewReader(body))
					p.Forward(w, r)
					close(made)
				}
			})
			c, temp := startDemo(t, p.Host())
			<-reached
			id := demoOf(temp)
			p.Reset()
			c.signal(t, syscall.SIGKILL)
			c.wait(t)
			until(t, "the janitor has looked often", func() bool {
				looks := 0
				for _, r := range p.Requests() {
					if r.Path == "/containers/json" {
						looks++
					}
				}
				return looks >= 5
			})
			close(released)
			<-made
			until(t, "all is cleared away", func() bool { return len(remains(t, e, id, temp)) == 0 })
		})
	}
}

func TestDemoTouchesNothingElse(t *testing.T) {
	t.Parallel()
	cast := demoCast()
	if !slices.ContainsFunc(cast, func(s stray) bool { return s.keep }) || !slices.ContainsFunc(cast, func(s stray) bool { return !s.keep }) {
		t.Error("the cast has not both sorts")
	}
	dir := write(t, "reaperd.yaml", "policies: [p.yaml]\n", "p.yaml", strings.ReplaceAll(demoPolicies, "%[1]s", "0123abcd"))
	b, err := build(environment{getenv: os.Getenv, environ: func() []string { return nil }}, configFlag(dir+"/reaperd.yaml"), buildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range b.policies.Policies() {
		if !strings.Contains(p.Summary, demoTag) || !strings.Contains(p.Summary, "0123abcd") {
			t.Errorf("%s does not ask for the demo's tag: %s", p.Name, p.Summary)
		}
	}
}
