package policy

import (
	"slices"
	"time"

	"github.com/reaperd/reaperd/internal/duration"
	"github.com/reaperd/reaperd/pkg/providers"
)

// limits are a policy's limits; a zero duration or nil is a limit not given.
type limits struct {
	MaxUptime time.Duration `yaml:"max_uptime"`
	MaxAge    time.Duration `yaml:"max_age"`
	TTL       *ttl          `yaml:"ttl"`
}

// ttl is the sandbox's own wish for its life, read from a tag and never longer
// than Max.
type ttl struct {
	Tag tagKey        `yaml:"tag"`
	Max time.Duration `yaml:"max"`
}

// tagRules say which tags a sandbox must carry once Grace is over.
type tagRules struct {
	Require []tagKey       `yaml:"require"`
	Grace   *time.Duration `yaml:"grace,zero"`
}

// judged says whether a sandbox in this state is judged at all: one that
// changes is left alone until that is over, and of one in a state that is not
// known nothing is known.
func judged(s providers.State) bool {
	return s.Valid() && s != providers.StateChanging && s != providers.StateUnknown
}

// runs says whether a sandbox in this state has an uptime.
func runs(s providers.State) bool {
	return s == providers.StateStarting || s == providers.StateRunning || s == providers.StatePaused
}

// ages says whether age counts in this state. What is suspended was put aside
// on purpose, and to end it destroys what was saved.
func ages(s providers.State) bool { return judged(s) && s != providers.StateSuspended }

// appliesIn says whether a limit or tag rule, known by the reason it gives, is
// judged in this state.
func appliesIn(r Reason, s providers.State) bool {
	if r == MaxUptime {
		return runs(s)
	}
	return ages(s)
}

// deadline gives when the first of the rule's limits and tag rules falls due,
// and which one that is; zero: none does. The first of equal ones in the order
// below wins.
func (r *rule) deadline(f *Facts, o *origin, malformed *[]string) (due time.Time, reason Reason) {
	consider := func(from time.Time, after time.Duration, why Reason) {
		start, ok := o.from(from)
		if !ok {
			return
		}
		if at := start.Add(after); due.IsZero() || at.Before(due) {
			due, reason = at, why
		}
	}
	if l := r.Limits; l != nil {
		if l.MaxUptime > 0 && appliesIn(MaxUptime, f.State) {
			consider(f.Started, l.MaxUptime, MaxUptime)
		}
		if l.MaxAge > 0 && appliesIn(MaxAge, f.State) {
			consider(f.Created, l.MaxAge, MaxAge)
		}
		if l.TTL != nil && appliesIn(TTLTag, f.State) {
			if wish, ok := l.TTL.wish(f.Tags, malformed); ok {
				consider(f.Created, wish, TTLTag)
			}
		}
	}
	if t := r.TagRules; t != nil && appliesIn(TagMissing, f.State) && t.violated(f.Tags) {
		consider(f.Created, t.grace(), TagMissing)
	}
	return due, reason
}

// wish reads the tag. One that cannot be understood is noted, and neither
// kills nor protects.
func (t *ttl) wish(tags map[string]string, malformed *[]string) (time.Duration, bool) {
	key := string(t.Tag)
	text, present := tags[key]
	if !present {
		return 0, false
	}
	wish, err := duration.Parse(text)
	if err != nil {
		if !slices.Contains(*malformed, key) {
			*malformed = append(*malformed, key)
		}
		return 0, false
	}
	return min(wish, t.Max), true
}

func (t *tagRules) violated(tags map[string]string) bool {
	if tags == nil {
		return false
	}
	for _, key := range t.Require {
		if _, present := tags[string(key)]; !present {
			return true
		}
	}
	return false
}

func (t *tagRules) grace() time.Duration {
	if t.Grace == nil {
		return defaultTagGrace
	}
	return *t.Grace
}
