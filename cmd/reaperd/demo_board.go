package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/scan"
)

// board shows what becomes of a demo's sandboxes: on a terminal as a table
// that changes, elsewhere as a line for each change.
type board struct {
	out      io.Writer
	terminal bool
	changed  chan struct{}

	mu    sync.Mutex
	rows  []*boardRow
	drawn int // lines to go up before drawing again
	quiet int // reports since all were as they should end
}

type boardRow struct {
	stray
	seen     bool
	decision policy.Decision
	result   scan.Result // zero until it went
	said     string      // the last line said of it, without a terminal
}

func newBoard(out io.Writer, strays []stray) *board {
	b := &board{out: out, terminal: isTerminal(out), changed: make(chan struct{}, 1)}
	for _, s := range strays {
		b.rows = append(b.rows, &boardRow{stray: s})
	}
	return b
}

// report takes in one cycle of the daemon.
func (b *board) report(r scan.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := func(ref providers.Ref) *boardRow {
		i := slices.IndexFunc(b.rows, func(row *boardRow) bool { return row.provider == ref.Provider && row.id == ref.ID })
		if i < 0 {
			return nil
		}
		return b.rows[i]
	}
	for _, it := range r.Plan.Items {
		if row := at(it.Facts.Ref); row != nil {
			row.seen, row.decision = true, it.Decision
		}
	}
	for _, res := range r.Results {
		if row := at(res.Item.Facts.Ref); row != nil {
			row.result = res
		}
	}
	if b.settled() {
		b.quiet++
	}
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// run shows the board until all that should go is gone and the rest was judged,
// or ctx ends, or patience does.
func (b *board) run(ctx context.Context, exit bool) {
	if exit {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, demoPatience)
		defer cancel()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		b.draw(time.Now())
		if b.done() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-b.changed:
		case <-tick.C:
		}
	}
}

// afterwards is for how many reports the kept ones are watched once the others
// are gone, so that a limit that wrongly takes them has the time to.
const afterwards = 6

func (b *board) done() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.quiet >= afterwards
}

// settled says whether all are as they should end.
func (b *board) settled() bool {
	for _, row := range b.rows {
		if row.keep != (row.result.Outcome == "") || !row.seen {
			return false
		}
	}
	return true
}

func (b *board) draw(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.terminal {
		for _, row := range b.rows {
			if line := row.milestone(); line != "" && line != row.said {
				row.said = line
				fmt.Fprintf(b.out, "%-8s %-16s %-36s %s\n", row.provider, row.name, row.tagText(), line)
			}
		}
		return
	}
	var s strings.Builder
	if b.drawn > 0 {
		fmt.Fprintf(&s, "\x1b[%dA", b.drawn)
	}
	fmt.Fprintf(&s, "\n\x1b[1m%-8s %-16s %-36s %s\x1b[0m\x1b[K\n", "PROVIDER", "SANDBOX", "TAGS", "WHAT REAPERD SAYS")
	for _, row := range b.rows {
		fmt.Fprintf(&s, "%-8s %-16s %-36s %s\x1b[K\n", row.provider, row.name, row.tagText(), row.colour(row.status(now)))
	}
	b.drawn = len(b.rows) + 2
	fmt.Fprint(b.out, s.String())
}

func (r *boardRow) tagText() string {
	var tags []string
	for k, v := range r.tags {
		tags = append(tags, k+"="+v)
	}
	slices.Sort(tags)
	return strings.Join(tags, " ")
}

// status says what the daemon last said of the sandbox, as seen from now.
func (r *boardRow) status(now time.Time) string {
	d := r.decision
	switch {
	case r.result.Outcome != "" || !r.seen || d.Limit == "":
		return r.milestone()
	default:
		return fmt.Sprintf("due %s: %s, %s", when(d.Due, now), d.Policy, d.Limit)
	}
}

// milestone is status without what changes by the second.
func (r *boardRow) milestone() string {
	d := r.decision
	switch {
	case r.result.Outcome != "":
		d = r.result.Item.Decision
		late := r.result.At.Sub(d.Due).Round(100 * time.Millisecond)
		return fmt.Sprintf("%s: %s, %s (%s after its deadline)", r.result.Outcome, d.Policy, d.Reason, late)
	case !r.seen:
		return "started"
	case d.Limit != "":
		return fmt.Sprintf("lives, until %s says %s", d.Policy, d.Limit)
	case d.Verdict == policy.Reclaim:
		return fmt.Sprintf("being reclaimed: %s, %s", d.Policy, d.Reason)
	default:
		return "kept: " + string(d.Reason)
	}
}

func (r *boardRow) colour(text string) string {
	switch {
	case r.result.Outcome == scan.OutcomeReclaimed:
		return "\x1b[32m" + text + "\x1b[0m"
	case r.result.Outcome != "":
		return "\x1b[31m" + text + "\x1b[0m"
	case r.keep:
		return "\x1b[36m" + text + "\x1b[0m"
	default:
		return text
	}
}

// demoMetrics are the series that a demo ends with.
var demoMetrics = []string{
	"reaperd_sandboxes{", "reaperd_leaked_sandboxes{", "reaperd_reclaims_total{",
	"reaperd_reclaim_lateness_seconds_count{", "reaperd_provider_up{", "reaperd_scans_total{",
}

// printDemoMetrics fetches the daemon's metrics as Prometheus would, and prints
// the key ones that are not zero.
func printDemoMetrics(ctx context.Context, out io.Writer, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		key := slices.ContainsFunc(demoMetrics, func(prefix string) bool { return strings.HasPrefix(line, prefix) })
		if key && !strings.HasSuffix(line, " 0") {
			fmt.Fprintln(out, line)
		}
	}
	return lines.Err()
}
