package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/duration"
	"github.com/reaperd/reaperd/internal/strictyaml"
	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

// testFile is one file of tests of policies. Times in it count from the start
// of each case.
type testFile struct {
	Version  int        `yaml:"version,required" doc:"1"`
	Policies []string   `yaml:"policies,required" doc:"files and globs of the policies under test, relative to this file"`
	Cases    []testCase `yaml:"cases,required" doc:"one sandbox each, and what becomes of it"`

	path  string
	set   *policy.Set
	files []string
}

// testCase follows one sandbox through time.
type testCase struct {
	Name    string       `yaml:"name,required" doc:"what is shown if it fails"`
	Sandbox *testSandbox `yaml:"sandbox" doc:"what the provider shows; where nothing else is said, a docker sandbox that has run since 0s, is called sandbox, of the image sandbox, without tags"`
	Pulse   *testPulse   `yaml:"pulse" doc:"what reaperd remembers; first seen at 0s where nothing else is said"`
	Steps   []testStep   `yaml:"steps,required" doc:"what is expected when"`

	line int
}

// CheckYAML refuses a file that tests nothing.
func (f *testFile) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	refuseEmpty(d, n, "policies", "cases")
}

// CheckYAML remembers where the case stands, and refuses one that tests nothing.
func (c *testCase) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	c.line = n.Line
	refuseEmpty(d, n, "steps")
}

func refuseEmpty(d *strictyaml.Decoder, n *yaml.Node, keys ...string) {
	for _, key := range keys {
		if at := child(n, key); at != nil && at.Kind == yaml.SequenceNode && len(at.Content) == 0 {
			d.In("."+key, func() { d.Faultf(at, "is empty") })
		}
	}
}

// testStep is one instant: what has changed by then, and what is expected.
type testStep struct {
	At      moment       `yaml:"at,required" doc:"when, from the start of the case"`
	Sandbox *testSandbox `yaml:"sandbox" doc:"what has changed"`
	Pulse   *testPulse   `yaml:"pulse" doc:"what has changed"`
	Expect  expectation  `yaml:"expect,required" doc:"what the policies should say then"`

	line int
}

// CheckYAML remembers where the step stands.
func (s *testStep) CheckYAML(_ *strictyaml.Decoder, n *yaml.Node) { s.line = n.Line }

// testSandbox is what a case says of a sandbox. What it leaves out stays as it
// was.
type testSandbox struct {
	Provider    *string   `yaml:"provider" doc:"the provider's name (docker)"`
	Kind        *string   `yaml:"kind" doc:"docker, process, …"`
	ID          *string   `yaml:"id"`
	Name        *string   `yaml:"name"`
	Image       *string   `yaml:"image"`
	State       *string   `yaml:"state" doc:"created, starting, running, paused, suspended, changing, exited, dead or unknown"`
	Tags        *testTags `yaml:"tags" doc:"its tags, or the word unknown where the provider did not say"`
	Created     *moment   `yaml:"created"`
	Started     *moment   `yaml:"started"`
	Ended       *moment   `yaml:"ended"`
	PausedSince *moment   `yaml:"paused_since"`
	LastActive  *moment   `yaml:"last_active"`
	Owner       *string   `yaml:"owner" doc:"the controller that would replace it"`
	Self        *bool     `yaml:"self" doc:"whether it is reaperd's own"`
}

// testPulse is what a case says that reaperd remembers.
type testPulse struct {
	FirstSeen  *moment      `yaml:"first_seen"`
	StateSince *moment      `yaml:"state_since" doc:"since when it is in its state"`
	LastBeat   *moment      `yaml:"last_beat" doc:"the last heartbeat for it"`
	BlindUntil *moment      `yaml:"blind_until" doc:"when reaperd last began to hear heartbeats"`
	Leases     *[]testLease `yaml:"leases" doc:"the leases that cover it"`
}

// testLease is one lease of a case.
type testLease struct {
	Key      string  `yaml:"key,required"`
	Ends     *moment `yaml:"ends"`
	Released *moment `yaml:"released"`
}

func (p *testPulse) apply(f *policy.Facts) {
	if p == nil {
		return
	}
	setTime(&f.Pulse.FirstSeen, p.FirstSeen)
	setTime(&f.Pulse.StateSince, p.StateSince)
	setTime(&f.Pulse.LastBeat, p.LastBeat)
	setTime(&f.Pulse.BlindUntil, p.BlindUntil)
	if p.Leases == nil {
		return
	}
	f.Pulse.Leases = nil
	for _, l := range *p.Leases {
		lease := policy.Lease{Key: l.Key}
		setTime(&lease.Ends, l.Ends)
		setTime(&lease.Released, l.Released)
		f.Pulse.Leases = append(f.Pulse.Leases, lease)
	}
}

