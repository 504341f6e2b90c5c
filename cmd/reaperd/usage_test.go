package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"unknown command":     {[]string{"fly"}, `unknown command "fly"`},
		"misspelt subcommand": {[]string{"policy", "tset"}, `unknown command "policy tset": did you mean "test"?`},
		"misspelt command":    {[]string{"stpo"}, `unknown command "stpo": did you mean "stop"?`},
		"unknown flag":        {[]string{"ps", "--quiet"}, "unknown flag: --quiet"},
		"unknown short flag":  {[]string{"stop", "-x", "a"}, "unknown shorthand flag: 'x' in -x"},
		"flag of no verb":     {[]string{"--quiet"}, "unknown flag: --quiet"},
		"flag without value":  {[]string{"ps", "-p"}, "flag needs an argument: 'p' in -p"},
		"flag with bad value": {[]string{"run", "--dry-run=perhaps"}, `invalid argument "perhaps" for "--dry-run" flag: strconv.ParseBool: parsing "perhaps": invalid syntax`},
		"argument":            {[]string{"ps", "a"}, `reaperd ps takes no arguments, found "a"`},
		"two ids":             {[]string{"stop", "a", "b"}, "stop takes one id, found 2: a b"},
		"demo's argument":     {[]string{"demo", "now"}, `reaperd demo takes no arguments, found "now"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := reaperd(t, nil, tc.args...)
			want := said{exitUsage, "", "reaperd: " + tc.want + "\nSee: reaperd --help\n"}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	bare, asked := reaperd(t, nil), reaperd(t, nil, "--help")
	if bare != asked || bare.code != exitClean {
		t.Errorf("bare %+v, --help %+v", bare, asked)
	}
	for _, verb := range []string{"run", "ps", "stop", "plan", "history", "check", "state", "demo", "version"} {
		if !strings.Contains(bare.out, "\n  "+verb+" ") {
			t.Errorf("%s is not in\n%s", verb, bare.out)
		}
	}
	for _, hidden := range []string{"sleep", "janitor"} {
		if out := bare.out + reaperd(t, nil, "demo", "--help").out; strings.Contains(out, "\n  "+hidden) {
			t.Errorf("%s is shown in\n%s", hidden, out)
		}
	}
}

func TestVersionNamesTheKinds(t *testing.T) {
	t.Parallel()
	got := reaperd(t, nil, "version")
	if got.code != exitClean || !strings.HasSuffix(got.out, "\nkinds: docker, process\n") || !strings.HasPrefix(got.out, "reaperd "+version+" (go") {
		t.Errorf("%+v", got)
	}
}

// TestExamplesParse holds the examples in the help to the flags there are.
func TestExamplesParse(t *testing.T) {
	t.Parallel()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(line)
			if len(words) == 0 {
				continue
			}
			root := newRoot(environment{})
			found, rest, err := root.Find(words[1:])
			if err != nil || found.CommandPath() != c.CommandPath() {
				t.Errorf("%q of %s runs %v, %v", line, c.CommandPath(), found.CommandPath(), err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
		if c.Example == "" && c.HasParent() && !c.Hidden && c.HasFlags() && c.Name() != "completion" {
			t.Errorf("%s has flags and no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(environment{}))
}

// TestFlagsThatSetAKeyExist holds the names in flagKeys to run's flags.
func TestFlagsThatSetAKeyExist(t *testing.T) {
	t.Parallel()
	flags := map[string]bool{}
	runCommand(environment{}).Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	for name := range flagKeys {
		if !flags[name] {
			t.Errorf("run has no flag --%s", name)
		}
	}
}
