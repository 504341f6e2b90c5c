package policy

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/strictyaml"
)

// valueOf gives the value of a key in a mapping, nil if it is not there.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// onlyKeys says whether n has no key but these. Of a mapping with a key that
// is not known one cannot say what it lacks.
func onlyKeys(n *yaml.Node, keys ...string) bool {
	for i := 0; i < len(n.Content); i += 2 {
		if !slices.Contains(keys, n.Content[i].Value) {
			return false
		}
	}
	return true
}

// refuseEmpty reports each list and mapping under n that holds nothing, save
// under the keys that report themselves what they lack.
func refuseEmpty(d *strictyaml.Decoder, n *yaml.Node, except ...string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if slices.Contains(except, key.Value) {
			continue
		}
		if val.Kind != yaml.ScalarNode && len(val.Content) == 0 {
			d.In("."+key.Value, func() { d.Faultf(val, "is empty: fill it or remove the key") })
		}
	}
}

// oneOfTexts reports the value of a key that is given and not among known.
func oneOfTexts(d *strictyaml.Decoder, n *yaml.Node, key, value string, known ...string) {
	at := valueOf(n, key)
	if at == nil || at.Kind != yaml.ScalarNode || at.ShortTag() == "!!null" || slices.Contains(known, value) {
		return
	}
	d.In("."+key, func() { d.Faultf(at, "unknown %s %q%s", key, value, strictyaml.DidYouMean(value, known)) })
}

// onlyTrue reports a key that is given and says false.
func onlyTrue(d *strictyaml.Decoder, n *yaml.Node, key string, value bool) {
	if at := valueOf(n, key); at != nil && at.Kind == yaml.ScalarNode && at.ShortTag() == "!!bool" && !value {
		d.In("."+key, func() { d.Faultf(at, "can only be true: remove the key") })
	}
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// sorted gives a map in the order of its keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
