package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "rewrite the committed schemas")

var committed = map[string]string{
	"policies": "../../configs/policies.schema.json",
	"tests":    "../../configs/policytests.schema.json",
	"config":   "../../configs/reaperd.schema.json",
}

func TestCommittedSchemasAreInStep(t *testing.T) {
	for name, path := range committed {
		got := reaperd(t, nil, "check", "--schema", name)
		if *update {
			if err := os.WriteFile(path, []byte(got.out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got.code != exitClean || got.out != string(want) {
			t.Errorf("%s is not what check --schema %s prints: go test ./cmd/reaperd -run Schemas -update", path, name)
		}
	}
}

func compileSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(committed[name])
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON gives a YAML text as a validator takes it.
func asJSON(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestSchemasTakeWhatIsShipped(t *testing.T) {
	for name, glob := range map[string]string{
		"policies": "../../configs/policies/*.yaml",
		"tests":    "../../configs/policies/tests/*.yaml",
		"config":   "../../configs/reaperd.yaml",
	} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", glob, files, err)
		}
		s := compileSchema(t, name)
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(asJSON(t, text)); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
}

func TestSchemasRefuse(t *testing.T) {
	for name, tc := range map[string]struct{ schema, text string }{
		"an unknown key":            {"config", "dryrun: true\n"},
		"a quoted bool":             {"config", "dry_run: 'true'\n"},
		"a kind that is not there":  {"config", "providers: [{name: a, kind: daytona}]\n"},
		"a key of another kind":     {"config", "providers: [{name: a, kind: process, host: x}]\n"},
		"a bare number of seconds":  {"config", "scan: {timeout: 30}\n"},
		"a case without steps":      {"tests", "version: 1\npolicies: [a]\ncases: [{name: a}]\n"},
		"a step without a verdict":  {"tests", "version: 1\npolicies: [a]\ncases: [{name: a, steps: [{at: 0s, expect: {}}]}]\n"},
		"a policy without a limit":  {"policies", "version: 1\npolicies: [{name: a, match: {tags: {a: b}}}]\n"},
		"a policy for whatever not": {"policies", "version: 1\npolicies: [{name: a, match: {kinds: [docker]}, limits: {max_age: 1d}}]\n"},
	} {
		if err := compileSchema(t, tc.schema).Validate(asJSON(t, []byte(tc.text))); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for name, text := range map[string]string{
		"config":   "dry_run: false\nproviders: [{name: a, kind: docker, host: 'unix:///x', price_per_hour: 1}, {name: b, kind: process}]\n",
		"tests":    "version: 1\npolicies: [a]\ncases: [{name: a, sandbox: {tags: unknown}, steps: [{at: 0s, expect: {verdict: keep}}]}]\n",
		"policies": "version: 1\npolicies: [{name: a, match: {tags: {a: 1.10}}, limits: {max_age: 1d}}]\n",
	} {
		if err := compileSchema(t, name).Validate(asJSON(t, []byte(text))); err != nil {
			t.Errorf("a good one is refused: %v", err)
		}
	}
}
