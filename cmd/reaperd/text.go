package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/reaperd/reaperd/pkg/scan"
)

// printable makes a text from outside safe for a terminal: a sandbox's name
// may hold escape sequences.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '�'
	}, s)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// uptime writes an age as PraisonAI's ps does: 42s, 59m, 1h00m, 1d01h; "-" if
// the start is not known, 0s if it lies ahead.
func uptime(since, now time.Time) string {
	if since.IsZero() {
		return "-"
	}
	d := max(0, now.Sub(since))
	h := int(d.Hours())
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case h < 24:
		return fmt.Sprintf("%dh%02dm", h, int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", h/24, h%24)
	}
}

// when writes a moment as seen from now: "in 2h05m", "3m ago", "now".
func when(at, now time.Time) string {
	switch d := at.Sub(now); {
	case at.IsZero():
		return "-"
	case d >= time.Second:
		return "in " + uptime(now, at)
	case d <= -time.Second:
		return uptime(at, now) + " ago"
	default:
		return "now"
	}
}

// printUnqueried says which providers could not be looked at, because no
// sandboxes and could not look are different answers.
func printUnqueried(w io.Writer, reports []scan.Report) {
	first := true
	for _, r := range reports {
		if r.Err == nil {
			continue
		}
		if first {
			fmt.Fprint(w, "\nSome providers could not be queried (sandboxes may still be running):\n")
			first = false
		}
		fmt.Fprintf(w, "  %s: %s\n", printable(r.Provider), printable(r.Err.Error()))
	}
}
