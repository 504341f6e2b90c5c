package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
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
due. It changes nothing until the configuration says dry_run: false. SIGHUP, or
POST /-/reload, has it read the configuration and the policies anew.

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
	cmd.Flags().String("listen", "", "address of metrics, health and API (overrides http.listen)")
	cmd.Flags().String("log-level", "", "debug, info, warn or error (overrides log.level)")
	return cmd
}

// isDaemon says whether the command is the one that stays.
func isDaemon(cmd *cobra.Command) bool {
	once, err := cmd.Flags().GetBool("once")
	return err == nil && !once
}

// prepare loads everything and opens the log.
func prepare(cmd *cobra.Command, env environment) (*reaper, error) {
	d := &reaper{env: env, options: buildOptions{obeyDryRun: true, deaf: !isDaemon(cmd)}}
	d.load = func() (*loaded, error) { return loadConfig(env, cmd.Flags()) }
	config, err := d.load()
	if err != nil {
		return nil, err
	}
	d.log, d.level = newLog(env.stderr, config.Log.Level, config.Log.Format)
	d.options.log = d.log
	if isDaemon(cmd) {
		if d.options.state, err = openState(cmd.Context(), env, config, d.log); err != nil {
			return nil, err
		}
	}
	d.built, err = assemble(env, config, d.options)
	if err == nil && len(d.built.policies.Policies()) == 0 {
		err = errNoPolicies
	}
	if err != nil {
		return nil, errors.Join(err, d.closeState())
	}
	for _, w := range d.built.warnings {
		d.log.Warn("a setting may not do what it says", zap.String("warning", w))
	}
	return d, nil
}

func runDaemon(cmd *cobra.Command, env environment) error {
	d, err := prepare(cmd, env)
	if err != nil {
		return err
	}
	return errors.Join(d.serve(cmd.Context(), func(string) {}), d.closeState())
}

func (d *reaper) closeState() error {
	if d.options.state == nil {
		return nil
	}
	return d.options.state.Close()
}

// drainHTTP is for how long a shutdown waits for requests under way.
const drainHTTP = 3 * time.Second

// reaper is the daemon.
type reaper struct {
	env     environment
	load    func() (*loaded, error) // reads the configuration
	options buildOptions
	log     *zap.Logger
	level   zap.AtomicLevel
	built   *built
	front   front
}

// serve answers on HTTP and runs the loop until ctx ends, and returns once the
// loop has finished what it began. listening is told the address once it is
// taken.
func (d *reaper) serve(ctx context.Context, listening func(address string)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	notReady := make(chan struct{})
	failed := make(chan error, 1)
	asked := make(chan chan<- error)
	d.front.log = d.log
	d.front.options = api.Options{
		Metrics: d.built.registry,
		Ready: func() error {
			select {
			case <-notReady:
				return errors.New("shutting down")
			default:
				return nil
			}
		},
		Heartbeats: d.built.loop.Heartbeats(),
		Token:      api.NewToken(d.built.config.HTTP.TokenFile, d.log),
		Reload:     func() error { return askToReload(ctx, asked) },
	}
	d.front.failed = func(err error) {
		select {
		case failed <- err:
		default:
		}
		stop() // a daemon that nobody can watch does not go on killing
	}
	if err := d.front.open(ctx, d.built.config.places(d.env)); err != nil {
		return err
	}
	d.built.loop.Hear(d.front.hears(d.built.config))
	listening(d.front.tcp.Addr())
	d.log.Info("reaperd is running", append(d.inEffect(), zap.String("version", version))...)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	notify(d.log, daemon.SdNotifyReady)

	loop := d.built.loop // the rest of what is built is a reload's to change
	var beside sync.WaitGroup
	beside.Go(func() { d.reloadOn(ctx, hangup, asked) })
	beside.Go(func() {
		<-ctx.Done()
		close(notReady)
		notify(d.log, daemon.SdNotifyStopping)
		d.log.Info("stopping: finishing what was begun")
	})
	loop.Run(ctx)
	beside.Wait()

	err := d.front.close(ctx)
	d.log.Info("stopped")
	select {
	case serving := <-failed:
		err = errors.Join(serving, err)
	default:
	}
	return err
}

// inEffect says in log fields by what the daemon works.
func (d *reaper) inEffect() []zap.Field {
	names := make([]string, len(d.built.targets))
	dry := true
	for i, t := range d.built.targets {
		names[i] = t.Name
		dry = dry && t.DryRun
	}
	socket := ""
	if d.front.socket != nil {
		socket = d.front.socket.Addr()
	}
	return []zap.Field{
		zap.Strings("providers", names), zap.Int("policies", len(d.built.policies.Policies())),
		zap.String("listen", d.front.tcp.Addr()), zap.String("socket", socket), zap.Bool("dry_run", dry),
		zap.Bool("remembers", d.options.state != nil),
	}
}

// notify tells systemd, where it started us as a notify service.
func notify(log *zap.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd could not be notified", zap.Error(err))
	}
}

func runOnce(cmd *cobra.Command, env environment) error {
	d, err := prepare(cmd, env)
	if err != nil {
		return err
	}
	reports := d.built.loop.Once(cmd.Context())
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
