package main

import (
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/duration"
	"github.com/reaperd/reaperd/internal/strictyaml"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/all"
	"github.com/reaperd/reaperd/pkg/scan"
	"github.com/reaperd/reaperd/pkg/store"
)

// entry is one provider as configured: what every kind takes, and the kind's
// own settings.
type entry struct {
	Name         string        `yaml:"name" doc:"what reaperd calls it, in policies, metrics and commands"`
	Kind         string        `yaml:"kind"`
	Schedule     string        `yaml:"schedule" doc:"when to scan it, in place of the global schedule"`
	Timeout      time.Duration `yaml:"timeout" doc:"in place of scan.timeout"`
	DryRun       bool          `yaml:"dry_run" doc:"true keeps this one dry when the rest is armed"`
	PricePerHour float64       `yaml:"price_per_hour" doc:"dollars for one running sandbox"`

	kind     providers.Kind
	settings any
	node     *yaml.Node
}

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

var socketMode = regexp.MustCompile(`^0?[67][0-7]{2}$`)

// readFile reads what the file sets, strictly: viper by itself would take null
// for false and forgive most else. What is at fault is left out. It also reads
// the providers, which viper never sees.
func (l *loaded) readFile() (values, strictyaml.Faults) {
	d := strictyaml.NewDecoder(l.Path)
	var written Config
	var listed struct {
		Providers entryList `yaml:"providers"`
	}
	d.Decode(l.root, &written, &listed)
	l.entries = listed.Providers.entries

	set := values{}
	for _, s := range settings(reflect.ValueOf(written), "") {
		path := strings.Split(s.key, "::")
		key := strings.Join(path, ".")
		wrong := func(f strictyaml.Fault) bool { return f.Key == key || strings.HasPrefix(f.Key, key+"[") }
		if child(l.root, path...) != nil && !slices.ContainsFunc(d.Faults(), wrong) {
			set[s.key] = s.value
		}
	}
	return set, d.Faults()
}

type entryList struct{ entries []entry }

// DecodeYAML reads each entry by the keys of its kind.
func (l *entryList) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	var nodes []rawNode
	d.Decode(n, &nodes)
	registry := all.Registry()
	names := map[string]*yaml.Node{}
	for i, raw := range nodes {
		d.In(fmt.Sprintf("[%d]", i), func() {
			e, ok := decodeEntry(d, raw.node, registry)
			if !ok {
				return
			}
			if first, twice := names[e.Name]; twice {
				d.Faultf(raw.node, "the name %q is taken by the provider on line %d", e.Name, first.Line)
			}
			names[e.Name] = raw.node
			l.entries = append(l.entries, e)
		})
	}
	if n.Kind == yaml.SequenceNode && len(nodes) == 0 {
		d.Faultf(n, "the list is empty: name a provider, or remove the key to have them detected")
	}
}

type rawNode struct{ node *yaml.Node }

// DecodeYAML keeps the node for later.
func (r *rawNode) DecodeYAML(_ *strictyaml.Decoder, n *yaml.Node) { r.node = n }

func decodeEntry(d *strictyaml.Decoder, n *yaml.Node, registry *providers.Registry) (entry, bool) {
	if n.Kind != yaml.MappingNode {
		d.Faultf(n, "want keys and values: {name: dev-docker, kind: docker}")
		return entry{}, false
	}
	at := child(n, "kind")
	if at == nil {
		d.Faultf(n, "has no kind: write one of %s", strings.Join(registry.Names(), ", "))
		return entry{}, false
	}
	var kind providers.Kind
	var err error
	d.In(".kind", func() {
		name, ok := d.Text(at)
		if kind, err = registry.Kind(name); ok && err != nil {
			d.Faultf(at, "%q is not built into this reaperd%s", name, strictyaml.DidYouMean(name, registry.Names()))
		}
	})
	if err != nil {
		return entry{}, false
	}
	e := entry{kind: kind, settings: kind.Settings(), node: n}
	d.Decode(n, &e, e.settings)
	switch {
	case child(n, "name") == nil:
		d.Faultf(n, "has no name")
	case !providerName.MatchString(e.Name):
		d.Faultf(child(n, "name"), "the name %q must be of a-z, 0-9, _ and -, begin with a letter or digit and have 63 at most", e.Name)
	case e.PricePerHour < 0:
		d.Faultf(child(n, "price_per_hour"), "a price cannot be negative")
	default:
		return e, true
	}
	return entry{}, false
}

// child finds the value of a key, by a path of keys; nil if there is none.
func child(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		var found *yaml.Node
		for pair := range slices.Chunk(n.Content, 2) {
			if pair[0].Value == key && found == nil {
				found = pair[1]
			}
		}
		n = found
	}
	return n
}

