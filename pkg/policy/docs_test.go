package policy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/reaperd/reaperd/pkg/policy"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

func TestEveryFileInTheDocsLoads(t *testing.T) {
	data, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, block := range yamlBlock.FindAllStringSubmatch(string(data), -1) {
		if !strings.HasPrefix(block[1], "version: 1\n") {
			continue
		}
		found++
		names := policy.Known{Kinds: known.Kinds, Providers: []string{"dev-docker"}}
		if _, warnings, err := policy.Load([]policy.File{{Name: "policies.md", Data: []byte(block[1])}}, names); err != nil || len(warnings) > 0 {
			t.Errorf("%v %v\nin\n%s", warnings, err, block[1])
		}
	}
	if found < 4 {
		t.Errorf("only %d files found", found)
	}
}

// TestEveryReasonIsInTheDocs fails on a reason that nobody described.
func TestEveryReasonIsInTheDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range policy.Reasons() {
		if !strings.Contains(string(data), "`"+string(r)+"`") {
			t.Errorf("docs/policies.md does not tell of %s", r)
		}
	}
}
