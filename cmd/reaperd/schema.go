package main

import (
	"io"
	"maps"
	"slices"

	"github.com/reaperd/reaperd/internal/strictyaml"
	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers/all"
)

// schemas are the JSON Schemas that check prints, by the kind of file.
var schemas = map[string]func() map[string]any{
	"policies": policy.Schema,
	"tests":    func() map[string]any { return titled("tests of reaperd's policies", strictyaml.Schema(&testFile{})) },
	"config":   configSchema,
}

func printSchema(w io.Writer, of string) error {
	schema, ok := schemas[of]
	if !ok {
		return usage("there is no schema %q%s", of, strictyaml.DidYouMean(of, slices.Collect(maps.Keys(schemas))))
	}
	return writeJSON(w, schema())
}

func titled(title string, schema map[string]any) map[string]any {
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = title
	return schema
}

// configSchema describes the configuration, with the keys of each kind.
func configSchema() map[string]any {
	s := titled("reaperd's configuration", strictyaml.Schema(&Config{}))
	registry := all.Registry()
	var kinds []any
	for _, name := range registry.Names() {
		kind, err := registry.Kind(name)
		if err != nil {
			panic(err) // it is among the names
		}
		e := strictyaml.Schema(&entry{}, kind.Settings())
		e["properties"].(map[string]any)["kind"] = map[string]any{"const": name}
		kinds = append(kinds, e)
	}
	s["properties"].(map[string]any)["providers"] = map[string]any{
		"type": "array", "minItems": 1, "items": map[string]any{"oneOf": kinds},
		"description": "where sandboxes live; without it, what is here is detected",
	}
	return s
}

// YAMLSchema implements strictyaml.Schemer.
func (*moment) YAMLSchema() map[string]any {
	return map[string]any{"type": "string", "description": "from the start of the case, such as 4h or 0s; or unknown"}
}

// YAMLSchema implements strictyaml.Schemer.
func (*testTags) YAMLSchema() map[string]any {
	return map[string]any{"oneOf": []any{
		map[string]any{"const": "unknown"},
		map[string]any{"type": "object", "additionalProperties": strictyaml.Scalar()},
	}}
}

// YAMLSchema implements strictyaml.Schemer.
func (*names) YAMLSchema() map[string]any {
	return map[string]any{"type": "array", "items": strictyaml.Scalar()}
}
