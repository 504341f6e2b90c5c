package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/reaperd/reaperd/internal/enginetest"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // the zone in which people are told of times
	// Verbs end with their process and leave idle connections to it.
	enginetest.Main(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// said is what one run of reaperd came to.
type said struct {
	code        int
	out, errors string
}

// reaperd runs the command in this process, with an environment that holds
// nothing but what environ says.
func reaperd(t *testing.T, environ []string, args ...string) said {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(args, environment{
		stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
		getenv: func(name string) string {
			for _, pair := range environ {
				if n, v, _ := strings.Cut(pair, "="); n == name {
					return v
				}
			}
			return ""
		},
		environ: func() []string { return environ },
	})
	return said{code, out.String(), errs.String()}
}

// write puts files into a new folder, given as name and text by turns, and
// gives its path.
func write(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// somePolicy is a policy file that loads and matches nothing that exists.
const somePolicy = `version: 1
policies:
  - name: nothing
    match: {tags: {no.such.tag: nowhere}}
    limits: {max_uptime: 4h}
`

// configFlag is a command line that names a configuration and nothing else.
func configFlag(path string) *pflag.FlagSet {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.String("config", path, "")
	return flags
}
