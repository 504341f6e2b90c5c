package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

// writeContext writes a context as docker does, below its folder.
func writeContext(t *testing.T, folder, name, endpoint string) {
	t.Helper()
	at := filepath.Join(folder, "contexts", "meta", digest(name))
	text := `{"Name":"` + name + `","Metadata":{"Description":"of a test"},"Endpoints":{"docker":` + endpoint + `}}`
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(at, "meta.json"), text)
}

// tlsFolder makes the folder of a context's certificates.
func tlsFolder(t *testing.T, folder, name string) string {
	t.Helper()
	at := filepath.Join(folder, "contexts", "tls", digest(name), "docker")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	return at
}

func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dockerFolder makes what ~/.docker is: contexts a, b, one that only
// Kubernetes could use, and that current context.
func dockerFolder(t *testing.T, current string) string {
	t.Helper()
	folder := t.TempDir()
	writeContext(t, folder, "a", `{"Host":"tcp://a:2375","SkipTLSVerify":false}`)
	writeContext(t, folder, "b", `{"Host":"ssh://me@b"}`)
	writeContext(t, folder, "k8s", `null`)
	writeContext(t, folder, "pipe", `{"Host":"npipe:////./pipe/docker_engine"}`)
	writeFile(t, filepath.Join(folder, "config.json"), `{"auths":{"x":{"auth":"c2VjcmV0"}},"currentContext":"`+current+`"}`)
	return folder
}

var someSocket = map[string]fs.FileMode{"/var/run/docker.sock": fs.ModeSocket}

func TestWhichEngineIsTaken(t *testing.T) {
	const usual = "unix:///var/run/docker.sock"
	vars := func(pairs ...string) map[string]string {
		all := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		return all
	}
	onB := dockerFolder(t, "b")
	home := t.TempDir()
	if err := os.Rename(dockerFolder(t, "a"), filepath.Join(home, ".docker")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		settings Settings
		vars     map[string]string
		want     string
	}{
		"host before all":                {Settings{Host: "tcp://h:1"}, vars("DOCKER_CONFIG", onB, "DOCKER_CONTEXT", "a", "DOCKER_HOST", "tcp://e:1"), "tcp://h:1"},
		"context before DOCKER_HOST":     {Settings{Context: "a"}, vars("DOCKER_CONFIG", onB, "DOCKER_HOST", "tcp://e:1"), "tcp://a:2375 (docker context a)"},
		"DOCKER_HOST before contexts":    {Settings{}, vars("DOCKER_CONFIG", onB, "DOCKER_CONTEXT", "a", "DOCKER_HOST", "tcp://e:1"), "tcp://e:1"},
		"DOCKER_CONTEXT before current":  {Settings{}, vars("DOCKER_CONFIG", onB, "DOCKER_CONTEXT", "a"), "tcp://a:2375 (docker context a)"},
		"the current before the sockets": {Settings{}, vars("DOCKER_CONFIG", onB), "ssh://me@b (docker context b)"},
		"DOCKER_CONFIG before HOME":      {Settings{}, vars("DOCKER_CONFIG", onB, "HOME", home), "ssh://me@b (docker context b)"},
		"HOME":                           {Settings{}, vars("HOME", home), "tcp://a:2375 (docker context a)"},
		"no HOME":                        {Settings{}, vars(), usual},
		"an empty HOME":                  {Settings{}, vars("HOME", t.TempDir()), usual},
		"the current is the default":     {Settings{}, vars("DOCKER_CONFIG", dockerFolder(t, "default")), usual},
		"no current":                     {Settings{}, vars("DOCKER_CONFIG", dockerFolder(t, "")), usual},
		"default by name":                {Settings{Context: "default"}, vars("DOCKER_CONFIG", onB, "DOCKER_CONTEXT", "a"), usual},
		"default, with DOCKER_HOST":      {Settings{Context: "default"}, vars("DOCKER_CONFIG", onB, "DOCKER_HOST", "tcp://e:1"), "tcp://e:1"},
		"DOCKER_CONTEXT=default":         {Settings{}, vars("DOCKER_CONFIG", onB, "DOCKER_CONTEXT", "default"), usual},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newConnection(tc.settings, pretend(tc.vars, someSocket))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.find(); got.String() != tc.want || err != nil {
				t.Errorf("took %v, %v; want %s", got, err, tc.want)
			}
		})
	}
}

