package enginetest_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/internal/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func TestEngineRunsContainersAndClearsThemAway(t *testing.T) {
	enginetest.Each(t, runsAndClearsAway)
}

func runsAndClearsAway(t *testing.T, e *enginetest.Engine) {
	var id string
	t.Run("inner", func(t *testing.T) {
		id = e.Run(t, enginetest.Options{Name: "one", Labels: map[string]string{"a": "b"}})
		c := e.Inspect(t, id)
		if !c.State.Running || c.Config.Labels["a"] != "b" || c.Name != "/one" {
			t.Errorf("not as asked: %+v %+v", c.State, c.Config)
		}
	})
	if e.Exists(t, id) {
		t.Error("the container outlived its test")
	}
}

func TestPoliteEndsOnSIGTERM(t *testing.T) { enginetest.Each(t, politeEnds) }

func politeEnds(t *testing.T, e *enginetest.Engine) {
	id := e.Run(t, enginetest.Options{Cmd: enginetest.Polite()})
	patient := 50
	if err := e.Client(t).ContainerStop(t.Context(), id, container.StopOptions{Timeout: &patient}); err != nil {
		t.Fatal(err)
	}
	if c := e.Inspect(t, id); c.State.ExitCode != 0 {
		t.Errorf("exit code %d, want 0", c.State.ExitCode)
	}
}

func TestRestartKeepsContainers(t *testing.T) {
	e := enginetest.Start(t)
	id := e.Run(t, enginetest.Options{Cmd: enginetest.Polite(), Restart: "always"})
	before := e.PID()
	e.Restart(t)
	if e.PID() == before {
		t.Error("the same dockerd")
	}
	e.Wait(t, id, func(s *container.State) bool { return s.Running })
}

func TestPodmansContainersOutliveItsService(t *testing.T) {
	e := enginetest.StartPodman(t)
	id := e.Run(t, enginetest.Options{})
	before := e.Inspect(t, id).State
	e.Restart(t)
	if s := e.Inspect(t, id).State; !s.Running || s.Pid != before.Pid {
		t.Errorf("it was %+v and is %+v", before, s)
	}
}

func TestProxyRecordsAndFaults(t *testing.T) {
	e := enginetest.Shared(t)
	p := enginetest.NewProxy(t, e)
	get := func() (*http.Response, error) {
		tr := &http.Transport{DialContext: dialer(p.Host()), DisableKeepAlives: true}
		return (&http.Client{Transport: tr}).Get("http://engine/v1.41/containers/json?all=1")
	}
	resp, err := get()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
	if got := p.Requests(); len(got) != 1 || got[0].String() != "GET /containers/json?all=1" || got[0].Mutating() {
		t.Errorf("recorded %v", got)
	}
	p.Hook(func(enginetest.Request) http.HandlerFunc { return enginetest.Answer(http.StatusTeapot, `{}`) })
	if resp, err = get(); err != nil || resp.StatusCode != http.StatusTeapot {
		t.Errorf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
	p.Hook(func(enginetest.Request) http.HandlerFunc { return enginetest.Cut })
	if resp, err = get(); err == nil {
		_ = resp.Body.Close()
		t.Error("a cut connection gave an answer")
	}
}

// TestEngineDiesWithItsTestBinary starts this binary once more, has it start
// an engine with a container, and kills it. The processes of a Podman's
// containers have other ids in here, but they cannot outlive its own.
func TestEngineDiesWithItsTestBinary(t *testing.T) {
	switch victim := os.Getenv("ENGINETEST_VICTIM"); victim {
	case "":
		enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
			if e.IsPodman() {
				diesWithItsTestBinary(t, "podman", 1)
			} else {
				diesWithItsTestBinary(t, "docker", 2)
			}
		})
	default:
		start := map[string]func(testing.TB) *enginetest.Engine{"docker": enginetest.Start, "podman": enginetest.StartPodman}
		e := start[victim](t)
		id := e.Run(t, enginetest.Options{})
		report := strconv.Itoa(e.PID())
		if !e.IsPodman() {
			report += " " + strconv.Itoa(e.Inspect(t, id).State.Pid)
		}
		if _, err := os.NewFile(3, "report").WriteString(report + "\n"); err != nil {
			t.Fatal(err)
		}
		select {}
	}
}

func diesWithItsTestBinary(t *testing.T, engine string, processes int) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestEngineDiesWithItsTestBinary$")
	cmd.Env = append(os.Environ(), "ENGINETEST_VICTIM="+engine)
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	b := make([]byte, 64)
	n, _ := r.Read(b)
	_ = r.Close()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	pids := strings.Fields(string(b[:n]))
	if len(pids) != processes {
		t.Fatalf("the victim reported %q", b[:n])
	}
	deadline := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		for !ended(pid) {
			select {
			case <-deadline:
				t.Fatalf("process %d (of the engine, container: %v) still runs", pid, pids)
			case <-tick.C:
			}
		}
	}
}

// ended says whether the process is gone or a zombie that nobody collects.
func ended(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
