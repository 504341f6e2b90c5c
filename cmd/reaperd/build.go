package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/all"
	"github.com/reaperd/reaperd/pkg/scan"
	"github.com/reaperd/reaperd/pkg/store"
)

// built is the whole of reaperd put together from one configuration: what
// every verb works on. This file is the only place where it is put together.
type built struct {
	config   *loaded
	policies *policy.Set
	warnings []string
	targets  []scan.Target
	detected []string // the kinds that were, where no providers are configured
	registry *prometheus.Registry
	dryRun   prometheus.Gauge
	reloads  *reloadMetrics
	loop     *scan.Loop
}

// buildOptions are the choices that differ from verb to verb.
type buildOptions struct {
	// only narrows to the providers of that name or kind; "" takes all.
	only string
	// obeyDryRun wraps the targets for which the configuration asks it.
	obeyDryRun bool
	// policies are files and globs that stand in for the configured ones.
	policies []string
	// deaf says that no heartbeats will be heard, whatever is configured.
	deaf bool
	// state is what outlives the daemon; nil keeps everything in memory. A lost
	// one keeps every target dry until it is accepted.
	state    *store.Store
	log      *zap.Logger
	onReport func(scan.Report)
}

// build loads the configuration and the policies and puts the loop together.
// It reaches no provider.
func build(env environment, flags *pflag.FlagSet, o buildOptions) (*built, error) {
	config, err := loadConfig(env, flags)
	if err != nil {
		return nil, err
	}
	return assemble(env, config, o)
}

// assemble puts reaperd together from a configuration that is loaded.
func assemble(env environment, config *loaded, o buildOptions) (*built, error) {
	b := &built{registry: prometheus.NewRegistry()}
	settings, err := b.draw(env, config, o)
	if err != nil {
		return nil, err
	}
	b.dryRun, b.reloads = newDryRunGauge(), newReloadMetrics()
	b.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(), b.dryRun, b.reloads, stateLost(o.state),
	)
	b.showDryRun()
	clock := scan.SystemClock{}
	options := scan.Options{
		Settings: settings, Clock: clock, Log: o.log,
		Metrics:  scan.NewMetrics(b.registry, clock, b.targets, b.policies),
		OnReport: o.onReport,
	}
	if o.state != nil { // a nil *Store in the interface would not be none
		options.Memory = o.state
	}
	b.loop = scan.New(options)
	return b, nil
}

// draw makes of a configuration what the loop works by, and reaches nothing.
func (b *built) draw(env environment, config *loaded, o buildOptions) (scan.Settings, error) {
	b.config, b.targets = config, nil
	b.detect(env)
	entries, err := chosen(config, b.detected, o.only)
	if err != nil {
		return scan.Settings{}, err
	}
	if err := b.loadPolicies(entries, o.policies, o.deaf || !config.hears(env)); err != nil {
		return scan.Settings{}, err
	}
	for _, e := range entries {
		t, err := target(config, e, o)
		if err != nil {
			return scan.Settings{}, err
		}
		b.targets = append(b.targets, t)
		for _, w := range t.Schedule.Warnings() {
			if !slices.Contains(b.warnings, w) {
				b.warnings = append(b.warnings, w)
			}
		}
	}
	return scan.Settings{
		Targets: b.targets, Policies: b.policies,
		Attempts: config.Reclaim.Attempts, Brake: scan.BrakeOptions(config.Brake),
		History: config.State.History, MaxSkew: config.Clock.MaxSkew, MaxTTL: config.Leases.MaxTTL,
	}, nil
}

// detect looks for kinds. One that was there at the last load stays: it may just
// be down for a moment, and is then one that could not be looked at.
func (b *built) detect(env environment) {
	if b.config.entries != nil {
		b.detected = nil
		return
	}
	found := append(all.Registry().Detected(env.getenv), b.detected...)
	slices.Sort(found)
	b.detected = slices.Compact(found)
}

// chosen gives the configured providers, or those of the detected kinds where
// none are configured, narrowed to those whose name or kind is only.
func chosen(config *loaded, kinds []string, only string) ([]entry, error) {
	registry := all.Registry()
	entries := config.entries
	if entries == nil {
		for _, name := range kinds {
			e, err := detected(registry, name)
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
	}
	if only == "" {
		return entries, nil
	}
	picked := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return e.Name != only && e.Kind != only })
	if len(picked) > 0 {
		return picked, nil
	}
	if config.entries == nil {
		// Asked for by name and not detected: it is an error that people see.
		if e, err := detected(registry, only); err == nil {
			return []entry{e}, nil
		}
	}
	return nil, unknownProvider{only, registry, entries}
}

