package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
)

// TestImageReclaimsASiblingAndNeverItself builds the image without a registry,
// runs it with the engine's socket, and gives it a policy that matches its own
// container as well as another.
func TestImageReclaimsASiblingAndNeverItself(t *testing.T) {
	for _, program := range []string{"docker", "make", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			enginetest.SkipOrFail(t, err.Error())
		}
	}
	e := enginetest.Shared(t)
	gomod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(strings.TrimSpace(string(gomod)))
	s := newScene(t, takeAll, dockerAt("dev", "unix:///docker.sock"))
	s.openToAll(t)
	base, image := "reaperd-test/go:"+s.id, "reaperd-test/reaperd:"+s.id
	shell := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.Host())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "-H", e.Host(), "rmi", "-f", base, image).Run() })
	shell(".ci/stand-in-image", base)
	shell("make", "image", "GO_IMAGE="+base, "IMAGE="+image, "IMAGE_FLAGS=--network none", "VERSION=v0.0.0-test")

	sibling := s.box(t, e)
	self := strings.TrimSpace(shell("docker", "run", "--detach", "--network", "none", "--label", sceneTag+"="+s.id,
		"--user", "0:0", // the socket's owner
		"--volume", e.Socket()+":/docker.sock", "--volume", filepath.Dir(s.file)+":/policies:ro",
		image, "run", "-c", "/policies/reaperd.yaml"))
	t.Cleanup(func() { e.Remove(t, self) })
	until(t, "the sibling goes", func() bool { return !e.Exists(t, sibling) })
	later := s.box(t, e) // and another, once it has looked at all there is
	until(t, "the next one goes", func() bool { return !e.Exists(t, later) })
	logs := func() string { return shell("docker", "logs", self) }
	var ownLine string
	until(t, "it says what it thinks of itself", func() bool {
		for line := range strings.Lines(logs()) {
			if strings.Contains(line, `"sandbox":"`+self+`"`) {
				ownLine = line
			}
		}
		return ownLine != ""
	})
	if !strings.Contains(ownLine, `"msg":"kept"`) || !strings.Contains(ownLine, `"reason":"self"`) {
		t.Errorf("of itself it says %s", ownLine)
	}
	if !e.Inspect(t, self).State.Running {
		t.Errorf("it does not run any more:\n%s", logs())
	}
	if text := logs(); !strings.Contains(text, `"version":"v0.0.0-test"`) {
		t.Errorf("its version is not told in %s", text)
	}
	// Nor by an operator's order from within.
	order, err := exec.Command("docker", "-H", e.Host(), "exec", self, "/reaperd", "stop", self, "-c", "/policies/reaperd.yaml").CombinedOutput()
	if err == nil || !strings.Contains(string(order), "reaperd itself runs there, and does not stop itself") {
		t.Errorf("ordered to stop itself: %v\n%s", err, order)
	}
	if !e.Inspect(t, self).State.Running {
		t.Error("it stopped itself")
	}
	// The image holds the binary, the configuration, and a user without rights.
	c := e.Inspect(t, e.Run(t, enginetest.Options{Image: image, Cmd: []string{"check", "-c", "/etc/reaperd/reaperd.yaml"}}))
	if c.Config.User != "65532:65532" {
		t.Errorf("runs as %q", c.Config.User)
	}
	until(t, "check ends", func() bool { return !e.Inspect(t, c.ID).State.Running })
	if got := e.Inspect(t, c.ID).State.ExitCode; got != exitClean {
		t.Errorf("check in the image ends with %d", got)
	}
}
