package docker

import (
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestWhatARequestCountsAs(t *testing.T) {
	for request, want := range map[[2]string]string{
		{"GET", "/v1.41/containers/json"}:          "list",
		{"GET", "/v1.41/containers/abc/json"}:      "inspect",
		{"POST", "/v1.41/containers/abc/stop"}:     "stop",
		{"POST", "/v1.41/containers/abc/kill"}:     "stop",
		{"POST", "/v1.41/containers/abc/update"}:   "update",
		{"POST", "/v1.41/containers/abc/unpause"}:  "update",
		{"DELETE", "/v1.41/containers/abc"}:        "remove",
		{"GET", "/v1.41/containers/abc/logs"}:      "evidence",
		{"GET", "/v1.41/events"}:                   "events",
		{"GET", "/networks"}:                       "probe",
		{"HEAD", "/_ping"}:                         "connect",
		{"GET", "/v1.41/info"}:                     "connect",
		{"POST", "/v1.41/containers/create"}:       "other",
		{"GET", "/v1.41/libpod/containers/x/json"}: "other",
	} {
		if got := opOf(request[0], request[1]); got != want {
			t.Errorf("%v counts as %s, want %s", request, got, want)
		}
	}
}

// A steady state costs one list each time, and no looks.
func TestCallsAreCounted(t *testing.T) {
	e := enginetest.Start(t)
	e.Run(t, enginetest.Options{})
	p := openAt(t, e.Host())
	for range 5 {
		if _, err := p.List(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	calls := p.Calls()
	if calls["list"] != 5 || calls["inspect"] > 2 || calls["remove"] != 0 { // one look, and one at what it may be itself
		t.Errorf("%v", calls)
	}
	var _ providers.Counter = p
}
