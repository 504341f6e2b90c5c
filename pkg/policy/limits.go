package policy

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/duration"
	"github.com/reaperd/reaperd/internal/strictyaml"
)

// limits are a policy's limits as they are written; a zero duration or nil is
// a limit not given.
type limits struct {
	MaxUptime  time.Duration `yaml:"max_uptime" doc:"How long it may run, from its last start. An engine's own restarts do not begin it anew."`
	MaxAge     time.Duration `yaml:"max_age" doc:"How long it may exist, from its creation."`
	MaxIdle    time.Duration `yaml:"max_idle" doc:"How long it may run without doing work, on kinds that can tell."`
	MaxStopped time.Duration `yaml:"max_stopped" doc:"How long it may lie around once it has ended."`
	MaxPaused  time.Duration `yaml:"max_paused" doc:"How long it may stay paused or suspended. On some kinds its saved state is destroyed with it."`
	TTL        *tagWish      `yaml:"ttl" doc:"The sandbox's own wish: a tag that holds a duration, from its creation, never longer than max."`
	Expires    *tagWish      `yaml:"expires" doc:"The sandbox's own wish: a tag that holds a time, in RFC 3339 or unix seconds, never later than max after its creation."`
	Heartbeat  *heartbeat    `yaml:"heartbeat" doc:"How long it may go without a heartbeat or a live lease."`
}

// CheckYAML implements strictyaml.Checker.
func (l *limits) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	refuseEmpty(d, n, "ttl", "expires", "heartbeat")
}

// tagWish names a tag in which a sandbox says how long it wants to live, and
// the longest that it is granted.
type tagWish struct {
	Tag tagKey        `yaml:"tag,required" doc:"The key of the tag."`
	Max time.Duration `yaml:"max,required" doc:"The longest that is granted."`
}

// heartbeat is the limit on silence.
type heartbeat struct {
	Timeout  time.Duration `yaml:"timeout,required" doc:"How long it may be silent."`
	Required bool          `yaml:"required" doc:"Also for one that never sent a heartbeat and names no lease."`
}

// limit is one limit or tag rule of a policy, ready to judge by.
type limit struct {
	reason Reason // the one it gives; of a heartbeat the commonest
	key    string // where it stands in the policy
	at     *yaml.Node
	states stateSet      // in which it is judged
	after  time.Duration // how long it gives; ttl and expires: at most
	tag    string        // the one that ttl and expires read
	// required: a heartbeat is due from one that never sent any.
	required bool
	rules    *tagRules
}

// compile gives the limits and tag rules that the policy has, in the order in
// which equal deadlines are decided.
func (r *rule) compile() []limit {
	var out []limit
	add := func(section, key string, l limit) {
		l.key, l.at = section+"."+key, valueOf(valueOf(r.at, section), key)
		if l.at != nil {
			out = append(out, l)
		}
	}
	if l := r.Limits; l != nil {
		add("limits", "max_uptime", limit{reason: MaxUptime, after: l.MaxUptime, states: upStates})
		add("limits", "max_age", limit{reason: MaxAge, after: l.MaxAge, states: agingStates})
		add("limits", "max_idle", limit{reason: MaxIdle, after: l.MaxIdle, states: runningState})
		add("limits", "max_stopped", limit{reason: MaxStopped, after: l.MaxStopped, states: endedStates})
		add("limits", "max_paused", limit{reason: MaxPaused, after: l.MaxPaused, states: pausedStates})
		if w := l.TTL; w != nil {
			add("limits", "ttl", limit{reason: TTLTag, after: w.Max, tag: string(w.Tag), states: agingStates})
		}
		if w := l.Expires; w != nil {
			add("limits", "expires", limit{reason: ExpiresTag, after: w.Max, tag: string(w.Tag), states: agingStates})
		}
		if h := l.Heartbeat; h != nil {
			// Beside running it is judged on what was released, in any state.
			add("limits", "heartbeat", limit{reason: HeartbeatLost, after: h.Timeout, required: h.Required, states: agingStates})
		}
	}
	if t := r.TagRules; t != nil {
		rule := limit{after: t.grace(), rules: t, states: agingStates}
		for _, r := range []struct {
			key    string
			reason Reason
		}{{"require", TagMissing}, {"allow", TagNotAllowed}, {"forbid", TagForbidden}} {
			rule.reason = r.reason
			add("tag_rules", r.key, rule)
		}
	}
	return out
}

// reasons gives those that the limit can give.
func (l *limit) reasons() []Reason {
	if l.reason == HeartbeatLost {
		return []Reason{HeartbeatLost, HeartbeatNever, LeaseExpired, LeaseReleased}
	}
	return []Reason{l.reason}
}

// String says in words what the limit asks of a sandbox.
func (l *limit) String() string {
	after := duration.Format(l.after)
	switch l.reason {
	case MaxUptime:
		return "at most " + after + " up"
	case MaxAge:
		return "at most " + after + " old"
	case MaxIdle:
		return "at most " + after + " idle"
	case MaxStopped:
		return "at most " + after + " stopped"
	case MaxPaused:
		return "at most " + after + " paused"
	case TTLTag:
		return "as long as its tag " + l.tag + " says, at most " + after
	case ExpiresTag:
		return "until its tag " + l.tag + " says, at most " + after
	case HeartbeatLost:
		if l.required {
			return "a heartbeat every " + after + ", required"
		}
		return "a heartbeat every " + after
	case TagMissing:
		return "tagged " + join(l.rules.Require, " and ") + " within " + after
	case TagNotAllowed:
		var allowed []string
		for _, c := range l.rules.Allow {
			allowed = append(allowed, c.key+" only "+c.want.String())
		}
		return "tagged " + strings.Join(allowed, ", ") + " within " + after
	default:
		return "not tagged " + orList(l.rules.Forbid) + " within " + after
	}
}
