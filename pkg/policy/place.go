package policy

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// place gives a node that stands where a line and column, both from 1, of the
// text of n stand in the file. Where the text was folded or escaped nobody
// can say, and it is n.
func place(n *yaml.Node, file []string, line, column int) *yaml.Node {
	if line < 1 || column < 1 {
		return n
	}
	if n.Style&yaml.LiteralStyle != 0 {
		for _, first := range file[min(n.Line, len(file)):] {
			if content := strings.TrimLeft(first, " "); strings.TrimSpace(content) != "" {
				return &yaml.Node{Line: n.Line + line, Column: len(first) - len(content) + column}
			}
		}
		return n
	}
	if line > 1 || n.Line > len(file) {
		return n
	}
	start := n.Column - 1
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		start++
	}
	written := []rune(file[n.Line-1])
	if start > len(written) || !strings.HasPrefix(string(written[start:]), n.Value) || column > utf8.RuneCountInString(n.Value)+1 {
		return n
	}
	return &yaml.Node{Line: n.Line, Column: start + column}
}
