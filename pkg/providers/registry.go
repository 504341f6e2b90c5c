package providers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind is one sort of provider, as a kind's package describes it to the
// registry.
type Kind struct {
	// Name is what `kind:` says in the configuration.
	Name string
	// Parallel is how many sandboxes may be reclaimed at once on one provider
	// of this kind.
	Parallel int
	// Pauses says that ActionPause is among what the kind can do.
	Pauses bool
	// TellsActivity says that the kind's sandboxes carry LastActive, or that its
	// providers are an ActivitySampler.
	TellsActivity bool
	// Settings gives a pointer to a new struct with the kind's own keys at
	// their defaults. The fields carry `yaml` tags and the strict decoder
	// refuses every key that is not among them.
	Settings func() any
	// New makes a provider from what Settings gave, decoded. It does not touch
	// the outside world: a place that cannot be reached is an error of the
	// calls, so that the daemon can start before its engines.
	New func(name string, settings any) (Provider, error)
	// Detect says whether a provider of this kind seems to be here, for a
	// configuration that names none. getenv reads the environment.
	Detect func(getenv func(string) string) bool
}

// Define makes a Kind from typed functions, so that a kind's package sees its
// own settings type only.
func Define[S any](name string, parallel int, defaults S,
	open func(name string, s S) (Provider, error),
	detect func(getenv func(string) string) bool,
) Kind {
	return Kind{
		Name:     name,
		Parallel: parallel,
		Settings: func() any { s := defaults; return &s },
		New:      func(name string, s any) (Provider, error) { return open(name, *s.(*S)) },
		Detect:   detect,
	}
}

// Registry knows the kinds that this binary was built with.
type Registry struct{ kinds map[string]Kind }

// NewRegistry gives a registry of the kinds given. Two of one name are a
// programming error and panic.
func NewRegistry(kinds ...Kind) *Registry {
	r := &Registry{kinds: make(map[string]Kind, len(kinds))}
	for _, k := range kinds {
		if _, dup := r.kinds[k.Name]; dup {
			panic("providers: kind " + k.Name + " registered twice")
		}
		r.kinds[k.Name] = k
	}
	return r
}

// Names gives the kinds' names in order.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.kinds)) }

// Kind finds a kind by name. For one that is not built in it gives an error
// that says so and wraps ErrUnsupported.
func (r *Registry) Kind(name string) (Kind, error) {
	if k, ok := r.kinds[name]; ok {
		return k, nil
	}
	return Kind{}, fmt.Errorf("kind %q is not built into this reaperd (it has %s): %w",
		name, strings.Join(r.Names(), ", "), ErrUnsupported)
}

// Detected gives the names of the kinds that seem to be here, in order.
func (r *Registry) Detected(getenv func(string) string) []string {
	var found []string
	for _, n := range r.Names() {
		if d := r.kinds[n].Detect; d != nil && d(getenv) {
			found = append(found, n)
		}
	}
	return found
}
