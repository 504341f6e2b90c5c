package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Work on policies",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(policyTestCommand())
	return cmd
}

func policyTestCommand() *cobra.Command {
	var coverage bool
	cmd := &cobra.Command{
		Use:   "test FILE…",
		Short: "Run the tests of policies",
		Long: `Test reads cases in YAML: a sandbox, what becomes of it in time, and the verdict
that is expected at each step. It prints what differs, and exits with 1 if
anything does. It reaches no provider and needs no configuration.`,
		Example: `  reaperd policy test configs/policies/tests/*.yaml
  reaperd policy test --coverage configs/policies/tests/*.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("policy test needs a file of tests")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPolicyTests(cmd.OutOrStdout(), args, coverage)
		},
	}
	cmd.Flags().BoolVar(&coverage, "coverage", false, "list the policies, clauses and limits that no case reached")
	return cmd
}

func runPolicyTests(out io.Writer, paths []string, coverage bool) error {
	cases, failed := 0, 0
	reached := parts{}
	for _, path := range paths {
		f, err := readTests(path)
		if err != nil {
			return err
		}
		for _, c := range f.Cases {
			cases++
			if diff := f.run(c, reached); diff != "" {
				failed++
				fmt.Fprint(out, diff)
			}
		}
	}
	fmt.Fprintf(out, "%s, %d failed\n", count(cases, "case", "cases"), failed)
	if coverage {
		reached.print(out)
	}
	if failed > 0 {
		return errTold
	}
	return nil
}

// run follows one case through its steps. It gives what differs, "" if nothing
// does.
func (f *testFile) run(c testCase, reached parts) string {
	zero := moment{}.time()
	facts := policy.Facts{
		Sandbox: providers.Sandbox{
			Ref: providers.Ref{Provider: "docker", ID: "sandbox"}, Kind: "docker", Name: "sandbox", Image: "sandbox",
			State: providers.StateRunning, Tags: map[string]string{}, Created: zero, Started: zero,
		},
		Pulse: policy.Pulse{FirstSeen: zero, StateSince: zero, BlindUntil: zero},
	}
	c.Sandbox.apply(&facts)
	c.Pulse.apply(&facts)
	var diff strings.Builder
	last := moment{}
	for _, s := range c.Steps {
		if s.At.unknown || s.At.after < last.after {
			fmt.Fprintf(&diff, "%s:%d: %s: the steps have to follow each other in time\n", f.path, s.line, c.Name)
			return diff.String()
		}
		last = s.At
		before := facts.State
		s.Sandbox.apply(&facts)
		if facts.State != before {
			facts.Pulse.StateSince = s.At.time()
		}
		s.Pulse.apply(&facts)
		trace := f.set.Explain(&facts, s.At.time())
		reached.add(trace.Parts())
		if wrong := s.Expect.differs(trace.Decision); len(wrong) > 0 {
			fmt.Fprintf(&diff, "%s:%d: %s: at %s:\n", f.path, s.line, c.Name, sinceStart(s.At.time()))
			for _, w := range wrong {
				fmt.Fprintf(&diff, "    %-8s want %-24s got %s\n", w.what, w.want, w.got)
			}
		}
	}
	return diff.String()
}

type difference struct{ what, want, got string }

func (e *expectation) differs(d policy.Decision) []difference {
	var out []difference
	compare := func(what, want, got string) {
		if want != got {
			out = append(out, difference{what, cmp.Or(want, "none"), cmp.Or(got, "none")})
		}
	}
	compare("verdict", string(e.Verdict), string(d.Verdict))
	if e.Reason != "" {
		compare("reason", string(e.Reason), string(d.Reason))
	}
	if e.Policy != nil {
		compare("policy", *e.Policy, d.Policy)
	}
	if e.Action != "" {
		compare("action", e.Action, string(d.Action.Action))
	}
	if e.Due != nil {
		compare("due", sinceStart(e.Due.time()), sinceStart(d.Due))
	}
	if e.Shadows != nil {
		var got []string
		for _, s := range d.Shadows {
			got = append(got, s.Policy)
		}
		compare("shadows", strings.Join(sorted(*e.Shadows), ", "), strings.Join(sorted(got), ", "))
	}
	return out
}

// parts is which parts of the policies under test were reached, by their ids.
type parts map[string]policy.Part

func (ps parts) add(more []policy.Part) {
	for _, p := range more {
		p.Reached = p.Reached || ps[p.ID].Reached
		ps[p.ID] = p
	}
}

func (ps parts) print(out io.Writer) {
	var missed []string
	for id, p := range ps {
		if p.Reached {
			continue
		}
		if p.Line > 0 {
			id += fmt.Sprintf(" (line %d)", p.Line)
		}
		missed = append(missed, id)
	}
	fmt.Fprintf(out, "%d of %d policies, clauses and limits reached\n", len(ps)-len(missed), len(ps))
	slices.Sort(missed)
	for _, m := range missed {
		fmt.Fprintf(out, "    never: %s\n", m)
	}
}
