package policy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/pkg/policy"
)

func compiledSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(policy.Schema())
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policies.schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policies.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON gives a file as an editor sees it. False: it is not YAML, or nothing
// that JSON could say.
func asJSON(data []byte) (any, bool) {
	var doc yaml.Node
	if err := yaml.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &doc); err != nil || len(doc.Content) == 0 {
		return nil, false
	}
	var convert func(n *yaml.Node) any
	convert = func(n *yaml.Node) any {
		switch n.Kind {
		case yaml.MappingNode:
			m := map[string]any{}
			for i := 0; i < len(n.Content); i += 2 {
				m[n.Content[i].Value] = convert(n.Content[i+1])
			}
			return m
		case yaml.SequenceNode:
			list := []any{}
			for _, c := range n.Content {
				list = append(list, convert(c))
			}
			return list
		}
		switch n.ShortTag() {
		case "!!null":
			return nil
		case "!!bool":
			return strings.EqualFold(n.Value, "true")
		case "!!int", "!!float":
			if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
				return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
			}
		}
		return n.Value
	}
	return convert(doc.Content[0]), true
}

func TestTheSchemaTakesWhatTheLoaderTakes(t *testing.T) {
	s := compiledSchema(t)
	docs, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for i, block := range yamlBlock.FindAllSubmatch(docs, -1) {
		files["docs/policies.md, block "+strconv.Itoa(i)] = block[1]
	}
	packs, err := filepath.Glob(packsDir + "/*.yaml")
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, path := range packs {
		if files[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	files["values"] = []byte(rules(`match: {tags: {a: no, b: 1.10, c: [007, true, ""], d: "*", e: 2026-11-30, f: {absent: true}, g: {pattern: x}}, names: [1]},
    tag_rules: {allow: {a: [1, 2], b: {pattern: x}}, grace: 0s}`))
	for name, data := range files {
		v, ok := asJSON(data)
		if !ok {
			t.Errorf("%s is not YAML", name)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// beyondSchema are the bad files whose fault no schema can see: what is known
// elsewhere, compiled, compared with another part, or written twice.
var beyondSchema = []string{
	"name_twice", "limit_twice", "tag_key_twice", "kind_", "never_", "images_digest", "images_bad_pattern", "images_everything",
	"names_bad_pattern", "names_breaks_anchor", "names_glob", "names_lookahead", "tag_pattern_bad", "tag_absent_only", "when_",
	"duration_overflow", "second_document",
	"pause_", "paused_", "stopped_by_stop", "tag_rules_forbids_required", "tag_rules_allow_bad_pattern",
	"action_volumes_with_stop", "action_volumes_without_remove", "version_float",
}

func TestTheSchemaRefusesWhatIsWronglyBuilt(t *testing.T) {
	s := compiledSchema(t)
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	seen := map[string]bool{}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		v, ok := asJSON(data)
		if !ok {
			continue
		}
		if i := slices.IndexFunc(beyondSchema, func(prefix string) bool { return strings.HasPrefix(name, prefix) }); i >= 0 {
			seen[beyondSchema[i]] = true
			continue
		}
		if s.Validate(v) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, prefix := range beyondSchema {
		if !seen[prefix] {
			t.Errorf("no bad file %s… any more", prefix)
		}
	}
}

// TestTheSchemaDescribesEveryKey: what an editor shows beside a key.
func TestTheSchemaDescribesEveryKey(t *testing.T) {
	var walk func(path string, s map[string]any)
	walk = func(path string, s map[string]any) {
		if properties, ok := s["properties"].(map[string]any); ok {
			for key, of := range properties {
				if of.(map[string]any)["description"] == nil {
					t.Errorf("%s.%s has no description", path, key)
				}
				walk(path+"."+key, of.(map[string]any))
			}
		}
		for _, inner := range []string{"items", "additionalProperties"} {
			if of, ok := s[inner].(map[string]any); ok {
				walk(path, of)
			}
		}
	}
	s := policy.Schema()
	walk("", s)
	if s["$schema"] == nil || s["$id"] == nil || s["title"] == nil {
		t.Errorf("%v", s)
	}
}
