package policy

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/strictyaml"
	"github.com/reaperd/reaperd/pkg/providers"
)

// The defaults of what a policy does not say.
const (
	defaultGrace    = 10 * time.Second
	defaultTagGrace = 10 * time.Minute
)

// document is one policies file.
type document struct {
	Version  int          `yaml:"version" doc:"The version of this format."`
	Protect  []protection `yaml:"protect" doc:"What is kept, whatever the policies of any file say. One entry that may hold is enough."`
	Policies []rule       `yaml:"policies" doc:"Every one that matches applies, and the earliest deadline decides."`
}

// CheckYAML implements strictyaml.Checker.
func (doc *document) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	refuseEmpty(d, n)
	switch version := valueOf(n, "version"); {
	case version == nil:
		d.Faultf(n, "version is missing: begin the file with version: 1")
	case version.ShortTag() == "!!int" && doc.Version != 1:
		d.In(".version", func() { d.Faultf(version, "is %s, and this reaperd reads version 1", version.Value) })
	}
	if onlyKeys(n, "version") {
		d.Faultf(n, "the file says nothing: write policies or protect")
	}
}

// protection is an entry of protect.
type protection struct {
	selector
	bound
	at     *yaml.Node
	source string // file:line
}

// bound is how old a sandbox may become under a protection; zero: as old as it
// likes.
type bound struct {
	For time.Duration `yaml:"for" doc:"Up to which age the protection holds; for ever if left out."`
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (p *protection) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	p.at = n
	d.Decode(n, &p.selector, &p.bound)
	requireClause(d, n)
}

// spared is an entry of unless.
type spared struct {
	selector
	at *yaml.Node
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (s *spared) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	s.at = n
	d.Decode(n, &s.selector)
	requireClause(d, n)
}

// requireClause refuses an entry that is bound to hit everything without
// saying so.
func requireClause(d *strictyaml.Decoder, n *yaml.Node) {
	if n.Kind == yaml.MappingNode && onlyKeys(n, "for") {
		d.Faultf(n, "selects nothing: give it tags, names, images, when, kinds, providers or states, or everything: true")
	}
}

// rule is one policy as it is written.
type rule struct {
	Name     string    `yaml:"name,required" doc:"What it is called in output, metrics and history. No other policy of any file has it."`
	Match    selector  `yaml:"match,required" doc:"Which sandboxes it is about: all of these must hold."`
	Unless   []spared  `yaml:"unless" doc:"Which of them it leaves alone: within an entry all must hold, one entry that may hold is enough."`
	Limits   *limits   `yaml:"limits" doc:"How long a sandbox may live. The first that is overstepped decides."`
	TagRules *tagRules `yaml:"tag_rules" doc:"Which tags it must and must not have."`
	Action   action    `yaml:"action" doc:"What is done to one that violates the policy."`
	Mode     Mode      `yaml:"mode" doc:"enforce (the default), or report: shown and counted, never acted on."`

	at        *yaml.Node
	source    string                // file:line
	options   providers.StopOptions // Action with its defaults
	satisfied stateSet              // in which the action would change nothing
	limits    []limit               // Limits and TagRules
	lead      int                   // the slot of the tag that it leads with; -1: none
	leadWant  *values               // what it wants of that
}

// action is what a policy does, as it is written.
type action struct {
	Type    string         `yaml:"type" doc:"stop (the default), remove, or pause on kinds that can."`
	Grace   *time.Duration `yaml:"grace,zero" doc:"From the polite signal to the kill (10s if left out; 0s kills at once)."`
	Volumes bool           `yaml:"volumes" doc:"With remove: its anonymous volumes too, never named ones."`
	Logs    int            `yaml:"logs" doc:"How many last lines of its output, with its exit code and processes, are kept with the history (none if left out)."`
}

var policyName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// CheckYAML implements strictyaml.Checker.
func (r *rule) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	r.at = n
	refuseEmpty(d, n)
	if name := valueOf(n, "name"); name != nil && name.Kind == yaml.ScalarNode && !policyName.MatchString(r.Name) && name.ShortTag() != "!!null" {
		d.In(".name", func() {
			d.Faultf(name, "%q cannot name a policy: use up to 63 of a-z, 0-9, - and _, a letter or digit first", r.Name)
		})
	}
	if match := valueOf(n, "match"); match != nil && match.Kind == yaml.MappingNode && len(match.Content) > 0 {
		d.In(".match", func() { r.Match.requireSubject(d, match) })
	}
	if valueOf(n, "limits") == nil && valueOf(n, "tag_rules") == nil {
		d.Faultf(n, "has neither limits nor tag_rules, so that nothing could violate it")
	}
	oneOfTexts(d, n, "mode", string(r.Mode), string(Enforce), string(Report))
	if r.Mode == "" {
		r.Mode = Enforce
	}
	r.options = r.Action.options()
	r.satisfied = satisfying(r.options.Action)
	r.limits = r.compile()
}

