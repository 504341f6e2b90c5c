package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/internal/enginetest"
)

const shippedConfig = "../../configs/reaperd.yaml"

// load gives what a configuration comes to, with flags as run takes them.
func load(t *testing.T, environ []string, args ...string) *loaded {
	t.Helper()
	env := environment{getenv: func(string) string { return "" }, environ: func() []string { return environ }}
	flags := runCommand(env).Flags()
	flags.String("config", "", "")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	l, err := loadConfig(env, flags)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestShippedConfigurationIsTheDefaults(t *testing.T) {
	t.Parallel()
	l := load(t, nil, "--config", shippedConfig)
	want := defaultConfig()
	want.Policies = []string{"policies/*.yaml"} // the one that the file adds
	if diff := cmp.Diff(want, l.Config); diff != "" {
		t.Errorf("(-defaults +configs/reaperd.yaml):\n%s", diff)
	}
	if len(l.files) == 0 {
		t.Error("no policies are shipped")
	}
}

func TestShippedConfigurationHasEveryKey(t *testing.T) {
	t.Parallel()
	l := load(t, nil, "--config", shippedConfig)
	for _, s := range settings(reflect.ValueOf(defaultConfig()), "") {
		if child(l.root, strings.Split(s.key, "::")...) == nil {
			t.Errorf("%s is not in configs/reaperd.yaml", s.key)
		}
	}
}

// TestShippedProvidersLoad takes the comment signs off the providers section.
func TestShippedProvidersLoad(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(shippedConfig)
	if err != nil {
		t.Fatal(err)
	}
	before, section, found := strings.Cut(string(text), "#providers:\n")
	if !found {
		t.Fatal("no commented providers section")
	}
	section = "providers:\n" + regexp.MustCompile(`(?m)^#`).ReplaceAllString(section, "")
	dir := write(t, "reaperd.yaml", before+section, "policies/p.yaml", somePolicy)
	l := load(t, nil, "--config", filepath.Join(dir, "reaperd.yaml"))
	kinds := map[string]bool{}
	for _, e := range l.entries {
		kinds[e.Kind] = true
		// Every key that an entry of any kind takes is shown by one of them.
		for f := range reflect.TypeFor[entry]().Fields() {
			if key := f.Tag.Get("yaml"); key != "" && !strings.Contains(section, key+":") {
				t.Errorf("the key %s is not shown", key)
			}
		}
	}
	if len(kinds) != 2 {
		t.Errorf("kinds %v, want each of docker and process", kinds)
	}
}

func TestShippedPoliciesPassTheCheck(t *testing.T) {
	t.Parallel()
	got := reaperd(t, nil, "check", "--config", shippedConfig)
	if got.code != exitClean || got.errors != "" {
		t.Errorf("exit code %d, %s", got.code, got.errors)
	}
	for _, want := range []string{"dry_run           true\n", "next scans:\n", "policies:\n"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is missing in\n%s", want, got.out)
		}
	}
}

func TestFlagsBeatEnvironmentBeatsFileBeatsDefaults(t *testing.T) {
	t.Parallel()
	dir := write(t, "reaperd.yaml", "dry_run: false\nlog: {level: error}\nhttp: {listen: 'file:1'}\n")
	file := []string{"--config", filepath.Join(dir, "reaperd.yaml")}
	type effective struct {
		DryRun        bool
		Level, Listen string
	}
	everywhere := []string{"REAPERD_DRY_RUN=true", "REAPERD_LOG_LEVEL=warn", "REAPERD_HTTP_LISTEN=env:2"}
	for name, tc := range map[string]struct {
		env, args []string
		want      effective
	}{
		"default":          {nil, nil, effective{true, "info", "127.0.0.1:9480"}},
		"file":             {nil, file, effective{false, "error", "file:1"}},
		"environment":      {everywhere, file, effective{true, "warn", "env:2"}},
		"environment only": {[]string{"REAPERD_DRY_RUN=false"}, nil, effective{false, "info", "127.0.0.1:9480"}},
		"flags": {
			everywhere, append([]string{"--dry-run=false", "--log-level=debug", "--listen=flag:3"}, file...),
			effective{false, "debug", "flag:3"},
		},
		"a bare flag": {[]string{"REAPERD_DRY_RUN=false"}, append([]string{"--dry-run"}, file...), effective{true, "error", "file:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.args == nil {
				needNoConfiguration(t)
			}
			l := load(t, tc.env, tc.args...)
			if got := (effective{l.DryRun, l.Log.Level, l.HTTP.Listen}); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestEnvironmentSetsEveryKey(t *testing.T) {
	t.Parallel()
	dir := write(t, "a.yaml", somePolicy, "b.yaml", strings.ReplaceAll(somePolicy, "nothing", "nothing-else"))
	var environ []string
	for key, value := range map[string]string{
		"log.level": "debug", "log.format": "json", "dry_run": "false", "timezone": "Europe/Berlin", "schedule": "@hourly",
		"http.listen": "[::1]:0", "policies": dir + "/a.yaml," + dir + "/b.yaml", "scan.timeout": "1m30s", "reclaim.attempts": "7",
		"state.dsn": "sqlite:///nowhere/a.db", "state.history": "30d", "brake.window": "1h", "brake.min_count": "3", "brake.max_fraction": "0.25", "brake.confirm": "5m",
		"http.token_file": "/nowhere/token", "socket.path": "/nowhere/s", "socket.mode": "0600", "socket.group": "docker",
		"clock.max_skew": "1m", "leases.max_ttl": "1h",
	} {
		environ = append(environ, "REAPERD_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))+"="+value)
	}
	l := load(t, environ, "--config", shippedConfig)
	for _, s := range settings(reflect.ValueOf(l.Config), "") {
		for _, d := range settings(reflect.ValueOf(defaultConfig()), "") {
			if s.key == d.key && reflect.DeepEqual(s.value, d.value) {
				t.Errorf("%s was not set by %s", s.key, s.env)
			}
		}
	}
	if len(l.files) != 2 {
		t.Errorf("policies %v, want two files", l.files)
	}
}

// needNoConfiguration skips where the machine has a configuration of its own.
func needNoConfiguration(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(defaultConfigPath); err == nil {
		enginetest.SkipOrFail(t, defaultConfigPath+" exists here")
	}
}
