package policy

import (
	"time"

	"go.yaml.in/yaml/v3"

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

// limit is one limit or tag rule of a policy, ready to judge by.
type limit struct {
	reason Reason // the one it gives
	key    string // where it stands in the policy
	at     *yaml.Node
	after  time.Duration // how long it gives; for ttl at most
	tag    string        // that ttl reads
	rules  *tagRules
}

// compile gives the limits and tag rules that the policy has, in the order in
// which equal deadlines are decided.
func (r *rule) compile() []limit {
	var out []limit
	add := func(given bool, section, key string, l limit) {
		if given {
			l.key, l.at = section+"."+key, valueOf(valueOf(r.at, section), key)
			out = append(out, l)
		}
	}
	if l := r.Limits; l != nil {
		add(l.MaxUptime > 0, "limits", "max_uptime", limit{reason: MaxUptime, after: l.MaxUptime})
		add(l.MaxAge > 0, "limits", "max_age", limit{reason: MaxAge, after: l.MaxAge})
		if l.TTL != nil {
			add(true, "limits", "ttl", limit{reason: TTLTag, after: l.TTL.Max, tag: string(l.TTL.Tag)})
		}
	}
	if t := r.TagRules; t != nil {
		add(true, "tag_rules", "require", limit{reason: TagMissing, after: t.grace(), rules: t})
	}
	return out
}

// ruling is what a limit says of one sandbox.
type ruling struct {
	due    time.Time // zero: no deadline, and none says why
	reason Reason    // that the deadline gives
	since  time.Time // what it counts from, and what that is
	from   string
	none   string
}

// Why a limit gives no deadline.
const (
	notJudged  = "not judged in this state"
	noTime     = "no time to count from"
	tagAbsent  = "the tag is absent"
	tagUnclear = "the tag cannot be understood"
	tagsUnsaid = "the tags cannot be said"
	tagsInRule = "the tags are as they shall be"
)

// judge gives the deadline that the limit sets.
func (l *limit) judge(f *Facts, o *origin) ruling {
	if !appliesIn(l.reason, f.State) {
		return ruling{none: notJudged}
	}
	switch l.reason {
	case MaxUptime:
		return l.counting(o, f.Started, "started", l.after)
	case MaxAge:
		return l.counting(o, f.Created, "created", l.after)
	case TTLTag:
		return l.wish(f, o)
	default:
		if none := l.rules.kept(f.Tags); none != "" {
			return ruling{none: none}
		}
		return l.counting(o, f.Created, "created", l.after)
	}
}

// counting sets the deadline a while after the provider's time t, or after
// first seen if that cannot be believed.
func (l *limit) counting(o *origin, t time.Time, name string, after time.Duration) ruling {
	since, from := o.from(t, name)
	if from == "" {
		return ruling{none: noTime}
	}
	return ruling{due: since.Add(after), reason: l.reason, since: since, from: from}
}

// wish reads a ttl tag. One that cannot be understood is noted, and neither
// kills nor protects.
func (l *limit) wish(f *Facts, o *origin) ruling {
	text, present := f.Tags[l.tag]
	switch {
	case f.Tags == nil:
		return ruling{none: tagsUnsaid}
	case !present:
		return ruling{none: tagAbsent}
	}
	wish, err := duration.Parse(text)
	if err != nil {
		o.malformed(l.tag)
		return ruling{none: tagUnclear}
	}
	return l.counting(o, f.Created, "created", min(wish, l.after))
}

// kept says why the sandbox does not violate the rules, or "" if it does.
func (t *tagRules) kept(tags map[string]string) string {
	if tags == nil {
		return tagsUnsaid
	}
	for _, key := range t.Require {
		if _, present := tags[string(key)]; !present {
			return ""
		}
	}
	return tagsInRule
}

func (t *tagRules) grace() time.Duration {
	if t.Grace == nil {
		return defaultTagGrace
	}
	return *t.Grace
}
