package policy

import (
	"slices"
	"strings"

	"github.com/reaperd/reaperd/internal/strictyaml"
	"github.com/reaperd/reaperd/pkg/providers"
)

// checker looks over what each part by itself cannot know.
type checker struct {
	loader           *loader
	known            Known
	lines            []string // of the file
	faults, warnings *strictyaml.Decoder
}

func (c *checker) in(key string, f func()) {
	c.faults.In(key, func() { c.warnings.In(key, f) })
}

func (c *checker) rule(r *rule) {
	c.in(".match", func() { c.selector(&r.Match) })
	c.pauses(r)
	for i := range r.Unless {
		c.in(".unless"+index(i), func() { c.selector(&r.Unless[i].selector) })
	}
}

// pauses reports the action pause where some sandbox could not be paused.
func (c *checker) pauses(r *rule) {
	if r.options.Action != providers.ActionPause || c.known.Pauses == nil {
		return
	}
	can := strings.Join(c.known.Pauses, ", ")
	at := valueOf(valueOf(r.at, "action"), "type")
	switch {
	case len(c.known.Pauses) == 0:
		c.in(".action.type", func() { c.faults.Faultf(at, "no kind that is built in can pause") })
	case len(r.Match.Kinds) == 0:
		c.in(".action.type", func() { c.faults.Faultf(at, "not every kind can pause: give match kinds of %s", can) })
	}
	for i, w := range r.Match.Kinds {
		if len(c.known.Pauses) > 0 && w.text != "" && !slices.Contains(c.known.Pauses, w.text) {
			c.in(".match.kinds"+index(i), func() { c.faults.Faultf(w.at, "kind %s cannot pause, and these can: %s", w.text, can) })
		}
	}
}

func (c *checker) selector(s *selector) {
	c.words(".kinds", s.Kinds, c.known.Kinds, func(w word, hint string) {
		c.faults.Faultf(w.at, "kind %q is not built into this reaperd%s", w.text, hint)
	})
	c.words(".providers", s.Providers, c.known.Providers, func(w word, hint string) {
		c.warnings.Faultf(w.at, "no provider is called %q%s", w.text, hint)
	})
	if s.When != nil && strings.TrimSpace(s.When.text) != "" {
		c.in(".when", func() { c.when(s.When) })
	}
}

// when compiles an expression. The environment is made once, and only where
// some policy has use for it.
func (c *checker) when(w *when) {
	if c.loader.env == nil {
		env, err := newWhenEnv()
		if err != nil {
			c.faults.Faultf(w.at, "CEL cannot be used: %v", err)
			return
		}
		c.loader.env = env
	}
	w.compile(c.loader.env, func(line, column int, format string, args ...any) {
		c.faults.Faultf(place(w.at, c.lines, line, column), format, args...)
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
	selected := judgedStates
	if len(r.Match.States) > 0 {
		selected = 0
		for _, s := range r.Match.States {
			selected |= setOf(providers.State(s))
		}
	}
	for i := range r.limits {
		limit := &r.limits[i]
		judged := selected & limit.states
		if judged&^r.satisfied != 0 {
			continue
		}
		c.in("."+limit.key, func() {
			if judged == 0 {
				c.faults.Faultf(limit.at, "can never act: it is not judged on what is %s", selected)
				return
			}
			c.faults.Faultf(limit.at, "can never act: to %s what is %s changes nothing; write action: {type: remove}", r.options.Action, judged)
		})
	}
}

// fed warns of each limit that nothing can feed, so that it never acts.
func (c *checker) fed(r *rule) {
	var starved []*limit
	for i := range r.limits {
		if c.starves(r, &r.limits[i]) != "" {
			starved = append(starved, &r.limits[i])
		}
	}
	for _, l := range starved {
		message := c.starves(r, l) + ": this limit never acts"
		if len(starved) == len(r.limits) {
			message += ", and the policy has no other"
		}
		c.in("."+l.key, func() { c.warnings.Faultf(l.at, "%s", message) })
	}
}

// starves says what the limit lacks, or "".
func (c *checker) starves(r *rule, l *limit) string {
	switch {
	case l.reason == HeartbeatLost && c.known.Deaf:
		return "nothing feeds heartbeats"
	case l.reason == MaxIdle && c.known.TellsActivity != nil:
		tells := func(w word) bool { return slices.Contains(c.known.TellsActivity, w.text) }
		if len(r.Match.Kinds) == 0 && len(c.known.TellsActivity) == 0 {
			return "no configured kind can tell when a sandbox was last active"
		}
		if len(r.Match.Kinds) > 0 && !slices.ContainsFunc(r.Match.Kinds, tells) {
			return "no configured sandbox of kind " + orList(r.Match.Kinds) + " can tell when it was last active"
		}
	}
	return ""
}