func TestAContextThatCannotBeFollowedIsNotReplaced(t *testing.T) {
	folder := dockerFolder(t, "a")
	there := `in ` + folder + ` there is default, a, b, pipe`
	broken := dockerFolder(t, "a")
	writeFile(t, filepath.Join(broken, "contexts", "meta", digest("a"), "meta.json"), "{")
	for name, tc := range map[string]struct{ folder, context, want string }{
		"missing":       {folder, "c", `there is no docker context "c": ` + there},
		"a path":        {folder, "../a", `there is no docker context "../a": ` + there},
		"no engine":     {folder, "k8s", `docker context "k8s" names no engine: ` + there},
		"not ours":      {folder, "pipe", `docker context "pipe": "npipe:////./pipe/docker_engine": scheme "npipe" is not supported`},
		"unreadable":    {broken, "a", `read docker context "a": `},
		"among broken":  {broken, "c", `there is no docker context "c": those in ` + broken + ` cannot be listed: `},
		"nowhere":       {"", "a", `docker context "a" cannot be looked up: neither DOCKER_CONFIG nor HOME is set`},
		"in no folder":  {"/no/such", "a", `there is no docker context "a": in /no/such there is default`},
		"of other case": {folder, "A", `there is no docker context "A"`},
	} {
		t.Run(name, func(t *testing.T) {
			for origin, vars := range map[string]map[string]string{
				"context: ":        {"DOCKER_CONFIG": tc.folder},
				"DOCKER_CONTEXT: ": {"DOCKER_CONFIG": tc.folder, "DOCKER_CONTEXT": tc.context},
			} {
				s := Settings{}
				if origin == "context: " {
					s.Context = tc.context
				}
				if _, err := open("x", s, pretend(vars, someSocket)); err == nil || !strings.HasPrefix(err.Error(), origin+tc.want) {
					t.Errorf("%v; want %s%s", err, origin, tc.want)
				}
			}
		})
	}
}

// The current context is looked at by the calls: it is nobody's order to this
// very process, and the rest of reaperd should run without it.
func TestACurrentContextThatCannotBeFollowedIsAnErrorUntilItCan(t *testing.T) {
	e := enginetest.Shared(t)
	folder := dockerFolder(t, "mine")
	files := map[string]fs.FileMode{e.Socket(): fs.ModeSocket}
	p, err := open("x", Settings{}, pretend(map[string]string{"DOCKER_CONFIG": folder, "XDG_RUNTIME_DIR": filepath.Dir(e.Socket())}, files))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	config := filepath.Join(folder, "config.json")
	for _, step := range []struct{ config, want string }{
		{`{"currentContext":"mine"}`, `the current docker context: there is no docker context "mine": `},
		{`{"currentContext":`, "the current docker context is not known: " + config + ": unexpected end of JSON input: write host or context, or mend the file"},
		{`{"currentContext":5,"auths":{"x":{"auth":"c2VjcmV0"}}}`, "the current docker context is not known: "},
	} {
		writeFile(t, config, step.config)
		all, err := p.List(within(t))
		if all != nil || !errors.Is(err, providers.ErrUnavailable) || !strings.Contains(err.Error(), step.want) {
			t.Fatalf("%s: List gave %v, %v; want %s", step.config, all, err, step.want)
		}
		if strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%v tells a secret", err)
		}
		if !detect(func(k string) string { return map[string]string{"DOCKER_CONFIG": folder}[k] }) {
			t.Error("it does not count as detected")
		}
	}
	writeContext(t, folder, "mine", `{"Host":"`+e.Host()+`"}`)
	writeFile(t, config, `{"currentContext":"mine"}`)
	mustList(t, p)
	// The engine whose sandboxes are known is kept.
	writeFile(t, config, `{"currentContext":"a"}`)
	mustList(t, p)
	if got := p.conn.where(); got != e.Host()+" (docker context mine)" {
		t.Errorf("it is at %s now", got)
	}
}

func TestContextsAndTheirCurrentOneAreDetected(t *testing.T) {
	for name, vars := range map[string]map[string]string{
		"current":           {"DOCKER_CONFIG": dockerFolder(t, "a")},
		"named":             {"DOCKER_CONFIG": dockerFolder(t, ""), "DOCKER_CONTEXT": "a"},
		"named, not there":  {"DOCKER_CONFIG": dockerFolder(t, ""), "DOCKER_CONTEXT": "z"},
		"current, not ours": {"DOCKER_CONFIG": dockerFolder(t, "pipe")},
	} {
		if !detect(func(k string) string { return vars[k] }) {
			t.Errorf("%s: not detected", name)
		}
	}
}

// TestAHomeThatIsClosedChoseNothing runs this binary once more as nobody.
func TestAHomeThatIsClosedChoseNothing(t *testing.T) {
	if home := os.Getenv("DOCKERTEST_HOME"); home != "" {
		for _, vars := range []map[string]string{{"HOME": home}, {"DOCKER_CONFIG": home}} {
			_, without, err := pretend(vars, nil).contexts().current()
			fmt.Printf("\nwithout=%q error=%v\n", without, err)
		}
		return
	}
	if os.Geteuid() != 0 {
		enginetest.SkipOrFail(t, "becoming nobody needs root")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAHomeThatIsClosedChoseNothing$", "-test.v")
	home := filepath.Join(t.TempDir(), "home") // in a folder that only root may enter
	cmd.Dir, cmd.Env = "/", []string{"DOCKERTEST_HOME=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`without="` + home + `/.docker/config.json: permission denied" error=<nil>`,
		`without="" error=the current docker context is not known: ` + home + `/config.json: permission denied: `,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}
