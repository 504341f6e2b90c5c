package policy

import (
	"fmt"
	"slices"

	"github.com/reaperd/reaperd/internal/strictyaml"
	"github.com/reaperd/reaperd/pkg/providers"
)

// File is one policies file, already read.
type File struct {
	Name string // as it shall stand in messages
	Data []byte
}

// Known is what the names in policies are checked against. Nil lists are not
// known and nothing is checked against them.
type Known struct {
	Kinds     []string // those that are built in
	Providers []string // the names of those that are configured
}

// Load compiles the policies of all files, which form one set. The warnings
// are lines for people, with file, line and column. The error is of type
// strictyaml.Faults and tells everything that is wrong with any file.
func Load(files []File, known Known) (*Set, []string, error) {
	l := loader{known: known, names: map[string]string{}}
	for _, f := range files {
		l.load(f)
	}
	if err := l.faults.Err(); err != nil {
		return nil, nil, err
	}
	var warnings []string
	for _, w := range l.warnings {
		warnings = append(warnings, w.Error())
	}
	return &l.set, warnings, nil
}

type loader struct {
	known    Known
	names    map[string]string // where each name of a policy was first used
	set      Set
	faults   strictyaml.Faults
	warnings strictyaml.Faults
}

func (l *loader) load(f File) {
	root, faults := strictyaml.Parse(f.Name, f.Data)
	if root == nil {
		l.faults = append(l.faults, faults...)
		return
	}
	var doc document
	c := checker{known: l.known, faults: strictyaml.NewDecoder(f.Name), warnings: strictyaml.NewDecoder(f.Name)}
	c.faults.Decode(root, &doc)
	sound := len(c.faults.Faults()) == 0
	for i := range doc.Protect {
		p := &doc.Protect[i]
		p.source = fmt.Sprintf("%s:%d", f.Name, p.at.Line)
		c.in(".protect"+index(i), func() { c.selector(&p.selector) })
	}
	for i := range doc.Policies {
		r := &doc.Policies[i]
		if r.at == nil {
			continue // not a mapping: reported
		}
		r.source = fmt.Sprintf("%s:%d", f.Name, r.at.Line)
		c.in(".policies"+index(i), func() {
			l.claim(&c, r)
			c.rule(r)
			if sound {
				c.reach(r)
			}
		})
	}
	l.faults = append(l.faults, c.faults.Faults()...)
	l.warnings = append(l.warnings, c.warnings.Faults()...)
	l.set.protections = append(l.set.protections, doc.Protect...)
	l.set.policies = append(l.set.policies, doc.Policies...)
}

// claim reports a name that another policy of any file has already.
func (l *loader) claim(c *checker, r *rule) {
	if r.Name == "" {
		return
	}
	if first, taken := l.names[r.Name]; taken {
		c.in(".name", func() { c.faults.Faultf(valueOf(r.at, "name"), "%q already names the policy at %s", r.Name, first) })
		return
	}
	l.names[r.Name] = r.source
}

// checker looks over what each part by itself cannot know.
type checker struct {
	known            Known
	faults, warnings *strictyaml.Decoder
}

func (c *checker) in(key string, f func()) {
	c.faults.In(key, func() { c.warnings.In(key, f) })
}

func (c *checker) rule(r *rule) {
	c.in(".match", func() { c.selector(&r.Match) })
	for i := range r.Unless {
		c.in(".unless"+index(i), func() { c.selector(&r.Unless[i].selector) })
	}
}

func (c *checker) selector(s *selector) {
	c.words(".kinds", s.Kinds, c.known.Kinds, func(w word, hint string) {
		c.faults.Faultf(w.at, "kind %q is not built into this reaperd%s", w.text, hint)
	})
	c.words(".providers", s.Providers, c.known.Providers, func(w word, hint string) {
		c.warnings.Faultf(w.at, "no provider is called %q%s", w.text, hint)
	})
}

func (c *checker) words(key string, words []word, known []string, report func(w word, hint string)) {
	if known == nil {
		return
	}
	for i, w := range words {
		if w.text != "" && !slices.Contains(known, w.text) {
			c.in(key+index(i), func() { report(w, strictyaml.DidYouMean(w.text, known)) })
		}
	}
}

// reach reports each limit and tag rule that can never act: none of the states
// that the policy selects is both judged by it and changed by the action.
func (c *checker) reach(r *rule) {
	action := r.options.Action
	for i := range r.limits {
		limit := &r.limits[i]
		acts := slices.ContainsFunc(providers.States(), func(s providers.State) bool {
			selected := len(r.Match.States) == 0 || slices.Contains(r.Match.States, stateWord(s))
			return selected && appliesIn(limit.reason, s) && !s.Satisfies(action)
		})
		if !acts {
			c.in("."+limit.key, func() {
				c.faults.Faultf(limit.at, "can never act on %s ones: there it is not judged, or %s changes nothing", orList(r.Match.States), action)
			})
		}
	}
}
