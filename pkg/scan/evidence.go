package scan

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// The bounds of what is kept of a sandbox's end: the history is for many.
const (
	evidenceTimeout = 5 * time.Second // a reclaim waits for it
	mostOutput      = 64 << 10        // bytes of output, the last ones
	mostLine        = 4 << 10         // of each line, its beginning
	mostProcesses   = 20
)

// evidence asks what a sandbox that is about to be reclaimed leaves to tell of
// its end. Whatever goes wrong with that stops nothing.
func (s *Scanner) evidence(ctx context.Context, it policy.Item) *providers.Evidence {
	w, ok := providers.As[providers.Witness](s.target.Provider)
	if !ok || it.Decision.Logs == 0 || s.keeper == nil || s.target.DryRun {
		return nil
	}
	e, err := call(ctx, s, opEvidence, evidenceTimeout, func(ctx context.Context) (providers.Evidence, error) {
		return w.Evidence(ctx, it.Facts.Sandbox, it.Decision.Logs)
	})
	if err != nil {
		s.log.Warn("what a sandbox had to tell could not be kept", zap.String("sandbox", it.Facts.ID), zap.Error(err))
		return nil
	}
	e.Output = bounded(last(e.Output, it.Decision.Logs), mostOutput)
	e.Processes = bounded(e.Processes[:min(len(e.Processes), mostProcesses)], mostOutput)
	return &e
}

func last(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }

// bounded gives the last of the lines that fit into so many bytes, each of them
// harmless.
func bounded(lines []string, most int) []string {
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		out = append(out, harmless(line))
	}
	for i := len(out) - 1; i >= 0; i-- {
		if most -= len(out[i]) + 1; most < 0 {
			return out[i+1:]
		}
	}
	return out
}

// harmless takes from a line what could act on the terminal of whoever reads
// it, and what is no text.
func harmless(line string) string {
	if len(line) > mostLine {
		line = line[:mostLine] + "…"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return -1
		default:
			return r
		}
	}, line)
}
