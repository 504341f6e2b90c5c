// Command reaperd finds sandboxes that nobody looks after any more and
// reclaims them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	_ "time/tzdata" // a scratch image has no zones of its own

	"github.com/spf13/cobra"
)

// The exit codes every verb keeps to.
const (
	exitClean   = 0
	exitTrouble = 1 // something could not be looked at, stopped or loaded
	exitUsage   = 2 // the command line is wrong
)

// status is an error that carries an exit code, and says nothing more if its
// text is empty: the verb has already told.
type status struct {
	code int
	text string
}

func (s status) Error() string { return s.text }

func usage(format string, args ...any) error {
	return status{exitUsage, fmt.Sprintf(format, args...)}
}

var errTold = status{code: exitTrouble}

func main() {
	os.Exit(run(os.Args[1:], environment{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, environ: os.Environ,
	}))
}

// environment is what a verb may touch of the process it runs in.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	environ        func() []string
}

// has says whether the variable is set, if only to nothing.
func (e environment) has(variable string) bool {
	return slices.ContainsFunc(e.environ(), func(pair string) bool { return strings.HasPrefix(pair, variable+"=") })
}

func run(args []string, env environment) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once: whoever is not believed the
	// first time means it.
	context.AfterFunc(ctx, stop)

	root := newRoot(env)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitClean
	}
	code := exitTrouble
	if s, ok := errors.AsType[status](err); ok {
		code = s.code
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(env.stderr, "reaperd: "+text)
	}
	if code == exitUsage {
		fmt.Fprintln(env.stderr, "See: reaperd --help")
	}
	return code
}

func newRoot(env environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "reaperd",
		Short: "Find sandboxes that nobody looks after any more, and reclaim them",
		Long: `reaperd lists the sandboxes on every provider (Docker containers, local
processes), judges each against YAML policies, stops the violators, proves that
they are gone, and tells Prometheus what it did.

Try it without touching anything of yours:  reaperd demo`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if isDaemon(cmd) {
			return // which reloads
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP) // the terminal is gone
		context.AfterFunc(ctx, stop)
		cmd.SetContext(ctx)
	}
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	root.PersistentFlags().StringP("config", "c", "", "configuration file (default "+defaultConfigPath+" where it exists)")
	root.AddCommand(
		runCommand(env), psCommand(env), stopCommand(env), planCommand(env), explainCommand(env), historyCommand(env),
		policyCommand(), checkCommand(env), stateCommand(env), demoCommand(env), versionCommand(),
	)
	return root
}

// noArgs is cobra.NoArgs with our exit code.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasAvailableSubCommands() {
		cmd.SuggestionsMinimumDistance = 2
		hint := ""
		if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
			hint = fmt.Sprintf(": did you mean %q?", s[0])
		}
		return usage("unknown command %q%s", strings.TrimPrefix(cmd.CommandPath()+" "+args[0], "reaperd "), hint)
	}
	return usage("%s takes no arguments, found %q", cmd.CommandPath(), args[0])
}
