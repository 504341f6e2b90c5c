package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The example of a test file, as it stands in the docs, passes.
func TestTheDocumentedPolicyTestPasses(t *testing.T) {
	text, err := os.ReadFile("../../docs/policy-tests.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(text), "```yaml\n")
	example, _, closed := strings.Cut(example, "```")
	if !found || !closed {
		t.Fatal("there is no example")
	}
	shipped, err := filepath.Abs("../../configs")
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, "t.yaml", strings.ReplaceAll(example, "../configs", shipped))
	got := reaperd(t, nil, "policy", "test", filepath.Join(dir, "t.yaml"))
	if got.code != exitClean || got.out != "2 cases, 0 failed\n" {
		t.Errorf("%+v", got)
	}
}
