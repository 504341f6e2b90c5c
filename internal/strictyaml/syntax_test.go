package strictyaml_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/strictyaml"
)

func TestWhatMakesAFileNoYAMLIsToldWhereItStands(t *testing.T) {
	for text, want := range map[string]string{
		"a: b\ntags: {env: *}\n":       `2:13: not YAML: a value cannot begin with a bare *: write it in quotes, such as "*"`,
		"tags: {env: [dev, *]}\n":      `1:19: not YAML: a value cannot begin with a bare *: write it in quotes, such as "*"`,
		"names:\n  - '.*'\n  - *\n":    `3:5: not YAML: a value cannot begin with a bare *: write it in quotes, such as "*"`,
		"names: [.*]\nb: *.x\n":        `2:4: not YAML: a value cannot begin with a bare *: write it in quotes, such as "*"`,
		"a: {b: c\nd: e\n":             `1:4: not YAML: this { is never closed`,
		"a: {b: {c: d}\ne: f\n":        `1:4: not YAML: this { is never closed`,
		"x: 1\na: [{b: [c, d], e: f\n": `2:5: not YAML: this { is never closed`,
		"a: '{'\nb: [x # ]\nc: d\n":    `2:4: not YAML: this [ is never closed`,
		"w: |\n  a { b [\nc: {d: e\n":  `3:4: not YAML: this { is never closed`,
		"a: [b, {c: d]]\n":             `1:13: not YAML: this ] closes the { at 1:8`,
		"a: 'it''s\nb: c\n":            `1:4: not YAML: this ' is never closed`,
		"x: 'a'\na: \"x\\\"\nb: c\n":   `2:4: not YAML: this " is never closed`,
		"a: b\nc: @x\n":                `2:4: not YAML: a value cannot begin with @: write it in quotes`,
		"a: [b, %x]\n":                 `1:8: not YAML: a value cannot begin with %: write it in quotes`,
		"a: b: c\n":                    `1:1: not YAML: mapping values are not allowed in this context`,
		"a: b\n\tc: d\n":               `2:1: a tab cannot indent YAML: use spaces`,
	} {
		_, faults := strictyaml.Parse("f", []byte(text))
		if got := fmt.Sprint(faults.Err()); got != "f:"+want {
			t.Errorf("%q:\n%s\nwant\nf:%s", text, got, want)
		}
		// An editor on another system, and a few lines before it.
		_, faults = strictyaml.Parse("f", []byte("\ufeff"+strings.ReplaceAll(text, "\n", "\r\n")))
		if got := fmt.Sprint(faults.Err()); got != "f:"+want {
			t.Errorf("%q with CRLF:\n%s", text, got)
		}
	}
}

// TestAliasBombsAreRefusedFast: what it would grow to is never made.
func TestAliasBombsAreRefusedFast(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 40 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	begin := time.Now()
	root, faults := strictyaml.Parse("f", []byte(bomb.String()))
	if root != nil || len(faults) == 0 {
		t.Fatalf("%v, %d faults", root, len(faults))
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("took %s", took)
	}
}
