package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/reaperd/reaperd/pkg/policy"
)

func explainCommand(env environment) *cobra.Command {
	var only, facts string
	var policies []string
	cmd := &cobra.Command{
		Use:   "explain INSTANCE-ID",
		Short: "Say why a sandbox lives, what will end it, and when",
		Long: `Explain looks at a sandbox once and shows what every policy says of it: every
clause with what it asks for and what it found, every limit with its deadline,
whether or not the policy applies. It takes the ids that stop takes, and changes
nothing.`,
		Example: `  reaperd explain docker_5afaa3bfa704
  reaperd explain build-1 --policies new.yaml --facts facts.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("explain takes one id, found %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o := planOrder{only: only, facts: facts, policies: policies}
			set, reports, now, err := o.judge(cmd, env)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			chosen := find(psRows(reports, true), args[0])
			if len(chosen) != 1 {
				refuse(out, "sandbox", args[0], chosen)
				printUnqueried(out, reports)
				return errTold
			}
			it := chosen[0].item
			explain(out, it.Facts, set.Explain(&it.Facts, now))
			printUnqueried(out, reports)
			return errors.Join(troubled(reports))
		},
	}
	cmd.Flags().StringSliceVar(&policies, "policies", nil, "judge by these files or globs")
	cmd.Flags().StringVar(&facts, "facts", "", "explain a sandbox of this recorded inventory; - reads it from standard input")
	providerFlag(cmd, &only)
	return cmd
}

func explain(w io.Writer, f policy.Facts, t policy.Trace) {
	sb := f.Sandbox
	fmt.Fprintf(w, "%s (%s, %s)\n", printable(sb.InstanceID()), sb.Provider, printable(sb.Name))
	fmt.Fprintf(w, "  %s\n\n", sentence(t))
	facts := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(facts, "  %s\t%s\n", key, value)
		}
	}
	line("state", string(sb.State))
	line("image", printable(sb.Image))
	line("tags", tagText(sb.Tags))
	for _, at := range []struct {
		key string
		t   time.Time
	}{
		{"created", sb.Created}, {"started", sb.Started}, {"ended", sb.Ended}, {"paused since", sb.PausedSince},
		{"last active", sb.LastActive}, {"first seen", f.Pulse.FirstSeen},
	} {
		if !at.t.IsZero() {
			line(at.key, stamp(at.t)+", "+when(at.t, t.At))
		}
	}
	_ = facts.Flush() // as for every print to the terminal
	for i := range t.Protections {
		explainProtection(w, &t.Protections[i], t.At)
	}
	for i := range t.Policies {
		explainPolicy(w, &t.Policies[i], t.At)
	}
}

// sentence says in plain words what is decided, and what will be.
func sentence(t policy.Trace) string {
	d := t.Decision
	switch {
	case d.Verdict == policy.Reclaim:
		return fmt.Sprintf("It is due since %s (%s): the policy %s says %s, and the action is %s.",
			stamp(d.Due), when(d.Due, t.At), d.Policy, d.Reason, d.Action.Action)
	case !d.Due.IsZero():
		return fmt.Sprintf("It lives until %s (%s): then the policy %s says %s, and the action is %s.",
			stamp(d.Due), when(d.Due, t.At), d.Policy, d.Limit, d.Action.Action)
	case !d.Next.IsZero():
		return fmt.Sprintf("It lives: %s. That can change at %s (%s).", d.Reason, stamp(d.Next), when(d.Next, t.At))
	default:
		return fmt.Sprintf("It lives: %s. Time alone will not change that.", d.Reason)
	}
}

func explainProtection(w io.Writer, p *policy.ProtectionTrace, now time.Time) {
	word := "does not keep it"
	if p.Keeps {
		word = "keeps it"
		if !p.Until.IsZero() {
			word += " until " + stamp(p.Until) + " (" + when(p.Until, now) + ")"
		}
	}
	fmt.Fprintf(w, "\nprotect at %s %s\n", p.Source, word)
	explainClauses(w, "", p.Clauses)
}

func explainPolicy(w io.Writer, p *policy.PolicyTrace, now time.Time) {
	word := "does not apply"
	if p.Applies {
		word = "applies"
		if p.Mode == policy.Report {
			word += ", and only reports"
		}
	}
	fmt.Fprintf(w, "\npolicy %s at %s %s\n", p.Name, p.Source, word)
	explainClauses(w, "match ", p.Match)
	for i, entry := range p.Unless {
		explainClauses(w, fmt.Sprintf("unless[%d] ", i), entry)
	}
	if !p.Applies {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range p.Limits {
		deadline := l.Note
		if !l.Due.IsZero() {
			deadline = fmt.Sprintf("due %s (%s), counted from %s", stamp(l.Due), when(l.Due, now), l.From)
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\n", l.Key, printable(l.Wants), printable(deadline))
	}
	_ = t.Flush() // as for every print to the terminal
}

func explainClauses(w io.Writer, prefix string, clauses []policy.ClauseTrace) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range clauses {
		saw := c.Saw
		if saw == "" {
			saw = "nothing"
		}
		fmt.Fprintf(t, "  %s%s\twants %s\tfound %s\t%s\n", prefix, printable(c.Key), printable(c.Wants), printable(saw), c.Answer)
	}
	_ = t.Flush() // as for every print to the terminal
}

// stamp writes an instant for people, in their zone.
func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

// tagText writes tags in order; what the provider did not say is not "none".
func tagText(tags map[string]string) string {
	if tags == nil {
		return "not told by the provider"
	}
	var pairs []string
	for k, v := range tags {
		pairs = append(pairs, printable(k+"="+v))
	}
	if len(pairs) == 0 {
		return "none"
	}
	return strings.Join(sorted(pairs), " ")
}
