package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// whenType is the type of the variable sandbox.
var whenType = cel.ObjectType("Sandbox")

// whenFields are the fields of sandbox beside its tags, each with what reads
// it; "" cannot say.
var whenFields = []struct {
	name string
	read func(f *Facts) string
}{
	{"id", func(f *Facts) string { return f.ID }},
	{"name", func(f *Facts) string { return f.Name }},
	{"kind", func(f *Facts) string { return f.Kind }},
	{"provider", func(f *Facts) string { return f.Provider }},
	{"image", func(f *Facts) string { return familiar(f.Image).String() }},
	{"state", func(f *Facts) string { return string(f.State) }},
}

var errUnsaid = errors.New("the provider did not say")

// whenFacts are the facts as expressions see them: the variable sandbox, and
// what variables are looked up in. What one expression read, the next ones find
// ready.
type whenFacts struct {
	facts  *Facts
	fields [6]ref.Val // by their index in whenFields
	tags   ref.Val
	asked  [2]struct { // the tags that were asked for first
		key   string
		value ref.Val
	}
}

// field gives a field by its index in whenFields.
func (w *whenFacts) field(i int) (ref.Val, error) {
	if w.fields[i] != nil {
		return w.fields[i], nil
	}
	text := whenFields[i].read(w.facts)
	if text == "" {
		return nil, errUnsaid
	}
	w.fields[i] = types.String(text)
	return w.fields[i], nil
}

// allTags gives the tags as a map.
func (w *whenFacts) allTags(adapter types.Adapter) (ref.Val, error) {
	if w.facts.Tags == nil {
		return nil, errUnsaid
	}
	if w.tags == nil {
		w.tags = types.NewStringStringMap(adapter, w.facts.Tags)
	}
	return w.tags, nil
}

// tag gives the value of one tag, "" if it is not there.
func (w *whenFacts) tag(key string) ref.Val {
	for i := range w.asked {
		switch a := &w.asked[i]; {
		case a.value == nil:
			if w.facts.Tags == nil {
				return types.WrapErr(errUnsaid)
			}
			a.key, a.value = key, types.String(w.facts.Tags[key])
			return a.value
		case a.key == key:
			return a.value
		}
	}
	return types.String(w.facts.Tags[key])
}

// ResolveName implements cel.Activation.
func (w *whenFacts) ResolveName(name string) (any, bool) { return w, name == "sandbox" }

// Parent implements cel.Activation.
func (w *whenFacts) Parent() cel.Activation { return nil }

// ConvertToNative implements ref.Val.
func (w *whenFacts) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a sandbox is no %s", t)
}

// ConvertToType implements ref.Val.
func (w *whenFacts) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("a sandbox is no %s", t)
}

// Equal implements ref.Val.
func (w *whenFacts) Equal(other ref.Val) ref.Val { return types.Bool(w == other) }

// Type implements ref.Val.
func (w *whenFacts) Type() ref.Type { return whenType }

// Value implements ref.Val.
func (w *whenFacts) Value() any { return w }

// whenTypes knows the type of sandbox and no other message.
type whenTypes struct{ *types.Registry }

// FindStructType implements types.Provider.
func (whenTypes) FindStructType(name string) (*types.Type, bool) {
	return types.NewTypeTypeWithParam(whenType), name == whenType.TypeName()
}

// FindStructFieldNames implements types.Provider.
func (whenTypes) FindStructFieldNames(name string) ([]string, bool) {
	return whenFieldNames(), name == whenType.TypeName()
}

// FindStructFieldType implements types.Provider. Every field counts as set, so
// that nothing can be asked of what is not known.
func (t whenTypes) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	i := slices.Index(whenFieldNames(), field)
	if name != whenType.TypeName() || i < 0 {
		return nil, false
	}
	found := &types.FieldType{Type: types.StringType, IsSet: func(any) bool { return true }}
	if found.GetFrom = func(of any) (any, error) { return of.(*whenFacts).field(i) }; i == len(whenFields) {
		found.Type = types.NewMapType(types.StringType, types.StringType)
		found.GetFrom = func(of any) (any, error) { return of.(*whenFacts).allTags(t.Registry) }
	}
	return found, true
}

func whenFieldNames() []string {
	var names []string
	for _, f := range whenFields {
		names = append(names, f.name)
	}
	return append(names, "tags")
}
