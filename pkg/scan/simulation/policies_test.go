package simulation_test

import (
	"fmt"
	"strings"
	"time"
)

// rulebook is the policies of a story, as far as stories need them. The daemon
// gets it as YAML, the oracle reads it as it is.
type rulebook struct {
	// protects: the tag reaperd.protect=true protects, for as long as protectFor
	// says if that is not zero.
	protects   bool
	protectFor time.Duration
	rules      []rule
	// mistyped says that its limits are far shorter than they were meant.
	mistyped bool
}

// rule is one policy. Zero fields are left out of it.
type rule struct {
	name   string
	team   string // the tag team that it matches; "*" any
	place  string // the only provider for which it holds
	state  string // the only state in which it holds
	spares string // the tag env that it spares

	maxUptime, maxAge, maxStopped, maxPaused time.Duration
	ttl, expires                             time.Duration // the most that the tags are granted
	silence                                  time.Duration // a heartbeat's timeout
	required                                 bool          // a heartbeat, also of those that never sent one
	require, forbid                          string
	tagGrace                                 time.Duration

	action string
	grace  time.Duration
	report bool
}

// The tags that stories play with.
const (
	tagTeam    = "team"
	tagEnv     = "env"
	tagOwner   = "owner"
	tagCursed  = "cursed"
	tagTTL     = "reaperd.ttl"
	tagExpires = "reaperd.expires-at"
	tagProtect = "reaperd.protect"
	tagLease   = "reaperd.lease"
	tagRun     = "run" // in Extra, for the oracle alone: when its owner last started it
)

var teams = []string{"red", "green", "blue"}

// newRulebook makes up policies whose limits are of the order of unit.
func newRulebook(d dice, unit time.Duration, places []string) *rulebook {
	b := &rulebook{protects: d.chance(0.8)}
	if b.protects && d.chance(0.3) {
		b.protectFor = whole(d.between(unit, 10*unit))
	}
	limit := func() time.Duration { return whole(d.between(unit/2, 4*unit)) }
	for _, team := range teams {
		r := rule{name: team, team: team, action: pick(d, "remove", "remove", "stop"), grace: 10 * time.Second}
		switch d.IntN(5) {
		case 0:
			r.maxUptime = limit()
		case 1:
			r.maxUptime, r.maxAge = limit(), 4*limit()
		case 2:
			r.maxAge = limit()
		case 3:
			r.maxUptime, r.ttl = 2*limit(), 3*limit()
		case 4:
			r.maxUptime, r.expires = 2*limit(), 3*limit()
		}
		if d.chance(0.4) {
			r.spares = "prod"
		}
		b.rules = append(b.rules, r)
	}
	b.rules = append(b.rules, rule{name: "stopped", team: "*", maxStopped: limit(), action: "remove"})
	if d.chance(0.6) {
		b.rules = append(b.rules, rule{name: "paused", team: "*", maxPaused: limit(), action: "remove"})
	}
	if d.chance(0.4) {
		b.rules = append(b.rules, rule{name: "ladder", team: pick(d, teams...), state: "running", maxUptime: limit(), action: "pause"})
	}
	if d.chance(0.5) {
		r := rule{name: "tagging", team: "*", tagGrace: whole(d.between(unit/4, unit)), action: "stop"}
		if d.chance(0.5) {
			r.require = tagOwner
		} else {
			r.forbid = tagCursed
		}
		b.rules = append(b.rules, r)
	}
	if d.chance(0.7) {
		r := rule{name: "silent", team: pick(d, "*", pick(d, teams...)), silence: whole(d.between(unit/4, unit)), action: pick(d, "stop", "remove")}
		r.required = r.team != "*" && d.chance(0.4)
		b.rules = append(b.rules, r)
	}
	if d.chance(0.4) {
		b.rules = append(b.rules, rule{name: "one-place", team: "*", place: pick(d, places...), maxAge: 2 * limit(), action: "remove"})
	}
	if d.chance(0.4) {
		b.rules = append(b.rules, rule{name: "shadow", team: "*", maxAge: unit / 4, action: "remove", report: true})
	}
	return b
}

// mistype gives the same with every limit far too short, as by a letter.
func (b *rulebook) mistype() *rulebook {
	bad := &rulebook{protects: b.protects, protectFor: b.protectFor, mistyped: true}
	for _, r := range b.rules {
		for _, limit := range []*time.Duration{&r.maxUptime, &r.maxAge, &r.ttl, &r.expires} {
			if *limit > 0 {
				*limit = whole(*limit/60 + time.Second)
			}
		}
		bad.rules = append(bad.rules, r)
	}
	return bad
}

// whole cuts to whole seconds, as policies are written in.
func whole(d time.Duration) time.Duration { return d.Truncate(time.Second) }

// yaml writes it as the daemon reads it.
func (b *rulebook) yaml() string {
	var w strings.Builder
	fmt.Fprintln(&w, "version: 1")
	switch {
	case b.protectFor > 0:
		fmt.Fprintf(&w, "protect: [{tags: {%s: \"true\"}, for: %s}]\n", tagProtect, written(b.protectFor))
	case b.protects:
		fmt.Fprintf(&w, "protect: [{tags: {%s: \"true\"}}]\n", tagProtect)
	}
	fmt.Fprintln(&w, "policies:")
	for i := range b.rules {
		b.rules[i].yaml(&w)
	}
	return w.String()
}

func (r *rule) yaml(w *strings.Builder) {
	match := fmt.Sprintf("tags: {%s: %q}", tagTeam, r.team)
	if r.place != "" {
		match += ", providers: [" + r.place + "]"
	}
	if r.state != "" {
		match += ", states: [" + r.state + "]"
	}
	fmt.Fprintf(w, "  - name: %s\n    match: {%s}\n", r.name, match)
	if r.spares != "" {
		fmt.Fprintf(w, "    unless: [{tags: {%s: %s}}]\n", tagEnv, r.spares)
	}
	var limits []string
	limit := func(format string, d time.Duration) {
		if d > 0 {
			limits = append(limits, fmt.Sprintf(format, written(d)))
		}
	}
	limit("max_uptime: %s", r.maxUptime)
	limit("max_age: %s", r.maxAge)
	limit("max_stopped: %s", r.maxStopped)
	limit("max_paused: %s", r.maxPaused)
	limit("ttl: {tag: "+tagTTL+", max: %s}", r.ttl)
	limit("expires: {tag: "+tagExpires+", max: %s}", r.expires)
	if r.silence > 0 {
		limits = append(limits, fmt.Sprintf("heartbeat: {timeout: %s, required: %t}", written(r.silence), r.required))
	}
	if limits != nil {
		fmt.Fprintf(w, "    limits: {%s}\n", strings.Join(limits, ", "))
	}
	if r.require != "" {
		fmt.Fprintf(w, "    tag_rules: {require: [%s], grace: %s}\n", r.require, written(r.tagGrace))
	}
	if r.forbid != "" {
		fmt.Fprintf(w, "    tag_rules: {forbid: [%s], grace: %s}\n", r.forbid, written(r.tagGrace))
	}
	action := "type: " + r.action
	if r.action != "pause" {
		action += ", grace: " + written(r.grace)
	}
	fmt.Fprintf(w, "    action: {%s}\n", action)
	if r.report {
		fmt.Fprintln(w, "    mode: report")
	}
}

// written is a duration in whole seconds as policies take it.
func written(d time.Duration) string { return fmt.Sprintf("%ds", d/time.Second) }
