package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/reaperd/reaperd/internal/duration"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/scan"
	"github.com/reaperd/reaperd/pkg/store"
)

func historyCommand(env environment) *cobra.Command {
	var filter store.Filter
	var since, output string
	var told bool
	cmd := &cobra.Command{
		Use:   "history [SANDBOX]",
		Short: "Show who was reclaimed, when and why",
		Long: `History shows what the daemon reclaimed, the newest first, from the state that it
keeps; whether it runs does not matter. SANDBOX is an id, or at least the first 12
characters of one, or a name.`,
		Example: `  reaperd history --since 1d
  reaperd history docker_6e59fc6681ad --evidence
  reaperd history -p docker --outcome failed -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("history takes one sandbox, found %d: %s", len(args), strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				filter.Sandbox = args[0]
			}
			if o := filter.Outcome; o != "" && !slices.Contains(scan.Outcomes(), scan.Outcome(o)) {
				return usage("there is no outcome %q: it is one of %v", o, scan.Outcomes())
			}
			if since != "" {
				d, err := duration.Parse(since)
				if err != nil {
					return usage("--since: %v", err)
				}
				filter.Since = time.Now().Add(-d)
			}
			if !slices.Contains(historyOutputs, output) {
				return usage("there is no output %q: it is one of %v", output, historyOutputs)
			}
			return showHistory(cmd, env, filter, output, told)
		},
	}
	providerFlag(cmd, &filter.Provider)
	cmd.Flags().StringVar(&since, "since", "", "only what was begun within this time, such as 12h or 7d")
	cmd.Flags().StringVar(&filter.Outcome, "outcome", "", "only what ended so: reclaimed, gone, failed, …")
	cmd.Flags().StringVar(&filter.Policy, "policy", "", "only by this policy")
	cmd.Flags().IntVar(&filter.Limit, "limit", 50, "how many at most; 0 for all")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	cmd.Flags().BoolVar(&told, "evidence", false, "print what each left to tell, where a policy keeps it (action.logs)")
	return cmd
}

var historyOutputs = []string{"table", "json"}

func showHistory(cmd *cobra.Command, env environment, filter store.Filter, output string, told bool) (err error) {
	dsn, err := configuredState(cmd, env)
	if err != nil {
		return err
	}
	r, err := store.Read(cmd.Context(), dsn)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: no daemon has run on it", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	entries, err := r.History(cmd.Context(), filter)
	if err != nil {
		return err
	}
	if output == "json" {
		return historyJSON(cmd.OutOrStdout(), entries)
	}
	historyTable(cmd.OutOrStdout(), entries)
	if told {
		printEvidence(cmd.OutOrStdout(), entries)
	}
	if filter.Limit > 0 && len(entries) == filter.Limit {
		cmd.Printf("\nThere may be more: these are the newest %d (--limit).\n", filter.Limit)
	}
	return nil
}

// outcomeWord says how an entry ended; one that did not is still an intent.
func outcomeWord(e store.Entry) string {
	if e.Ended.IsZero() {
		return "begun"
	}
	return e.Outcome
}

func historyTable(w io.Writer, entries []store.Entry) {
	if len(entries) == 0 {
		fmt.Fprintln(w, "Nothing of that is in the history.")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHEN\tPROVIDER\tINSTANCE ID\tNAME\tOUTCOME\tUPTIME\tWHY")
	for _, e := range entries {
		at := e.Ended
		if at.IsZero() {
			at = e.Begun
		}
		ran := "-"
		if e.UptimeSeconds > 0 {
			ran = uptime(at.Add(-time.Duration(e.UptimeSeconds*float64(time.Second))), at)
		}
		why := fmt.Sprintf("%s: %s", printable(e.Policy), printable(e.Reason))
		if e.By != scan.ByPolicy {
			why += ", by " + printable(e.By)
		}
		if e.Error != "" {
			why += " (" + printable(e.Error) + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", at.Local().Format("2006-01-02 15:04:05"), printable(e.Provider),
			printable(e.InstanceID), printable(e.Name), outcomeWord(e), ran, why)
	}
	_ = t.Flush() // as for every print to the terminal
}

// printEvidence prints what sandboxes left to tell, below the table.
func printEvidence(w io.Writer, entries []store.Entry) {
	for _, e := range entries {
		if e.Evidence == nil {
			continue
		}
		fmt.Fprintf(w, "\n%s", printable(e.InstanceID))
		if e.Evidence.ExitCode != nil {
			fmt.Fprintf(w, ", exit code %d", *e.Evidence.ExitCode)
		}
		fmt.Fprintln(w)
		for _, part := range []struct {
			title string
			lines []string
		}{{"processes", e.Evidence.Processes}, {"output", e.Evidence.Output}} {
			if len(part.lines) > 0 {
				fmt.Fprintf(w, "  %s:\n", part.title)
			}
			for _, line := range part.lines {
				fmt.Fprintf(w, "    %s\n", printable(line))
			}
		}
	}
}

// pastRow is one entry of the history, in ps's words where it has them.
type pastRow struct {
	ID            int64             `json:"id"`
	Provider      string            `json:"provider"`
	Kind          string            `json:"kind"`
	SandboxID     string            `json:"sandbox_id"`
	InstanceID    string            `json:"instance_id"`
	Name          string            `json:"name"`
	Image         string            `json:"image"`
	Revision      string            `json:"revision"`
	Tags          map[string]string `json:"tags"`
	Policy        string            `json:"policy"`
	Reason        string            `json:"reason"`
	Action        string            `json:"action"`
	By            string            `json:"by"`
	Due           seconds           `json:"due,omitzero"`
	BegunAt       seconds           `json:"begun_at"`
	EndedAt       seconds           `json:"ended_at,omitzero"`
	Outcome       string            `json:"outcome"`
	Error         string            `json:"error,omitempty"`
	UptimeSeconds float64           `json:"uptime_seconds"`
	CostDollars   float64           `json:"cost_dollars"`
	Attempt       int               `json:"attempt"`

	Evidence *providers.Evidence `json:"evidence,omitempty"`
}

func historyJSON(w io.Writer, entries []store.Entry) error {
	rows := make([]pastRow, len(entries))
	for i, e := range entries {
		rows[i] = pastRow{
			e.ID, e.Provider, e.Kind, e.SandboxID, e.InstanceID, e.Name, e.Image, e.Revision, e.Tags, e.Policy, e.Reason, e.Action,
			e.By, seconds(e.Due), seconds(e.Begun), seconds(e.Ended), outcomeWord(e), e.Error, e.UptimeSeconds, e.CostDollars, e.Attempt, e.Evidence,
		}
	}
	return writeJSON(w, struct {
		History []pastRow `json:"history"`
	}{rows})
}
