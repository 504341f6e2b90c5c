package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/scan"
)

func demoCommand(env environment) *cobra.Command {
	var exit bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch real stray sandboxes being found and reclaimed",
		Long: `Demo starts a handful of stray sandboxes (processes always, containers too when a
Docker engine answers), some of them protected, and runs the real daemon over
them. Nothing but the demo's own sandboxes can be touched: every policy in it
asks for a tag that only they carry. Whatever way it ends, it clears up after
itself.`,
		Example: `  reaperd demo
  reaperd demo --exit`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(cmd, env, exit)
		},
	}
	cmd.Flags().BoolVar(&exit, "exit", false, "end when all is done; status 0 only if exactly the right ones are gone")
	cmd.AddCommand(demoSleepCommand(), demoJanitorCommand(env))
	return cmd
}

// demoTag is on every sandbox of a demo, with the demo's own id as its value,
// and in every policy of it.
const demoTag = "reaperd.demo"

// demoPatience bounds a demo with --exit. Its last sandbox is due after about
// ten seconds; the rest is for a slow machine.
const demoPatience = 2 * time.Minute

// demoPolicies is the policy file of a demo; %[1]s is the demo's id.
const demoPolicies = `version: 1
protect:
  - tags: {reaperd.demo: "%[1]s", reaperd.protect: "true"}
policies:
  - name: demo-uptime
    match: {tags: {reaperd.demo: "%[1]s"}}
    unless: [{tags: {env: prod}}]
    limits: {max_uptime: 8s}
    action: {type: remove, grace: 1s}
  - name: demo-ttl
    match: {tags: {reaperd.demo: "%[1]s", reaperd.ttl: "*"}}
    limits: {ttl: {tag: reaperd.ttl, max: 1h}}
    action: {type: remove, grace: 1s}
  - name: demo-owner
    match: {tags: {reaperd.demo: "%[1]s"}}
    tag_rules: {require: [owner], grace: 6s}
    action: {type: remove, grace: 1s}
`

// demoConfig is the configuration of a demo; %s is the docker provider, if any.
const demoConfig = `dry_run: false
schedule: '@every 1s'
state: {dsn: ''}
http: {listen: '127.0.0.1:0'}
socket: {path: ''}
policies: [policies.yaml]
providers:
  - {name: process, kind: process}
%s`

func demo(cmd *cobra.Command, env environment, exit bool) error {
	out := cmd.OutOrStdout()
	id, err := demoID()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "reaperd-demo-")
	if err != nil {
		return err
	}
	engine, without := findDemoEngine(cmd.Context(), env)

	janitor, err := startJanitor(id, dir, engine.address)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	err = demoWith(cmd, env, id, dir, engine, without, exit)
	fmt.Fprintln(out, "\nClearing up.")
	return errors.Join(err, janitor.finish(err))
}

func demoID() (string, error) {
	b := make([]byte, 4)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return hex.EncodeToString(b), nil
}

func demoWith(cmd *cobra.Command, env environment, id, dir string, engine demoEngine, without string, exit bool) error {
	out := cmd.OutOrStdout()
	file, logFile, err := writeDemoFiles(id, dir, engine)
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }()

	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	fmt.Fprintln(out, "Starting stray sandboxes: "+demoWhere(engine, without)+".")
	strays, err := startStrays(ctx, id, engine)
	if err != nil {
		return err
	}

	board := newBoard(out, strays)
	quiet := env
	quiet.getenv = func(string) string { return "" }
	quiet.environ = func() []string { return nil }
	flags := runCommand(quiet).Flags()
	flags.String("config", file, "")
	config, err := loadConfig(quiet, flags)
	if err != nil {
		return err
	}
	log, level := newLog(logFile, "info", "json")
	b, err := assemble(quiet, config, buildOptions{obeyDryRun: true, log: log, onReport: board.report})
	if err != nil {
		return err
	}
	var address string
	var g errgroup.Group
	serving := make(chan string, 1)
	g.Go(func() error {
		defer cancel()
		d := reaper{
			env: quiet, load: func() (*loaded, error) { return loadConfig(quiet, flags) },
			options: buildOptions{obeyDryRun: true}, log: log, level: level, built: b,
		}
		return d.serve(ctx, func(a string) { serving <- a })
	})
	select {
	case address = <-serving:
	case <-ctx.Done():
		return g.Wait()
	}
	board.run(ctx, exit)
	if cmd.Context().Err() == nil {
		fmt.Fprintf(out, "\nFrom http://%s/metrics:\n\n", address)
		err = printDemoMetrics(ctx, out, address)
		if err == nil && !exit {
			fmt.Fprintf(out, "\nThe daemon is still running; the address answers until you press Ctrl-C.\n")
			<-ctx.Done()
		}
	}
	verdict := judgeDemo(context.WithoutCancel(ctx), b.targets, strays)
	cancel()
	err = errors.Join(err, g.Wait())
	switch {
	case cmd.Context().Err() != nil && !exit:
		return err
	case verdict != nil:
		return errors.Join(err, verdict, showLog(cmd.ErrOrStderr(), logFile.Name()))
	}
	fmt.Fprintln(out, "\nExactly the right ones are gone.")
	return err
}

func writeDemoFiles(id, dir string, engine demoEngine) (config string, log *os.File, err error) {
	provider := ""
	if engine.address != "" {
		provider = fmt.Sprintf("  - {name: docker, kind: docker, host: %q}\n", engine.address)
	}
	config = filepath.Join(dir, "reaperd.yaml")
	err = errors.Join(
		os.WriteFile(config, fmt.Appendf(nil, demoConfig, provider), 0o600),
		os.WriteFile(filepath.Join(dir, "policies.yaml"), fmt.Appendf(nil, demoPolicies, id), 0o600),
	)
	if err != nil {
		return "", nil, err
	}
	log, err = os.Create(filepath.Join(dir, "daemon.log"))
	return config, log, err
}

func demoWhere(engine demoEngine, without string) string {
	if engine.address != "" {
		return "processes, and containers on " + engine.address
	}
	return "processes only (" + without + ")"
}

// judgeDemo looks at every provider afresh, past the daemon, and says what is
// not as it should be.
func judgeDemo(ctx context.Context, targets []scan.Target, strays []stray) error {
	by := map[string]providers.Provider{}
	for _, t := range targets {
		by[t.Name] = t.Provider
	}
	var wrong []error
	for _, s := range strays {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		sb, err := by[s.provider].Get(ctx, s.id)
		cancel()
		gone := errors.Is(err, providers.ErrNotFound)
		switch {
		case err != nil && !gone:
			wrong = append(wrong, fmt.Errorf("%s: %w", s.name, err))
		case gone && s.keep:
			wrong = append(wrong, fmt.Errorf("%s is gone and should have been kept", s.name))
		case !gone && !s.keep:
			wrong = append(wrong, fmt.Errorf("%s is %s and should have been reclaimed", s.name, sb.State))
		}
	}
	return errors.Join(wrong...)
}

// showLog prints the daemon's log, which goes when the demo clears up.
func showLog(w io.Writer, path string) error {
	text, err := os.ReadFile(path)
	if err == nil {
		fmt.Fprintf(w, "The daemon's log:\n%s", text)
	}
	return err
}

// withoutOurs is the environment less what reaperd itself reads, so that a demo
// started inside a sandbox does not hand that on.
func withoutOurs(environ []string) []string {
	out := make([]string, 0, len(environ))
	for _, pair := range environ {
		if !strings.HasPrefix(pair, envPrefix) {
			out = append(out, pair)
		}
	}
	return out
}
