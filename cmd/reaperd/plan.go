package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/scan"
)

func planCommand(env environment) *cobra.Command {
	var o planOrder
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what would be reclaimed, when, and why",
		Long: `Plan looks at every provider once and shows the decision for each sandbox. It
changes nothing. The exit code is 1 when a provider could not be looked at.

With --policies it judges by those files instead of the configured ones, with
--facts it judges a recorded inventory (ps -o facts) at the instant of its
recording. Together they tell what new policies would have taken.`,
		Example: `  reaperd plan
  reaperd plan --provider docker --json
  reaperd plan --policies new.yaml --facts facts.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, reports, now, err := o.judge(cmd, env)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if o.asJSON {
				err = psJSON(out, psRows(reports, true), reports)
			} else {
				planTable(out, reports, now)
				printUnqueried(out, reports)
			}
			return errors.Join(err, troubled(reports))
		},
	}
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON, with the keys of ps --json")
	cmd.Flags().StringSliceVar(&o.policies, "policies", nil, "judge by these files or globs")
	cmd.Flags().StringVar(&o.facts, "facts", "", "judge this recorded inventory; - reads it from standard input")
	providerFlag(cmd, &o.only)
	return cmd
}

type planOrder struct {
	only, facts string
	policies    []string
	asJSON      bool
}

// judge judges what there is, or what was recorded. It gives the policies that
// it judged by, and the instant.
func (o planOrder) judge(cmd *cobra.Command, env environment) (*policy.Set, []scan.Report, time.Time, error) {
	if o.facts == "" {
		b, reports, err := survey(cmd, env, buildOptions{only: o.only, policies: o.policies})
		if err != nil {
			return nil, nil, time.Time{}, err
		}
		return b.policies, reports, time.Now(), nil
	}
	if o.only != "" {
		return nil, nil, time.Time{}, usage("--provider narrows what is looked at; --facts looks at nothing")
	}
	config, err := loadConfig(env, cmd.Flags())
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	recorded, err := readRecording(o.facts, env.stdin)
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	b := built{config: config}
	if err := b.loadPolicies(nil, o.policies, false); err != nil {
		return nil, nil, time.Time{}, err
	}
	return b.policies, recorded.judge(b.policies), recorded.At, nil
}

func planTable(w io.Writer, reports []scan.Report, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROVIDER\tINSTANCE ID\tNAME\tSTATE\tVERDICT\tWHY\tDUE")
	due, kept := 0, 0
	for _, r := range reports {
		for _, it := range r.Plan.Items {
			sb, d := it.Facts.Sandbox, it.Decision
			if d.Verdict == policy.Reclaim {
				due++
			} else {
				kept++
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", sb.Provider, printable(sb.InstanceID()), printable(sb.Name),
				sb.State, verdict(d), why(d), when(d.Due, now))
			for _, sh := range d.Shadows {
				fmt.Fprintf(t, "\t\t\t\t(report)\t%s: %s\t%s\n", sh.Policy, sh.Reason, when(sh.Due, now))
			}
		}
	}
	_ = t.Flush() // as for every print to the terminal
	fmt.Fprintf(w, "\n%d to reclaim, %d kept\n", due, kept)
}

// verdict says what happens to the sandbox: the action, if it is due.
func verdict(d policy.Decision) string {
	if d.Verdict == policy.Reclaim {
		return string(d.Action.Action)
	}
	return string(d.Verdict)
}

// why says what decides, in the words of the policies.
func why(d policy.Decision) string {
	switch {
	case d.Verdict == policy.Reclaim:
		return fmt.Sprintf("%s: %s", d.Policy, d.Reason)
	case d.Limit != "":
		return fmt.Sprintf("%s until %s: %s", d.Reason, d.Policy, d.Limit)
	default:
		return string(d.Reason)
	}
}