func detected(registry *providers.Registry, name string) (entry, error) {
	kind, err := registry.Kind(name)
	if err != nil {
		return entry{}, err
	}
	return entry{Name: name, Kind: name, kind: kind, settings: kind.Settings()}, nil
}

// unknownProvider is the error for a -p that names nothing.
type unknownProvider struct {
	name     string
	registry *providers.Registry
	entries  []entry
}

func (u unknownProvider) Error() string {
	names := make([]string, len(u.entries))
	for i, e := range u.entries {
		names[i] = e.Name
	}
	if _, err := u.registry.Kind(u.name); err != nil {
		return fmt.Sprintf("kind %q is not built into this reaperd (it has %s), and no provider has that name (there is %s)",
			u.name, strings.Join(u.registry.Names(), ", "), strings.Join(names, ", "))
	}
	return fmt.Sprintf("no provider of kind %q is configured (there is %s)", u.name, strings.Join(names, ", "))
}

// loadPolicies loads the configured files, or those that patterns name.
func (b *built) loadPolicies(entries []entry, patterns []string, deaf bool) error {
	b.policies, b.warnings = nil, nil
	files := b.config.files
	if patterns != nil {
		files = nil
	}
	for _, pattern := range patterns {
		var err error
		if files, err = expand(files, pattern); err != nil {
			return err
		}
	}
	if len(files) == 0 {
		return nil
	}
	var err error
	b.policies, b.warnings, err = loadPolicyFiles(files, known(entries, deaf))
	return err
}

// known is what the policies' words are held against. Without entries it is
// not known what is configured.
func known(entries []entry, deaf bool) policy.Known {
	registry := all.Registry()
	k := policy.Known{Kinds: registry.Names(), Pauses: []string{}, Deaf: deaf}
	for _, name := range k.Kinds {
		if kind, err := registry.Kind(name); err == nil && kind.Pauses {
			k.Pauses = append(k.Pauses, name)
		}
	}
	if entries == nil {
		return k
	}
	k.Providers, k.TellsActivity = []string{}, []string{}
	for _, e := range entries {
		k.Providers = append(k.Providers, e.Name)
		if e.kind.TellsActivity && !slices.Contains(k.TellsActivity, e.Kind) {
			k.TellsActivity = append(k.TellsActivity, e.Kind)
		}
	}
	return k
}

func loadPolicyFiles(files []string, known policy.Known) (*policy.Set, []string, error) {
	var read []policy.File
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, nil, fmt.Errorf("policies: %w", err)
		}
		read = append(read, policy.File{Name: f, Data: data})
	}
	return policy.Load(read, known)
}

func target(config *loaded, e entry, o buildOptions) (scan.Target, error) {
	p, err := e.kind.New(e.Name, e.settings)
	if err != nil {
		return scan.Target{}, fmt.Errorf("provider %s: %w", e.Name, err)
	}
	t := scan.Target{
		Name: e.Name, Kind: e.Kind, Provider: p, Settings: fmt.Sprintf("%+v", e.settings), Timeout: config.Scan.Timeout,
		Parallel: e.kind.Parallel, PricePerHour: e.PricePerHour,
		DryRun: o.obeyDryRun && (config.DryRun || e.DryRun) || o.state != nil && o.state.Lost(),
	}
	if e.Timeout > 0 {
		t.Timeout = e.Timeout
	}
	text := config.Schedule
	if e.Schedule != "" {
		text = e.Schedule
	}
	t.Schedule, err = scan.ParseSchedule(text, config.zone())
	return t, err
}

func buildInfo() prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "reaperd_build_info", Help: "Always 1; the labels tell what runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	g.Set(1)
	return g
}

func newDryRunGauge() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "reaperd_dry_run", Help: "1 while the configuration's dry_run, or --dry-run, keeps everything from being reclaimed.",
	})
}

func (b *built) showDryRun() {
	b.dryRun.Set(0)
	if b.config.DryRun {
		b.dryRun.Set(1)
	}
}

var errNoPolicies = errors.New("no policies: name files under the key policies, or in REAPERD_POLICIES; " +
	"without any, nothing would ever be reclaimed")
