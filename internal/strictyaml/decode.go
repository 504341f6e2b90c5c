package strictyaml

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/duration"
)

// Unmarshaler is a type that reads itself from a node and reports its own
// faults to the decoder.
type Unmarshaler interface {
	DecodeYAML(d *Decoder, n *yaml.Node)
}

// Checker is a struct that looks itself over once its keys are read.
type Checker interface {
	CheckYAML(d *Decoder, n *yaml.Node)
}

// Decoder fills Go values from nodes and gathers faults as it goes.
type Decoder struct {
	file   string
	path   []string
	faults Faults
}

// NewDecoder gives a decoder whose faults name file.
func NewDecoder(file string) *Decoder { return &Decoder{file: file} }

// Faults gives what was found wrong so far.
func (d *Decoder) Faults() Faults { return d.faults }

// Faultf reports a fault at n, under the key that is being read.
func (d *Decoder) Faultf(n *yaml.Node, format string, args ...any) {
	d.faults = append(d.faults, Fault{
		File: d.file, Line: n.Line, Column: n.Column,
		Key:     strings.TrimPrefix(strings.Join(d.path, ""), "."),
		Message: fmt.Sprintf(format, args...),
	})
}

// In runs f with key added to the path that faults name: ".limits" or "[2]".
func (d *Decoder) In(key string, f func()) {
	d.path = append(d.path, key)
	defer func() { d.path = d.path[:len(d.path)-1] }()
	f()
}

// Decode fills the value that target points to from n. Struct fields are named
// by their yaml tags; the option "zero" on a duration allows 0s, the option
// "required" makes it a fault to leave the key out. Several targets, all pointers to structs, share one mapping: each takes its own keys
// and a key that none has is a fault.
func (d *Decoder) Decode(n *yaml.Node, target any, more ...any) {
	values := []reflect.Value{reflect.ValueOf(target).Elem()}
	for _, t := range more {
		values = append(values, reflect.ValueOf(t).Elem())
	}
	if len(values) == 1 {
		d.value(n, values[0], false)
		return
	}
	d.structs(n, values)
}

// Text gives a scalar as it is written, whatever YAML would guess of it, or a
// fault for null, lists and mappings.
func (d *Decoder) Text(n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		d.Faultf(n, "want one value, found %s", describe(n))
		return "", false
	}
	if d.null(n) {
		return "", false
	}
	return n.Value, true
}

func (d *Decoder) null(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!null" {
		return false
	}
	d.Faultf(n, "has no value: give it one or remove the key")
	return true
}

func (d *Decoder) value(n *yaml.Node, v reflect.Value, zero bool) {
	if u, ok := v.Addr().Interface().(Unmarshaler); ok {
		u.DecodeYAML(d, n)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.value(n, p.Elem(), zero)
		v.Set(p)
	case reflect.Struct:
		d.structs(n, []reflect.Value{v})
	case reflect.Slice:
		d.slice(n, v)
	case reflect.Map:
		d.mapping(n, v)
	default:
		d.scalar(n, v, zero)
	}
}

func (d *Decoder) scalar(n *yaml.Node, v reflect.Value, zero bool) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		parse := duration.Parse
		if zero {
			parse = duration.ParseOrZero
		}
		parsed, err := parse(text)
		if err != nil {
			d.Faultf(n, "%v", err)
			return
		}
		v.SetInt(int64(parsed))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if n.ShortTag() != "!!bool" {
			d.Faultf(n, "want true or false, found %q", text)
			return
		}
		v.SetBool(strings.EqualFold(text, "true"))
	case reflect.Int:
		i, err := strconv.Atoi(text)
		if err != nil || n.ShortTag() != "!!int" {
			d.Faultf(n, "want a whole number, found %q", text)
			return
		}
		v.SetInt(int64(i))
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if tag := n.ShortTag(); err != nil || (tag != "!!int" && tag != "!!float") {
			d.Faultf(n, "want a number, found %q", text)
			return
		}
		v.SetFloat(f)
	default:
		panic("strictyaml: cannot read into " + v.Type().String())
	}
}

func (d *Decoder) slice(n *yaml.Node, v reflect.Value) {
	if d.null(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.Faultf(n, "want a list, found %s", describe(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		d.In(fmt.Sprintf("[%d]", i), func() { d.value(c, out.Index(i), false) })
	}
	v.Set(out)
}

func (d *Decoder) mapping(n *yaml.Node, v reflect.Value) {
	if d.null(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.Faultf(n, "want keys and values, found %s", describe(n))
		return
	}
	out := reflect.MakeMap(v.Type())
	for i := 0; i < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		name, ok := d.Text(key)
		if !ok {
			continue
		}
		d.In("."+name, func() {
			k := reflect.ValueOf(name).Convert(v.Type().Key())
			if out.MapIndex(k).IsValid() {
				d.Faultf(key, "is written twice")
				return
			}
			item := reflect.New(v.Type().Elem()).Elem()
			d.value(val, item, false)
			out.SetMapIndex(k, item)
		})
	}
	v.Set(out)
}

type field struct {
	value reflect.Value
	zero  bool
}

func (d *Decoder) structs(n *yaml.Node, values []reflect.Value) {
	if d.null(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.Faultf(n, "want keys and values, found %s", describe(n))
		return
	}
	fields := map[string]field{}
	var names, required []string
	for _, v := range values {
		for f, fv := range v.Fields() {
			name, options := fieldKey(f)
			if name == "" {
				continue
			}
			fields[name] = field{fv, slices.Contains(options, "zero")}
			names = append(names, name)
			if slices.Contains(options, "required") {
				required = append(required, name)
			}
		}
	}
	seen := map[string]string{}
	for i := 0; i < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		name, ok := d.Text(key)
		if !ok {
			continue
		}
		folded := strings.ToLower(name)
		if first, twice := seen[folded]; twice {
			d.In("."+name, func() {
				if first == name {
					d.Faultf(key, "is written twice")
				} else {
					d.Faultf(key, "is written twice, first as %q", first)
				}
			})
			continue
		}
		seen[folded] = name
		f, known := fields[name]
		if !known {
			d.Faultf(key, "unknown key %q%s", name, DidYouMean(name, names))
			continue
		}
		d.In("."+name, func() { d.value(val, f.value, f.zero) })
	}
	for _, name := range required {
		if _, given := seen[name]; !given {
			d.Faultf(n, "%s is missing", name)
		}
	}
	for _, v := range values {
		if c, ok := v.Addr().Interface().(Checker); ok {
			c.CheckYAML(d, n)
		}
	}
}
