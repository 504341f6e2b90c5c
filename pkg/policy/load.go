package policy

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/reaperd/reaperd/internal/strictyaml"
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
	// Pauses are the built-in kinds that can pause a sandbox.
	Pauses []string
	// TellsActivity are the configured kinds that can tell when a sandbox was
	// last active.
	TellsActivity []string
	// Deaf says that nothing feeds heartbeats and leases.
	Deaf bool
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
	for i := range l.set.policies {
		l.set.leads.take(&l.set.policies[i])
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
	env      *cel.Env // in which expressions are compiled; nil until there is one
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
	c := checker{
		loader: l, known: l.known, lines: strings.Split(strings.TrimPrefix(string(f.Data), "\ufeff"), "\n"),
		faults: strictyaml.NewDecoder(f.Name), warnings: strictyaml.NewDecoder(f.Name),
	}
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
				c.fed(r)
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
