package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/scan"
)

// recording is an inventory as `ps -o facts` writes it and `plan --facts`
// reads it: all that decisions are made of, to be judged again by other
// policies at the same instant.
type recording struct {
	Version int          `json:"version"` // 1
	At      time.Time    `json:"at"`      // when the inventory was taken
	Facts   []fact       `json:"facts"`
	Errors  []queryError `json:"errors"` // the providers that are not in it
}

// fact is one sandbox of a recording. What the provider did not say is left
// out; tags are null where it did not say, and {} where there are none.
type fact struct {
	Provider string            `json:"provider"`
	Kind     string            `json:"kind"`
	ID       string            `json:"id"`
	Name     string            `json:"name,omitempty"`
	Image    string            `json:"image,omitempty"`
	Endpoint string            `json:"endpoint,omitempty"`
	State    providers.State   `json:"state"`
	RawState string            `json:"raw_state,omitempty"`
	Tags     map[string]string `json:"tags"`

	Created     time.Time `json:"created,omitzero"`
	Started     time.Time `json:"started,omitzero"`
	Ended       time.Time `json:"ended,omitzero"`
	PausedSince time.Time `json:"paused_since,omitzero"`
	LastActive  time.Time `json:"last_active,omitzero"`
	Expires     time.Time `json:"expires,omitzero"`
	Restarts    int       `json:"restarts,omitempty"`

	Revision string            `json:"revision,omitempty"`
	Owner    string            `json:"owner,omitempty"`
	Self     bool              `json:"self,omitempty"`
	Extra    map[string]string `json:"extra,omitempty"`
	Pulse    policy.Pulse      `json:"pulse"`
}

// newFact and facts are each other's inverse, and by their conversions it is
// the compiler that sees a field which one of the types lacks.
func newFact(f policy.Facts) fact {
	sb := f.Sandbox
	return fact{
		sb.Provider, sb.Kind, sb.ID, sb.Name, sb.Image, sb.Endpoint, sb.State, sb.RawState, sb.Tags,
		sb.Created, sb.Started, sb.Ended, sb.PausedSince, sb.LastActive, sb.Expires, sb.Restarts,
		sb.Revision, sb.Owner, sb.Self, sb.Extra, f.Pulse,
	}
}

func (f fact) facts() policy.Facts {
	return policy.Facts{
		Sandbox: providers.Sandbox{
			Ref: providers.Ref{Provider: f.Provider, ID: f.ID}, Kind: f.Kind, Name: f.Name, Image: f.Image,
			Endpoint: f.Endpoint, State: f.State, RawState: f.RawState, Tags: f.Tags,
			Created: f.Created, Started: f.Started, Ended: f.Ended, PausedSince: f.PausedSince,
			LastActive: f.LastActive, Expires: f.Expires, Restarts: f.Restarts,
			Revision: f.Revision, Owner: f.Owner, Self: f.Self, Extra: f.Extra,
		},
		Pulse: f.Pulse,
	}
}

func writeRecording(w io.Writer, reports []scan.Report, now time.Time) error {
	r := recording{Version: 1, At: now, Facts: []fact{}, Errors: queryErrors(reports)}
	for _, rep := range reports {
		for _, it := range rep.Plan.Items {
			r.Facts = append(r.Facts, newFact(it.Facts))
		}
	}
	return writeJSON(w, r)
}

// readRecording reads a recording whole; "-" is standard input. Anything that
// it does not know is an error: a misread fact would be a wrong verdict.
func readRecording(path string, stdin io.Reader) (recording, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return recording{}, fmt.Errorf("facts: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var r recording
	if err := dec.Decode(&r); err != nil {
		return recording{}, fmt.Errorf("%s is no recording of reaperd ps -o facts: %w", path, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return recording{}, fmt.Errorf("%s: something follows the recording", path)
	}
	if r.Version != 1 || r.At.IsZero() {
		return recording{}, fmt.Errorf("%s: want version 1 and a time at, found version %d, at %s", path, r.Version, r.At)
	}
	for i, f := range r.Facts {
		if !f.State.Valid() {
			return recording{}, fmt.Errorf("%s: facts[%d]: unknown state %q", path, i, f.State)
		}
	}
	return r, nil
}

// judge makes reports of a recording, one for each provider in it, as if it
// had been looked at when it was recorded.
func (r recording) judge(policies *policy.Set) []scan.Report {
	var reports []scan.Report
	by := map[string]int{}
	var facts [][]policy.Facts
	for _, f := range r.Facts {
		i, known := by[f.Provider]
		if !known {
			i = len(reports)
			by[f.Provider] = i
			reports = append(reports, scan.Report{Provider: f.Provider})
			facts = append(facts, nil)
		}
		facts[i] = append(facts[i], f.facts())
	}
	for i := range reports {
		reports[i].Plan = policy.NewPlan(policies, facts[i], r.At)
	}
	for _, e := range r.Errors {
		reports = append(reports, scan.Report{Provider: e.Provider, Err: errors.New(e.Error)})
	}
	return reports
}
