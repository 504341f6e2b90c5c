package strictyaml

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// Schemer is a type that describes what its DecodeYAML reads, as a JSON Schema.
type Schemer interface {
	YAMLSchema() map[string]any
}

// durationPattern is what internal/duration reads, less what no pattern can
// say: that it fits. nothingPattern is what it must not be besides: zero, where
// that has no meaning, and nothing at all.
const (
	durationPattern = `^([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$`
	nothingPattern  = `^[0ywdhms]*$`
)

// Scalar is the schema of a text, which YAML may also have taken for a number
// or a truth value: it is read as it is written.
func Scalar() map[string]any {
	return map[string]any{"type": []string{"string", "number", "boolean"}}
}

// Schema gives the JSON Schema (draft 2020-12) of what Decode reads into these
// targets. A field's `doc` tag is its description.
func Schema(target any, more ...any) map[string]any {
	values := []reflect.Type{reflect.TypeOf(target).Elem()}
	for _, t := range more {
		values = append(values, reflect.TypeOf(t).Elem())
	}
	if len(values) == 1 {
		return schemaOf(values[0])
	}
	return schemaOfStructs(values)
}

func schemaOf(t reflect.Type) map[string]any {
	if s, ok := reflect.New(t).Interface().(Schemer); ok {
		return s.YAMLSchema()
	}
	if t == reflect.TypeFor[time.Duration]() {
		return map[string]any{"type": "string", "pattern": durationPattern, "not": map[string]any{"pattern": nothingPattern}, "examples": []string{"90s", "90m", "1d12h"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		return schemaOfStructs([]reflect.Type{t})
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem()), "minItems": 1}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem()), "minProperties": 1}
	case reflect.String:
		return Scalar()
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	default:
		panic("strictyaml: no schema for " + t.String())
	}
}

func schemaOfStructs(types []reflect.Type) map[string]any {
	properties := map[string]any{}
	required := []string{}
	for _, t := range types {
		for f := range t.Fields() {
			name, options := fieldKey(f)
			if name == "" {
				continue
			}
			s := schemaOf(f.Type)
			if slices.Contains(options, "zero") {
				delete(s, "not")
				s["minLength"] = 1
			}
			if doc := f.Tag.Get("doc"); doc != "" {
				s["description"] = doc
			}
			properties[name] = s
			if slices.Contains(options, "required") {
				required = append(required, name)
			}
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// fieldKey gives the key that a field is read from, "" for none, and the
// options of its yaml tag.
func fieldKey(f reflect.StructField) (name string, options []string) {
	parts := strings.Split(f.Tag.Get("yaml"), ",")
	if parts[0] == "-" {
		return "", nil
	}
	return parts[0], parts[1:]
}
