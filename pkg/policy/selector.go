package policy

import (
	"regexp"
	"slices"
)

// selector is one entry of match, unless or protect: all its clauses must
// hold. An absent clause holds.
type selector struct {
	Everything bool        `yaml:"everything" doc:"Says out loud that nothing narrows it, beside kinds, providers and states."`
	Kinds      []word      `yaml:"kinds" doc:"It is of one of these kinds."`
	Providers  []word      `yaml:"providers" doc:"It lives on a provider that the configuration gives one of these names."`
	Tags       tagClauses  `yaml:"tags" doc:"Its tags are as this says, by key: a value, a list of values, \"*\" for any, {pattern: RE} or {absent: true}."`
	Names      []pattern   `yaml:"names" doc:"One of these regular expressions matches its whole name."`
	Images     []imageGlob `yaml:"images" doc:"Its image is one of these, by familiar name; a star stands for anything but a slash."`
	States     []stateWord `yaml:"states" doc:"It is in one of these states."`
	When       *when       `yaml:"when" doc:"An expression in CEL over sandbox and tag(name) that is true of it."`
}

// pattern is a regular expression that matches whole texts only.
type pattern struct {
	text string
	re   *regexp.Regexp
}

// answer is what a clause says of a sandbox.
type answer uint8

const (
	no answer = iota
	cannotSay
	yes
)

func answerOf(b bool) answer {
	if b {
		return yes
	}
	return no
}

// ask gives the weakest answer of all clauses. Tags come first: they are what
// most policies differ by.
func (s *selector) ask(f *Facts, looked *lookups) answer {
	least := yes
	switch {
	case len(s.Tags) == 0:
	case f.Tags == nil:
		least = cannotSay
	default:
		for i := range s.Tags {
			if c := &s.Tags[i]; !c.holds(f.Tags) {
				return no
			}
		}
	}
	if len(s.Kinds) > 0 {
		least = min(least, oneOf(s.Kinds, f.Kind))
	}
	if len(s.Providers) > 0 {
		least = min(least, oneOf(s.Providers, f.Provider))
	}
	if len(s.States) > 0 { // a state that cannot be said is never judged
		least = min(least, answerOf(slices.Contains(s.States, stateWord(f.State))))
	}
	if len(s.Names) > 0 && least != no {
		least = min(least, s.askName(f.Name))
	}
	if len(s.Images) > 0 && least != no {
		least = min(least, s.askImage(f.Image))
	}
	if s.When != nil && least != no {
		least = min(least, s.When.ask(f, looked))
	}
	return least
}

func (c *tagClause) holds(tags map[string]string) bool {
	value, present := tags[c.key]
	return c.want.admit(value, present)
}

func oneOf(words []word, text string) answer {
	if text == "" {
		return cannotSay
	}
	for i := range words {
		if words[i].text == text {
			return yes
		}
	}
	return no
}

func (s *selector) askName(name string) answer {
	if name == "" {
		return cannotSay
	}
	for i := range s.Names {
		if s.Names[i].re.MatchString(name) {
			return yes
		}
	}
	return no
}
