package policy

import (
	"maps"
	"slices"

	"github.com/reaperd/reaperd/internal/strictyaml"
	"github.com/reaperd/reaperd/pkg/providers"
)

// object is a JSON Schema or a part of one.
type object = map[string]any

// Schema gives the JSON Schema (draft 2020-12) of a policies file, for editors.
// What it refuses, Load refuses; Load, which knows what is built in and
// configured and compiles what is written, refuses more.
func Schema() map[string]any {
	s := strictyaml.Schema(&document{})
	fillNothingEmpty(s)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "https://github.com/reaperd/reaperd/raw/main/configs/policies.schema.json"
	s["title"] = "reaperd policies"
	s["required"] = []string{"version"}
	s["anyOf"] = needs("policies", "protect")
	of(s, "version")["const"] = 1

	rule := of(s, "policies")
	rule["anyOf"] = needs("limits", "tag_rules")
	of(rule, "name")["pattern"] = policyName.String()
	of(rule, "match")["anyOf"] = needs("tags", "names", "images", "when", "everything")
	of(rule, "match", "everything")["const"] = true
	of(rule, "unless", "everything")["const"] = true
	of(s, "protect", "everything")["const"] = true
	of(rule, "tag_rules")["anyOf"] = needs("require", "allow", "forbid")
	of(rule, "mode")["enum"] = []Mode{Enforce, Report}
	of(rule, "action", "type")["enum"] = []providers.Action{providers.ActionStop, providers.ActionRemove, providers.ActionPause}
	logs := of(rule, "action", "logs")
	logs["minimum"], logs["maximum"] = 1, mostLogs
	return s
}

// of gives the schema of what stands under these keys, in lists that of an item.
func of(s object, keys ...string) object {
	for _, key := range keys {
		s = s["properties"].(object)[key].(object)
		if items, isList := s["items"].(object); isList {
			s = items
		}
	}
	return s
}

// needs is what anyOf takes to ask for one of these keys.
func needs(keys ...string) []object {
	out := make([]object, len(keys))
	for i, key := range keys {
		out[i] = object{"required": []string{key}}
	}
	return out
}

// fillNothingEmpty adds to each mapping that it may not be empty.
func fillNothingEmpty(s object) {
	if properties, ok := s["properties"].(object); ok {
		s["minProperties"] = 1
		for _, p := range properties {
			fillNothingEmpty(p.(object))
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := s[key].(object); ok {
			fillNothingEmpty(inner)
		}
	}
}

// filled is the schema of a text that may not be blank.
func filled() object {
	s := strictyaml.Scalar()
	s["pattern"] = `\S`
	return s
}

// YAMLSchema implements strictyaml.Schemer.
func (*protection) YAMLSchema() map[string]any {
	s := strictyaml.Schema(&selector{}, &bound{})
	s["anyOf"] = needs(slices.Sorted(maps.Keys(strictyaml.Schema(&selector{})["properties"].(object)))...)
	return s
}

// YAMLSchema implements strictyaml.Schemer.
func (*spared) YAMLSchema() map[string]any { return strictyaml.Schema(&selector{}) }

// YAMLSchema implements strictyaml.Schemer.
func (*word) YAMLSchema() map[string]any { return filled() }

// YAMLSchema implements strictyaml.Schemer.
func (*tagKey) YAMLSchema() map[string]any { return filled() }

// YAMLSchema implements strictyaml.Schemer.
func (*pattern) YAMLSchema() map[string]any { return filled() }

// YAMLSchema implements strictyaml.Schemer.
func (*imageGlob) YAMLSchema() map[string]any { return filled() }

// YAMLSchema implements strictyaml.Schemer.
func (*when) YAMLSchema() map[string]any { return filled() }

// YAMLSchema implements strictyaml.Schemer.
func (*stateWord) YAMLSchema() map[string]any {
	var states []providers.State
	for _, s := range allStates {
		if judgedStates&setOf(s) != 0 {
			states = append(states, s)
		}
	}
	return object{"enum": states}
}

// YAMLSchema implements strictyaml.Schemer.
func (*tagClauses) YAMLSchema() map[string]any {
	form := strictyaml.Schema(&valueForm{})
	of(form, "absent")["const"] = true
	return byTag(strictyaml.Scalar(), form)
}

// YAMLSchema implements strictyaml.Schemer.
func (*allowances) YAMLSchema() map[string]any {
	form := strictyaml.Schema(&valueForm{})
	delete(form["properties"].(object), "absent")
	return byTag(valueInList(), form)
}

// byTag is the schema of what is asked of tags: one value, a list of them, or
// one of the forms.
func byTag(value, form object) object {
	form["minProperties"], form["maxProperties"] = 1, 1
	return object{
		"type": "object", "minProperties": 1, "propertyNames": object{"pattern": `\S`},
		"additionalProperties": object{"anyOf": []object{
			value, {"type": "array", "items": valueInList(), "minItems": 1}, form,
		}},
	}
}

// valueInList is the schema of a value where "*" does not mean any.
func valueInList() object {
	s := strictyaml.Scalar()
	s["not"] = object{"const": "*"}
	return s
}
