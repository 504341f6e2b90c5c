package strictyaml_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/internal/strictyaml"
)

type sample struct {
	DryRun bool              `yaml:"dry_run"`
	Name   string            `yaml:"name"`
	Count  int               `yaml:"count"`
	Price  float64           `yaml:"price"`
	Wait   time.Duration     `yaml:"wait"`
	Grace  time.Duration     `yaml:"grace,zero"`
	List   []string          `yaml:"list"`
	Tags   map[string]string `yaml:"tags"`
	Inner  *inner            `yaml:"inner"`
}

type inner struct {
	Text string `yaml:"text"`
}

func decode(text string) (sample, string) {
	var s sample
	root, faults := strictyaml.Parse("f.yaml", []byte(text))
	if root != nil {
		d := strictyaml.NewDecoder("f.yaml")
		d.Decode(root, &s)
		faults = append(faults, d.Faults()...)
	}
	if err := faults.Err(); err != nil {
		return s, err.Error()
	}
	return s, ""
}

func TestTextsAreTakenAsWritten(t *testing.T) {
	got, faults := decode("\ufeffdry_run: true\r\nname: 1.10\r\ncount: 3\r\nprice: 2\r\nwait: 1d\r\ngrace: 0s\r\nlist: [no, 007, 1e5, 12:30]\r\n" +
		"tags: {a: no, b: yes, c: 0x1f, d: '', e: 2026-11-30, f: 'null', G: x, g: y}\r\ninner: {text: true}\r\n")
	want := sample{
		DryRun: true, Name: "1.10", Count: 3, Price: 2, Wait: 24 * time.Hour,
		List:  []string{"no", "007", "1e5", "12:30"},
		Tags:  map[string]string{"a": "no", "b": "yes", "c": "0x1f", "d": "", "e": "2026-11-30", "f": "null", "G": "x", "g": "y"},
		Inner: &inner{Text: "true"},
	}
	if diff := cmp.Diff(want, got); diff != "" || faults != "" {
		t.Errorf("faults %q, (-want +got):\n%s", faults, diff)
	}
}

func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"empty":            {"", "f.yaml: the file is empty"},
		"only comments":    {"# nothing\n", "f.yaml: the file is empty"},
		"a list":           {"- a\n", "f.yaml:1:1: want keys and values, found a list"},
		"misspelt":         {"dryrun: true\n", `f.yaml:1:1: unknown key "dryrun": did you mean "dry_run"?`},
		"swapped letters":  {"nmae: x\n", `f.yaml:1:1: unknown key "nmae": did you mean "name"?`},
		"unlike any":       {"inner: {zzzzzz: 1}\n", `f.yaml:1:9: inner: unknown key "zzzzzz" (known here: text)`},
		"twice":            {"name: a\nname: b\n", "f.yaml:2:1: name: is written twice"},
		"twice by case":    {"dry_run: true\nDry_Run: false\n", `f.yaml:2:1: Dry_Run: is written twice, first as "dry_run"`},
		"twice in a map":   {"tags: {a: x, a: y}\n", "f.yaml:1:14: tags.a: is written twice"},
		"null":             {"dry_run:\n", "f.yaml:1:9: dry_run: has no value: give it one or remove the key"},
		"null list":        {"list: ~\n", "f.yaml:1:7: list: has no value: give it one or remove the key"},
		"null in a map":    {"tags: {a: null}\n", "f.yaml:1:11: tags.a: has no value: give it one or remove the key"},
		"null in a list":   {"list: [a, ~]\n", "f.yaml:1:11: list[1]: has no value: give it one or remove the key"},
		"empty bool":       {"dry_run: ''\n", `f.yaml:1:10: dry_run: want true or false, found ""`},
		"number for bool":  {"dry_run: 0\n", `f.yaml:1:10: dry_run: want true or false, found "0"`},
		"quoted bool":      {"dry_run: 'true'\n", `f.yaml:1:10: dry_run: want true or false, found "true"`},
		"yes for bool":     {"dry_run: yes\n", `f.yaml:1:10: dry_run: want true or false, found "yes"`},
		"text for int":     {"count: many\n", `f.yaml:1:8: count: want a whole number, found "many"`},
		"float for int":    {"count: 1.5\n", `f.yaml:1:8: count: want a whole number, found "1.5"`},
		"text for float":   {"price: x\n", `f.yaml:1:8: price: want a number, found "x"`},
		"map for list":     {"list: {a: b}\n", "f.yaml:1:7: list: want a list, found keys and values"},
		"text for list":    {"list: a\n", `f.yaml:1:7: list: want a list, found "a"`},
		"list for text":    {"name: [a]\n", "f.yaml:1:7: name: want one value, found a list"},
		"text for map":     {"inner: a\n", `f.yaml:1:8: inner: want keys and values, found "a"`},
		"bare number":      {"wait: 400\n", `f.yaml:1:7: wait: "400" has no unit: write 400s, 400m or 400h for seconds, minutes or hours`},
		"zero":             {"wait: 0s\n", `f.yaml:1:7: wait: "0s" must be more than zero`},
		"bare zero":        {"grace: 0\n", `f.yaml:1:8: grace: "0" has no unit: write 0s, 0m or 0h for seconds, minutes or hours`},
		"tab":              {"inner:\n\ttext: a\n", "f.yaml:2:1: a tab cannot indent YAML: use spaces"},
		"second document":  {"name: a\n---\nname: b\n", "f.yaml:3:1: a second document begins here: write one document to a file"},
		"anchor and alias": {"name: &a x\nlist: [*a]\n", "f.yaml:1:7: anchors (&a) are not taken: write the value out where it is needed\nf.yaml:2:8: aliases (*a) are not taken: write the value out"},
		"merge key":        {"inner: {<<: {text: a}}\n", "f.yaml:1:9: merge keys (<<) are not taken: write the keys out"},
		"explicit tag":     {"name: !!str 5\n", "f.yaml:1:7: explicit tags (!!str) are not taken: write the plain value"},
		"all at once":      {"wait: 5\nnmae: x\n", "f.yaml:1:7: wait: \"5\" has no unit: write 5s, 5m or 5h for seconds, minutes or hours\nf.yaml:2:1: unknown key \"nmae\": did you mean \"name\"?"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := decode(tc.in); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestAliasBombIsRefusedAtOnce(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'n'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "]\n"
	}
	if _, got := decode(bomb); !strings.Contains(got, "are not taken") {
		t.Errorf("got %q", got)
	}
}

