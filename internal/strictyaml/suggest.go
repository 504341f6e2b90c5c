package strictyaml

import (
	"slices"
	"strings"
)

// DidYouMean gives a clause to end a message with: the name among known that
// is close to name, or the whole list where none is.
func DidYouMean(name string, known []string) string {
	known = slices.Sorted(slices.Values(known))
	best, bestDistance := "", 3
	for _, k := range known {
		if dist := distance(fold(name), fold(k)); dist < bestDistance && dist < len(k) {
			best, bestDistance = k, dist
		}
	}
	if best != "" {
		return `: did you mean "` + best + `"?`
	}
	if len(known) == 0 {
		return ""
	}
	return " (known here: " + strings.Join(known, ", ") + ")"
}

// fold makes dryrun, dry-run and Dry_Run the same.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// distance is the number of letters to change, add, drop or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