// CheckYAML implements strictyaml.Checker.
func (s *selector) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	refuseEmpty(d, n)
	onlyTrue(d, n, "everything", s.Everything)
}

// requireSubject refuses what would select nearly everything without saying
// so: nothing at all, and that a tag is absent, which most sandboxes satisfy.
func (s *selector) requireSubject(d *strictyaml.Decoder, n *yaml.Node) {
	if onlyKeys(n, "kinds", "providers", "states") {
		d.Faultf(n, "selects by no tag, name or image: give it tags, names, images or when, or say everything: true")
	}
	absence := len(s.Tags) > 0 && !slices.ContainsFunc(s.Tags, func(c tagClause) bool { return !c.want.absent })
	if absence && onlyKeys(n, "kinds", "providers", "states", "tags") {
		d.Faultf(n, "selects by the absence of tags alone: give it a tag that is there, names, images or when, or say everything: true")
	}
}

// CheckYAML implements strictyaml.Checker.
func (a *action) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	oneOfTexts(d, n, "type", a.Type, string(providers.ActionStop), string(providers.ActionRemove), string(providers.ActionPause))
	if a.Volumes && a.Type != string(providers.ActionRemove) {
		d.In(".volumes", func() {
			d.Faultf(valueOf(n, "volumes"), "goes with type: remove only: what is stopped keeps its volumes")
		})
	}
	if logs := valueOf(n, "logs"); logs != nil && logs.ShortTag() == "!!int" && (a.Logs < 1 || a.Logs > mostLogs) {
		d.In(".logs", func() { d.Faultf(logs, "want 1 to %d lines, or no such key for none; found %d", mostLogs, a.Logs) })
	}
	if a.Grace != nil && a.Type == string(providers.ActionPause) {
		d.In(".grace", func() {
			d.Faultf(valueOf(n, "grace"), "is the time to end in, and to pause ends nothing: remove the key")
		})
	}
}

// mostLogs bounds what of a sandbox's output is kept with the history.
const mostLogs = 10_000

// options gives the action with its defaults.
func (a *action) options() providers.StopOptions {
	o := providers.StopOptions{Action: providers.ActionStop, Grace: defaultGrace, Volumes: a.Volumes}
	if a.Type != "" {
		o.Action = providers.Action(a.Type)
	}
	switch {
	case a.Grace != nil:
		o.Grace = *a.Grace
	case o.Action == providers.ActionPause:
		o.Grace = 0
	}
	return o
}

// word is a text that may not be empty, with its place.
type word struct {
	text string
	at   *yaml.Node
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (w *word) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	w.at = n
	w.text = text(d, n)
}

// text reads a text that may not be empty.
func text(d *strictyaml.Decoder, n *yaml.Node) string {
	s, ok := d.Text(n)
	if ok && strings.TrimSpace(s) == "" {
		d.Faultf(n, "is empty")
	}
	return s
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (k *tagKey) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) { *k = tagKey(text(d, n)) }

// tagKey is the key of a tag.
type tagKey string

// stateWord is a state that policies can select by.
type stateWord providers.State

// DecodeYAML implements strictyaml.Unmarshaler.
func (s *stateWord) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	t, ok := d.Text(n)
	if !ok {
		return
	}
	var known []string
	for _, k := range providers.States() {
		if judgedStates&setOf(k) != 0 {
			known = append(known, string(k))
		}
	}
	switch state := providers.State(t); {
	case judgedStates&setOf(state) != 0:
		*s = stateWord(t)
	case state.Valid():
		d.Faultf(n, "a sandbox in state %s is always kept, so nothing can select it", t)
	default:
		d.Faultf(n, "unknown state %q%s", t, strictyaml.DidYouMean(t, known))
	}
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (p *pattern) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	p.text = text(d, n)
	// By itself first, so that a stray parenthesis cannot end the group that
	// anchors the pattern.
	if _, err := regexp.Compile(p.text); err != nil {
		d.Faultf(n, "not a regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return
	}
	p.re = regexp.MustCompile("^(?:" + p.text + ")$")
}
