package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/scan"
)

func psCommand(env environment) *cobra.Command {
	var everything, asJSON bool
	var only, output string
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List running sandboxes",
		Long: `Ps asks every provider what runs there. A provider that cannot be asked is named
and makes the exit code 1: "no sandboxes" and "could not look" are different
answers.`,
		Example: `  reaperd ps
  reaperd ps --all --provider docker
  reaperd ps --json
  reaperd ps -o facts`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				output = "json"
			}
			if !slices.Contains(psOutputs, output) {
				return usage("-o takes one of %s, found %q", strings.Join(psOutputs, ", "), output)
			}
			_, reports, err := survey(cmd, env, buildOptions{only: only})
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch output {
			case "json":
				err = psJSON(out, psRows(reports, everything), reports)
			case "facts":
				err = writeRecording(out, reports, time.Now())
			default:
				psTable(out, psRows(reports, everything), time.Now())
				printUnqueried(out, reports)
			}
			return errors.Join(err, troubled(reports))
		},
	}
	cmd.Flags().BoolVarP(&everything, "all", "a", false, "also those that are not running")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as -o json does")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json, or facts: the inventory for plan --facts, whatever its state")
	providerFlag(cmd, &only)
	return cmd
}

var psOutputs = []string{"table", "json", "facts"}

func providerFlag(cmd *cobra.Command, only *string) {
	cmd.Flags().StringVarP(only, "provider", "p", "", "only the providers of this name or kind")
}

// survey looks at every provider chosen, and changes nothing. A provider named
// on the command line that there is not is a report with an error, like one
// that cannot be reached.
func survey(cmd *cobra.Command, env environment, o buildOptions) (*built, []scan.Report, error) {
	b, err := build(env, cmd.Flags(), o)
	if u, ok := errors.AsType[unknownProvider](err); ok {
		return &built{loop: scan.New(scan.Options{})}, []scan.Report{{Provider: u.name, Err: u}}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return b, b.loop.Look(cmd.Context()), nil
}

func troubled(reports []scan.Report) error {
	for _, r := range reports {
		if r.Err != nil {
			return errTold
		}
	}
	return nil
}

// row is one sandbox as ps and stop speak of it: the first six keys are those
// of PraisonAI's ps --json.
type row struct {
	Provider   string            `json:"provider"`
	InstanceID string            `json:"instance_id"`
	Status     string            `json:"status"`
	Endpoint   string            `json:"endpoint"`
	CreatedAt  seconds           `json:"created_at"`
	Metadata   map[string]string `json:"metadata"`
	StartedAt  seconds           `json:"started_at"`
	Verdict    policy.Verdict    `json:"verdict"`
	Reason     policy.Reason     `json:"reason"`
	Policy     string            `json:"policy,omitempty"`
	Deadline   seconds           `json:"deadline,omitzero"`

	item policy.Item
}

// seconds is a time as a float of Unix seconds, 0.0 where it is not known.
type seconds time.Time

// IsZero lets omitzero leave out what is not known.
func (s seconds) IsZero() bool { return time.Time(s).IsZero() }

// MarshalJSON writes a number with a fraction always, so that readers that tell
// integers from floats get what PraisonAI gives them.
func (s seconds) MarshalJSON() ([]byte, error) { //nolint:unparam // json.Marshaler asks for an error
	if s.IsZero() {
		return []byte("0.0"), nil
	}
	text := strconv.FormatFloat(float64(time.Time(s).UnixMicro())/1e6, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return []byte(text), nil
}

// statusWord gives PraisonAI's word for a state.
func statusWord(s providers.State) string {
	switch s {
	case providers.StateRunning:
		return "running"
	case providers.StateCreated, providers.StateStarting:
		return "provisioning"
	case providers.StatePaused, providers.StateSuspended:
		return "idle"
	case providers.StateChanging:
		return "stopping"
	case providers.StateExited:
		return "stopped"
	default:
		return "error"
	}
}

func psRows(reports []scan.Report, everything bool) []row {
	rows := []row{}
	for _, r := range reports {
		for _, it := range r.Plan.Items {
			sb, d := it.Facts.Sandbox, it.Decision
			if sb.State != providers.StateRunning && !everything {
				continue
			}
			meta := map[string]string{"state": sb.RawState}
			if sb.Image != "" {
				meta["image"] = sb.Image
			}
			if sb.Name != "" {
				meta["name"] = sb.Name
			}
			rows = append(rows, row{
				Provider: sb.Provider, InstanceID: sb.InstanceID(), Status: statusWord(sb.State), Endpoint: sb.Endpoint,
				CreatedAt: seconds(sb.Created), StartedAt: seconds(sb.Started), Metadata: meta,
				Verdict: d.Verdict, Reason: d.Reason, Policy: d.Policy, Deadline: seconds(d.Due),
				item: it,
			})
		}
	}
	return rows
}

func psTable(w io.Writer, rows []row, now time.Time) {
	if len(rows) == 0 {
		fmt.Fprintln(w, "No running sandboxes.")
		return
	}
	fmt.Fprintf(w, "%-26s %-10s %-10s %-8s %s\n", "INSTANCE ID", "PROVIDER", "STATUS", "UPTIME", "IMAGE")
	fmt.Fprintln(w, strings.Repeat("-", 78))
	running := 0
	for _, r := range rows {
		since := time.Time(r.StartedAt)
		if since.IsZero() {
			since = time.Time(r.CreatedAt)
		}
		image := r.Metadata["image"]
		if image == "" {
			image = r.Endpoint
		}
		fmt.Fprintf(w, "%-26s %-10s %-10s %-8s %s\n", printable(r.InstanceID), r.Provider, r.Status, uptime(since, now), printable(image))
		if r.Status == "running" {
			running++
		}
	}
	fmt.Fprintf(w, "\n%d running. Stop with: reaperd stop <instance-id>\n", running)
}

type queryError struct {
	Provider string `json:"provider"`
	Error    string `json:"error"`
}

func queryErrors(reports []scan.Report) []queryError {
	failed := []queryError{}
	for _, r := range reports {
		if r.Err != nil {
			failed = append(failed, queryError{r.Provider, r.Err.Error()})
		}
	}
	return failed
}

func psJSON(w io.Writer, rows []row, reports []scan.Report) error {
	return writeJSON(w, struct {
		Sandboxes []row        `json:"sandboxes"`
		Errors    []queryError `json:"errors"`
	}{rows, queryErrors(reports)})
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