// validate finds what is well-formed and cannot be right. Each fault names
// where the value came from: the flag, the variable, or the place in the file.
func (l *loaded) validate(env environment, flags *pflag.FlagSet) strictyaml.Faults {
	var faults strictyaml.Faults
	fault := func(path string, format string, args ...any) {
		f := strictyaml.Fault{File: "default", Key: path, Message: fmt.Sprintf(format, args...)}
		keys := strings.Split(path, ".")
		variable := envPrefix + strings.ToUpper(strings.Join(keys, "_"))
		if at := child(l.root, keys...); at != nil {
			f.File, f.Line, f.Column = l.Path, at.Line, at.Column
		}
		if env.has(variable) {
			f = strictyaml.Fault{File: "environment", Key: variable, Message: f.Message}
		}
		for name, key := range flagKeys {
			if key == strings.Join(keys, "::") && flags.Changed(name) {
				f = strictyaml.Fault{File: "command line", Key: "--" + name, Message: f.Message}
			}
		}
		faults = append(faults, f)
	}
	oneOf := func(path, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			fault(path, "want one of %s, found %q", strings.Join(allowed, ", "), value)
		}
	}
	oneOf("log.level", l.Log.Level, "debug", "info", "warn", "error")
	oneOf("log.format", l.Log.Format, "auto", "console", "json")
	zone, err := time.LoadLocation(l.Timezone)
	if err != nil || l.Timezone == "" {
		fault("timezone", "%q is not a zone: write UTC, Local or a name such as Europe/Berlin", l.Timezone)
		zone = time.UTC
	}
	if _, err := scan.ParseSchedule(l.Schedule, zone); err != nil {
		fault("schedule", "%v", err)
	}
	if _, port, err := net.SplitHostPort(l.HTTP.Listen); err != nil {
		fault("http.listen", "want host:port, found %q", l.HTTP.Listen)
	} else if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		fault("http.listen", "%q is not a port", port)
	}
	if file := l.HTTP.TokenFile; file != "" && !filepath.IsAbs(file) {
		fault("http.token_file", "want an absolute path, or '' for none; found %q", file)
	}
	if path := l.Socket.Path; path != "" && path != socketAuto && !filepath.IsAbs(path) {
		fault("socket.path", "want auto, an absolute path, or '' for none; found %q", path)
	}
	if !socketMode.MatchString(l.Socket.Mode) {
		fault("socket.mode", "want an octal mode by which its owner may read and write, such as '0660'; found %q", l.Socket.Mode)
	}
	if d := l.Clock.MaxSkew; d < time.Second {
		fault("clock.max_skew", "want 1s at least, since no two clocks agree; found %s", duration.Format(d))
	}
	if d := l.Leases.MaxTTL; d < time.Second {
		fault("leases.max_ttl", "want 1s at least, or no lease can be renewed in time; found %s", duration.Format(d))
	}
	if dsn := l.State.DSN; dsn != "" && dsn != stateAuto {
		if err := store.CheckDSN(dsn); err != nil {
			fault("state.dsn", "%v", err)
		}
	}
	if l.Brake.MinCount < 1 {
		fault("brake.min_count", "want 1 at least, so that a single one is never held; found %d", l.Brake.MinCount)
	}
	if f := l.Brake.MaxFraction; !(f >= 0 && f <= 1) {
		fault("brake.max_fraction", "want a part of one, such as 0.5; found %v", f)
	}
	if l.Reclaim.Attempts < 1 {
		fault("reclaim.attempts", "want 1 at least, found %d", l.Reclaim.Attempts)
	}
	for i, e := range l.entries {
		if e.Schedule == "" && child(e.node, "schedule") == nil {
			continue
		}
		if _, err := scan.ParseSchedule(e.Schedule, zone); err != nil {
			at := child(e.node, "schedule")
			faults = append(faults, strictyaml.Fault{
				File: l.Path, Line: at.Line, Column: at.Column,
				Key: fmt.Sprintf("providers[%d].schedule", i), Message: err.Error(),
			})
		}
	}
	return faults
}

// zone is the schedules' zone; the configuration has been validated.
func (l *loaded) zone() *time.Location {
	zone, err := time.LoadLocation(l.Timezone)
	if err != nil {
		return time.UTC
	}
	return zone
}

// findPolicies finds the files that the policies key names, relative ones from
// the configuration file's folder. An entry that matches nothing is a fault.
func (l *loaded) findPolicies() strictyaml.Faults {
	var faults strictyaml.Faults
	inFile := child(l.root, "policies")
	if l.policiesFromEnvironment {
		inFile = nil
	}
	for i, pattern := range l.Policies {
		full := pattern
		if inFile != nil && pattern != "" && !filepath.IsAbs(full) {
			full = filepath.Join(filepath.Dir(l.Path), full)
		}
		more, err := expand(l.files, full)
		if err == nil {
			l.files = more
			continue
		}
		f := strictyaml.Fault{File: "environment", Key: envPrefix + "POLICIES", Message: err.Error()}
		if inFile != nil {
			at := inFile.Content[i]
			f.File, f.Line, f.Column, f.Key = l.Path, at.Line, at.Column, fmt.Sprintf("policies[%d]", i)
		}
		faults = append(faults, f)
	}
	return faults
}

// expand adds the files that a path or glob names, each once. One that names
// none is an error.
func expand(files []string, pattern string) ([]string, error) {
	matches, err := filepath.Glob(pattern)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is not a glob: %w", pattern, err)
	case len(matches) == 0:
		return nil, fmt.Errorf("%q matches no file", pattern)
	}
	for _, m := range matches {
		if !slices.Contains(files, m) {
			files = append(files, m)
		}
	}
	return files, nil
}
