package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/scan"
)

// orderGrace is what a sandbox gets that no policy has an action for.
const orderGrace = 10 * time.Second

func stopCommand(env environment) *cobra.Command {
	var o stopOrder
	cmd := &cobra.Command{
		Use:   "stop [INSTANCE-ID]",
		Short: "Stop one sandbox, or all that some policy matches",
		Long: `Stop ends one sandbox with the action of the policy that matches it, or else
removes it. The id is an instance id as ps shows it, the provider's own id or a
beginning of it of 12 characters or more, or an exact name; one that fits several
sandboxes is refused.

An order to stop is carried out at once, whatever the policies' limits say and
even when the configuration says dry_run. Only --dry-run holds it back.

With --all it stops every running sandbox that some policy matches, and leaves
what is protected or matched by none.`,
		Example: `  reaperd stop docker_5afaa3bfa704
  reaperd stop --all --provider docker --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("stop takes one id, found %d: %s", len(args), strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.id = args[0]
			}
			return o.run(cmd, env)
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "stop every running sandbox that some policy matches")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "say what would be stopped, stop nothing")
	providerFlag(cmd, &o.only)
	return cmd
}

type stopOrder struct {
	id, only    string
	all, dryRun bool
}

func (o stopOrder) run(cmd *cobra.Command, env environment) error {
	out := cmd.OutOrStdout()
	if o.id == "" && !o.all {
		fmt.Fprintln(out, "Give an instance ID or --all. See: reaperd ps")
		return errTold
	}
	b, reports, err := survey(cmd, env, buildOptions{only: o.only})
	if err != nil {
		return err
	}
	rows := psRows(reports, true)
	var chosen []row
	if o.id != "" {
		if chosen = find(rows, o.id); len(chosen) != 1 {
			refuse(out, "running sandbox", o.id, chosen)
			printUnqueried(out, reports)
			return errTold
		}
	} else {
		chosen = matched(rows)
		if len(chosen) == 0 && troubled(reports) == nil {
			sayNothingToStop(out, rows)
			return nil
		}
	}
	failed := o.stop(cmd.Context(), out, b, chosen)
	printUnqueried(out, reports)
	if failed > 0 || troubled(reports) != nil {
		return errTold
	}
	return cmd.Context().Err()
}

// stop gives every order at once, as many as each kind bears, and tells of
// each as it comes.
func (o stopOrder) stop(ctx context.Context, out io.Writer, b *built, chosen []row) (failed int) {
	items := map[string][]policy.Item{}
	byRef := map[providers.Ref]row{}
	for _, r := range chosen {
		it := r.item
		it.Decision.Action = order(b.policies, it, time.Now())
		if o.dryRun {
			fmt.Fprintf(out, "Would %s %s (%s)\n", it.Decision.Action.Action, printable(r.InstanceID), r.Provider)
			continue
		}
		items[r.Provider] = append(items[r.Provider], it)
		byRef[it.Facts.Ref] = r
	}
	if o.dryRun {
		fmt.Fprintf(out, "\n%d would be stopped\n", len(chosen))
		return 0
	}
	stopped := 0
	var mu sync.Mutex
	b.loop.Order(ctx, items, func(res scan.Result) {
		mu.Lock()
		defer mu.Unlock()
		r := byRef[res.Item.Facts.Ref]
		name := fmt.Sprintf("%s (%s)", printable(r.InstanceID), r.Provider)
		switch res.Outcome {
		case scan.OutcomeReclaimed:
			stopped++
			fmt.Fprintln(out, "Stopped", name)
		case scan.OutcomeGone:
			stopped++
			fmt.Fprintln(out, "Stopped", name+": already gone")
		default:
			failed++
			fmt.Fprintf(out, "Failed to stop %s: %s\n", name, printable(res.Why()))
		}
	})
	summary := fmt.Sprintf("\n%d stopped", stopped)
	if failed > 0 {
		summary += fmt.Sprintf(", %d failed", failed)
	}
	fmt.Fprintln(out, summary)
	return failed
}

// order is what an operator's stop does to a sandbox: the action of the policy
// that decides or, where none does, of the first that applies, if that ends the
// sandbox; where one applies and would only pause it, a stop, which keeps what it
// wrote; a removal where none applies.
func order(set *policy.Set, it policy.Item, now time.Time) providers.StopOptions {
	state := it.Facts.State
	var first providers.StopOptions
	stop := providers.StopOptions{Action: providers.ActionStop, Grace: orderGrace}
	applies := false
	trace := set.Explain(&it.Facts, now)
	for _, p := range trace.Policies {
		if !p.Applies || p.Mode != policy.Enforce {
			continue
		}
		applies = true
		if p.Action.Action == providers.ActionPause || state.Satisfies(p.Action.Action) {
			continue
		}
		if p.Name == it.Decision.Policy {
			return p.Action
		}
		if first.Action == "" {
			first = p.Action
		}
	}
	switch {
	case first.Action != "":
		return first
	case applies && !state.Satisfies(stop.Action):
		return stop
	default:
		return providers.StopOptions{Action: providers.ActionRemove, Grace: orderGrace}
	}
}

// applies says whether some enforcing policy has a say in the sandbox.
func applies(d policy.Decision) bool {
	return d.Verdict == policy.Reclaim || d.Reason == policy.WithinLimits || d.Reason == policy.UnknownAge
}

// find gives the rows that an id means: by the provider's own id, which nobody
// can forge; else by instance id; else by a long enough beginning of the
// provider's id or the exact name.
func find(rows []row, id string) []row {
	var own, instance, loose []row
	for _, r := range rows {
		sb := r.item.Facts.Sandbox
		switch {
		case sb.ID == id:
			own = append(own, r)
		case r.InstanceID == id:
			instance = append(instance, r)
		case sb.Name == id, len(id) >= 12 && strings.HasPrefix(sb.ID, id):
			loose = append(loose, r)
		}
	}
	switch {
	case len(own) > 0:
		return own
	case len(instance) > 0:
		return instance
	default:
		return loose
	}
}

// refuse says that an id means nothing that is there, of what was looked for, or
// too much.
func refuse(out io.Writer, what, id string, candidates []row) {
	if len(candidates) == 0 {
		fmt.Fprintf(out, "No %s with ID %s. See: reaperd ps\n", what, quote(id))
		return
	}
	fmt.Fprintf(out, "%s means %d sandboxes; give the provider's own id of one:\n", quote(id), len(candidates))
	for _, r := range candidates {
		fmt.Fprintf(out, "  %s (%s, %s)\n", printable(r.item.Facts.ID), r.Provider, printable(r.item.Facts.Name))
	}
}

// sayNothingToStop tells "nothing runs" from "what runs is none of ours".
func sayNothingToStop(out io.Writer, rows []row) {
	running := 0
	for _, r := range rows {
		if r.item.Facts.State == providers.StateRunning {
			running++
		}
	}
	if running == 0 {
		fmt.Fprintln(out, "No running sandboxes.")
		return
	}
	fmt.Fprintf(out, "No running sandboxes that a policy takes; %d left alone. See: reaperd plan\n", running)
}

// quote writes an id in single quotes, which is what scripts that read
// PraisonAI's message look for.
func quote(s string) string { return "'" + printable(strings.ReplaceAll(s, "'", `\'`)) + "'" }

// matched gives the rows that run and to which some policy applies: what is
// protected, not owned, or matched by no policy stays.
func matched(rows []row) []row {
	var out []row
	for _, r := range rows {
		switch r.item.Facts.State {
		case providers.StateStarting, providers.StateRunning, providers.StatePaused:
			if applies(r.item.Decision) {
				out = append(out, r)
			}
		}
	}
	return out
}
