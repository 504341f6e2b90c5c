package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/reaperd/reaperd/internal/duration"
	"github.com/reaperd/reaperd/pkg/policy"
)

// ticksShown is how many of each schedule's next ticks check prints.
const ticksShown = 5

func checkCommand(env environment) *cobra.Command {
	var schema string
	cmd := &cobra.Command{
		Use:   "check [POLICY-FILE…]",
		Short: "Check the configuration and the policies",
		Long: `Check loads the configuration and the policies as run would, prints every fault
with its place, or else what is in effect: the values, the providers with their
next ticks, and each policy in a line. It reaches no provider.

With policy files it checks just those, whatever the configuration.`,
		Example: `  reaperd check --config /etc/reaperd/reaperd.yaml
  reaperd check configs/policies/*.yaml
  reaperd check --schema policies`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch {
			case schema != "":
				return printSchema(out, schema)
			case len(args) > 0:
				set, warnings, err := loadPolicyFiles(args, known(nil, false))
				if err != nil {
					return err
				}
				printPolicies(out, set, warnings)
				return nil
			}
			b, err := build(env, cmd.Flags(), buildOptions{obeyDryRun: true})
			if err != nil {
				return err
			}
			printCheck(out, b, env, time.Now())
			if len(b.policies.Policies()) == 0 {
				return errNoPolicies
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&schema, "schema", "", "print a JSON Schema for editors instead: policies, tests or config")
	return cmd
}

func printCheck(w io.Writer, b *built, env environment, now time.Time) {
	c := b.config
	from := c.Path
	if from == "" {
		from = "no file: defaults and environment"
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(key string, value any) { fmt.Fprintf(t, "%s\t%v\n", key, value) }
	line("configuration", from)
	line("dry_run", c.DryRun)
	line("log", c.Log.Level+", "+c.Log.Format)
	line("timezone", c.Timezone)
	line("schedule", c.Schedule)
	line("state.dsn", c.stateText(env))
	line("state.history", duration.Format(c.State.History))
	line("http.listen", c.HTTP.Listen)
	line("http.token_file", c.tokenText())
	line("socket", c.socketText(env))
	line("scan.timeout", duration.Format(c.Scan.Timeout))
	line("reclaim.attempts", c.Reclaim.Attempts)
	line("brake", fmt.Sprintf("beyond %d or %v of those running within %s, each is held for %s",
		c.Brake.MinCount, c.Brake.MaxFraction, duration.Format(c.Brake.Window), duration.Format(c.Brake.Confirm)))
	line("clock.max_skew", duration.Format(c.Clock.MaxSkew))
	line("leases.max_ttl", duration.Format(c.Leases.MaxTTL))
	line("policies", strings.Join(c.files, ", "))
	_ = t.Flush() // as for every print to the terminal

	fmt.Fprintf(w, "\n%s:\n", count(len(b.targets), "provider", "providers"))
	for _, target := range b.targets {
		dry := ""
		if target.DryRun {
			dry = ", dry run"
		}
		fmt.Fprintf(w, "  %s (%s, %s%s), next scans:\n", target.Name, target.Kind, target.Schedule, dry)
		at := now.In(c.zone())
		for range ticksShown {
			at = target.Schedule.Next(at)
			if at.IsZero() {
				break
			}
			fmt.Fprintf(w, "    %s\n", at.Format("2006-01-02 15:04:05 MST"))
		}
	}

	fmt.Fprintln(w)
	printPolicies(w, b.policies, b.warnings)
}

// stateText says where a daemon would remember.
func (l *loaded) stateText(env environment) string {
	dsn, err := l.stateDSN(env)
	switch {
	case err != nil:
		return "nowhere: " + err.Error()
	case dsn == "":
		return "none: what is remembered is lost when the daemon ends"
	default:
		return dsn
	}
}

// tokenText says what has to be shown over TCP.
func (l *loaded) tokenText() string {
	if l.HTTP.TokenFile == "" {
		return "none: nothing can be changed over TCP"
	}
	return l.HTTP.TokenFile
}

// socketText says where a daemon's socket would be, and whose.
func (l *loaded) socketText(env environment) string {
	path := l.socketPath(env)
	switch {
	case path == "":
		return "none"
	case l.Socket.Group == "":
		return path + ", mode " + l.Socket.Mode
	default:
		return path + ", mode " + l.Socket.Mode + ", group " + l.Socket.Group
	}
}

func printPolicies(w io.Writer, set *policy.Set, warnings []string) {
	policies := set.Policies()
	fmt.Fprintf(w, "%s:\n", count(len(policies), "policy", "policies"))
	for _, p := range policies {
		fmt.Fprintf(w, "  %s (%s, %s): %s\n", p.Name, p.Mode, p.Source, p.Summary)
	}
	for _, warning := range warnings {
		fmt.Fprintf(w, "\nwarning: %s\n", warning)
	}
}
