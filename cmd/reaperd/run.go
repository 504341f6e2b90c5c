package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/api"
	"github.com/reaperd/reaperd/pkg/scan"
)

func runCommand(env environment) *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon, or one scan with --once",
		Long: `Run scans every provider on its schedule and reclaims what the policies say is
due. It changes nothing until the configuration says dry_run: false.

With --once it scans each provider once, prints what became of it, and exits: 0,
or 1 when a provider could not be listed or a reclaim failed.`,
		Example: `  reaperd run --config /etc/reaperd/reaperd.yaml
  reaperd run --once --dry-run`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if once {
				return runOnce(cmd, env)
			}
			return runDaemon(cmd, env)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "scan each provider once and exit")
	cmd.Flags().Bool("dry-run", true, "judge and count, change nothing (overrides dry_run)")
	cmd.Flags().String("listen", "", "address of /metrics, /healthz and /readyz (overrides http.listen)")
	cmd.Flags().String("log-level", "", "debug, info, warn or error (overrides log.level)")
	return cmd
}

// prepare loads everything and opens the log.
func prepare(cmd *cobra.Command, env environment, o buildOptions) (*built, *zap.Logger, error) {
	config, err := loadConfig(env, cmd.Flags())
	if err != nil {
		return nil, nil, err
	}
	o.log, err = newLog(env.stderr, config.Log.Level, config.Log.Format)
	if err != nil {
		return nil, nil, err
	}
	b, err := assemble(env, config, o)
	if err != nil {
		return nil, nil, err
	}
	if len(b.policies.Policies()) == 0 {
		return nil, nil, errNoPolicies
	}
	for _, w := range b.warnings {
		o.log.Warn("a policy may not do what it says", zap.String("warning", w))
	}
	return b, o.log, nil
}

func runDaemon(cmd *cobra.Command, env environment) error {
	b, log, err := prepare(cmd, env, buildOptions{obeyDryRun: true})
	if err != nil {
		return err
	}
	return serve(cmd.Context(), b, log, func(string) {})
}

// drainHTTP is for how long a shutdown waits for requests under way.
const drainHTTP = 3 * time.Second

// serve is the daemon: it answers on HTTP and runs the loop until ctx ends,
// and returns once the loop has finished what it began. listening is told the
// address once it is taken.
func serve(ctx context.Context, b *built, log *zap.Logger, listening func(address string)) error {
	notReady := make(chan struct{})
	server, err := api.Listen(ctx, api.Options{
		Listen: b.config.HTTP.Listen, Metrics: b.registry,
		Ready: func() error {
			select {
			case <-notReady:
				return errors.New("shutting down")
			default:
				return nil
			}
		},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		err := server.Serve()
		if err != nil {
			stop() // a daemon that nobody can watch does not go on killing
		}
		served <- err
	}()
	listening(server.Addr())
	announce(b, log, server.Addr())
	notify(log, daemon.SdNotifyReady)
	told := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(told)
		close(notReady)
		notify(log, daemon.SdNotifyStopping)
		log.Info("stopping: finishing what was begun")
	})
	b.loop.Run(ctx)
	<-told

	drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainHTTP)
	defer cancel()
	err = server.Shutdown(drained)
	log.Info("stopped")
	return errors.Join(<-served, err)
}

func announce(b *built, log *zap.Logger, addr string) {
	names := make([]string, len(b.targets))
	dry := 0
	for i, t := range b.targets {
		names[i] = t.Name
		if t.DryRun {
			dry++
		}
	}
	log.Info("reaperd is running", zap.String("version", version), zap.Strings("providers", names),
		zap.Int("policies", len(b.policies.Policies())), zap.String("listen", addr), zap.Bool("dry_run", dry == len(names)))
	if dry == len(names) {
		log.Info("dry run: nothing will be reclaimed; once the plan looks right, set dry_run: false")
	}
}

// notify tells systemd, where it started us as a notify service.
func notify(log *zap.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd could not be notified", zap.Error(err))
	}
}

func runOnce(cmd *cobra.Command, env environment) error {
	b, _, err := prepare(cmd, env, buildOptions{obeyDryRun: true})
	if err != nil {
		return err
	}
	reports := b.loop.Once(cmd.Context())
	clean := true
	for _, r := range reports {
		for _, res := range r.Results {
			cmd.Println(resultLine(res))
		}
		clean = clean && r.Clean()
	}
	printSummary(cmd, reports)
	printUnqueried(cmd.OutOrStdout(), reports)
	if !clean {
		return errTold
	}
	return cmd.Context().Err()
}

func resultLine(r scan.Result) string {
	sb, d := r.Item.Facts.Sandbox, r.Item.Decision
	line := fmt.Sprintf("%-9s %s (%s) by %s: %s", r.Outcome, printable(sb.InstanceID()), sb.Provider, d.Policy, d.Reason)
	if r.Err != nil {
		line += ": " + printable(r.Err.Error())
	}
	return line
}

func printSummary(cmd *cobra.Command, reports []scan.Report) {
	seen, looked := 0, 0
	outcomes := map[scan.Outcome]int{}
	for _, r := range reports {
		if r.Err != nil {
			continue
		}
		looked++
		seen += len(r.Plan.Items)
		for _, res := range r.Results {
			outcomes[res.Outcome]++
		}
	}
	cmd.Printf("%s seen on %s", count(seen, "sandbox", "sandboxes"), count(looked, "provider", "providers"))
	for _, o := range scan.Outcomes() {
		if n := outcomes[o]; n > 0 {
			cmd.Printf(", %d %s", n, o)
		}
	}
	cmd.Println()
}