// CheckYAML refuses a state that there is not.
func (s *testSandbox) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	if s.State == nil || providers.State(*s.State).Valid() {
		return
	}
	states := make([]string, 0, len(providers.States()))
	for _, st := range providers.States() {
		states = append(states, string(st))
	}
	d.In(".state", func() {
		d.Faultf(child(n, "state"), "unknown state %q%s", *s.State, strictyaml.DidYouMean(*s.State, states))
	})
}

// expectation is what a step wants. What it leaves out may be anything, save
// the verdict.
type expectation struct {
	Verdict policy.Verdict `yaml:"verdict,required" doc:"keep or reclaim"`
	Reason  policy.Reason  `yaml:"reason"`
	Policy  *string        `yaml:"policy" doc:"the policy that decides, or will"`
	Action  string         `yaml:"action" doc:"stop, remove or pause"`
	Due     *moment        `yaml:"due" doc:"the deadline that decides; unknown: there is none"`
	Shadows *names         `yaml:"shadows" doc:"the policies in report mode that would reclaim now"`
}

// CheckYAML refuses a verdict and a reason that there are not.
func (e *expectation) CheckYAML(d *strictyaml.Decoder, n *yaml.Node) {
	if at := child(n, "verdict"); at != nil && e.Verdict != policy.Keep && e.Verdict != policy.Reclaim {
		d.In(".verdict", func() { d.Faultf(at, "want keep or reclaim, found %q", e.Verdict) })
	}
	var reasons []string
	for _, r := range policy.Reasons() {
		reasons = append(reasons, string(r))
	}
	if at := child(n, "reason"); at != nil && !slices.Contains(reasons, string(e.Reason)) {
		d.In(".reason", func() {
			d.Faultf(at, "unknown reason %q%s", e.Reason, strictyaml.DidYouMean(string(e.Reason), reasons))
		})
	}
}

// names are names, or none: an empty list says something here.
type names []string

// testTags are tags, or that the provider did not say (nil).
type testTags map[string]string

// DecodeYAML reads a mapping, or the word unknown.
func (t *testTags) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Value == "unknown" {
		*t = nil
		return
	}
	*t = testTags{}
	d.Decode(n, (*map[string]string)(t))
}

// moment is an instant of a case, from its start.
type moment struct {
	after   time.Duration
	unknown bool
}

// DecodeYAML reads a duration, 0s among them, or the word unknown.
func (m *moment) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	if text == "unknown" {
		m.unknown = true
		return
	}
	after, err := duration.ParseOrZero(text)
	if err != nil {
		d.Faultf(n, "%v", err)
		return
	}
	m.after = after
}

// caseStart is when every case begins.
var caseStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (m moment) time() time.Time {
	if m.unknown {
		return time.Time{}
	}
	return caseStart.Add(m.after)
}

// sinceStart writes a time as a case would.
func sinceStart(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return duration.Format(t.Sub(caseStart))
}

// readTests reads a file of tests and loads the policies that it names.
func readTests(path string) (*testFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	root, faults := strictyaml.Parse(path, data)
	if root == nil {
		return nil, faults.Err()
	}
	f := &testFile{path: path}
	d := strictyaml.NewDecoder(path)
	d.Decode(root, f)
	if at := child(root, "version"); at != nil && f.Version != 1 {
		d.In(".version", func() { d.Faultf(at, "is %s, and this reaperd reads version 1", at.Value) })
	}
	if err := d.Faults().Err(); err != nil {
		return nil, err
	}
	for _, pattern := range f.Policies {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(path), pattern)
		}
		if f.files, err = expand(f.files, pattern); err != nil {
			return nil, fmt.Errorf("%s: policies: %w", path, err)
		}
	}
	f.set, _, err = loadPolicyFiles(f.files, known(nil, false))
	return f, err
}

// apply lays what a case or step says over the facts.
func (s *testSandbox) apply(f *policy.Facts) {
	if s == nil {
		return
	}
	set(&f.Provider, s.Provider)
	set(&f.Kind, s.Kind)
	set(&f.ID, s.ID)
	set(&f.Name, s.Name)
	set(&f.Image, s.Image)
	set(&f.Owner, s.Owner)
	set(&f.Self, s.Self)
	if s.State != nil {
		f.State = providers.State(*s.State)
	}
	if s.Tags != nil {
		f.Tags = *s.Tags
	}
	setTime(&f.Created, s.Created)
	setTime(&f.Started, s.Started)
	setTime(&f.Ended, s.Ended)
	setTime(&f.PausedSince, s.PausedSince)
	setTime(&f.LastActive, s.LastActive)
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func setTime(to *time.Time, from *moment) {
	if from != nil {
		*to = from.time()
	}
}

// sorted gives the names in order, never nil.
func sorted(names []string) []string {
	return append([]string{}, slices.Sorted(slices.Values(names))...)
}