func TestSeveralTargetsShareOneMapping(t *testing.T) {
	root, _ := strictyaml.Parse("f.yaml", []byte("name: a\ntext: b\nwait: 1h\noops: c\n"))
	var s sample
	var i inner
	d := strictyaml.NewDecoder("f.yaml")
	d.Decode(root, &s, &i)
	if s.Name != "a" || s.Wait != time.Hour || i.Text != "b" {
		t.Errorf("got %+v and %+v", s, i)
	}
	if got := d.Faults().Error(); !strings.HasPrefix(got, `f.yaml:4:1: unknown key "oops"`) {
		t.Errorf("got %q", got)
	}
}

type asked struct {
	Name string        `yaml:"name,required" doc:"what it is called"`
	Wait time.Duration `yaml:"wait,zero"`
	Deep []inner       `yaml:"deep"`
}

func TestRequiredKeys(t *testing.T) {
	root, _ := strictyaml.Parse("f.yaml", []byte("wait: 1h\n"))
	var a asked
	d := strictyaml.NewDecoder("f.yaml")
	d.Decode(root, &a)
	if got := d.Faults().Error(); got != "f.yaml:1:1: name is missing" {
		t.Errorf("got %q", got)
	}
}

func TestSchema(t *testing.T) {
	got := strictyaml.Schema(&asked{})
	want := map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"name"},
		"properties": map[string]any{
			"name": map[string]any{"type": []string{"string", "number", "boolean"}, "description": "what it is called"},
			"wait": map[string]any{
				"type": "string", "examples": []string{"90s", "90m", "1d12h"},
				"pattern": `^([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$`, "minLength": 1,
			},
			"deep": map[string]any{
				"type": "array", "minItems": 1,
				"items": map[string]any{
					"type": "object", "additionalProperties": false,
					"properties": map[string]any{"text": map[string]any{"type": []string{"string", "number", "boolean"}}},
				},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSchemaOfADuration: one that may not be zero may not be nothing either.
func TestSchemaOfADuration(t *testing.T) {
	var d time.Duration
	not := strictyaml.Schema(&d)["not"].(map[string]any)["pattern"].(string)
	refused := regexp.MustCompile(not)
	for text, want := range map[string]bool{"": true, "0s": true, "0h0m": true, "0": true, "10s": false, "1d": false, "0h5m": false} {
		if refused.MatchString(text) != want {
			t.Errorf("%q refused: %v", text, !want)
		}
	}
}
