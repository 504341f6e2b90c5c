package providers_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
)

func TestCauseOf(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("stop x: %w", fmt.Errorf("deeper: %w", err)) }
	for _, tc := range []struct {
		err  error
		want providers.Cause
	}{
		{nil, ""},
		{providers.ErrNotFound, providers.CauseNotFound},
		{providers.ErrChanged, providers.CauseChanged},
		{providers.ErrBusy, providers.CauseBusy},
		{providers.ErrDenied, providers.CauseDenied},
		{providers.ErrThrottled, providers.CauseThrottled},
		{providers.ErrUnavailable, providers.CauseUnavailable},
		{providers.ErrUnsupported, providers.CauseUnsupported},
		{providers.ErrDryRun, providers.CauseDryRun},
		{providers.ErrDuplicate, providers.CauseDuplicate},
		{fs.ErrPermission, providers.CauseDenied},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}, providers.CauseDenied},
		{context.DeadlineExceeded, providers.CauseTimeout},
		{os.ErrDeadlineExceeded, providers.CauseTimeout},
		{&net.DNSError{IsTimeout: true}, providers.CauseTimeout},
		{&net.DNSError{IsNotFound: true}, providers.CauseOther},
		{errors.Join(providers.ErrUnavailable, context.DeadlineExceeded), providers.CauseTimeout},
		{errors.Join(errors.New("x"), providers.ErrThrottled), providers.CauseThrottled},
		{context.Canceled, providers.CauseOther},
		{errors.New("not found"), providers.CauseOther}, // a text is no answer
	} {
		if got := providers.CauseOf(tc.err); got != tc.want {
			t.Errorf("CauseOf(%v) = %q, want %q", tc.err, got, tc.want)
		}
		if tc.err == nil {
			continue
		}
		if got := providers.CauseOf(wrapped(tc.err)); got != tc.want {
			t.Errorf("CauseOf(wrapped %v) = %q, want %q", tc.err, got, tc.want)
		}
		if !slices.Contains(providers.Causes(), tc.want) {
			t.Errorf("%q is not among the causes", tc.want)
		}
	}
}

// able is a provider with every optional interface.
type able struct{ *fake.Provider }

func (able) Watch(context.Context, func(string)) error { return nil }
func (able) Activity(context.Context, providers.Sandbox) (time.Time, error) {
	return time.Unix(1, 0), nil
}
func (able) Identity(context.Context) (string, error) { return "here", nil }
func (able) Unreadable() int                          { return 7 }

func TestADryRunStopsNothingAndHidesNothing(t *testing.T) {
	inner := able{fake.New("mem")}
	inner.Put(providers.Sandbox{Ref: providers.Ref{ID: "x"}, State: providers.StateRunning})
	p := providers.DryRun(providers.DryRun(inner))
	for _, a := range []providers.Action{providers.ActionStop, providers.ActionRemove, providers.ActionPause, "", "incinerate"} {
		if err := p.Stop(t.Context(), providers.Sandbox{Ref: providers.Ref{ID: "x"}}, providers.StopOptions{Action: a}); !errors.Is(err, providers.ErrDryRun) {
			t.Errorf("Stop %q: %v", a, err)
		}
	}
	if n := inner.Calls("stop"); n != 0 {
		t.Errorf("%d stops reached the provider", n)
	}
	if all, err := p.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("List: %v, %v", all, err)
	}
	if sb, err := p.Get(t.Context(), "x"); err != nil || sb.ID != "x" {
		t.Errorf("Get: %v, %v", sb, err)
	}
	if _, ok := providers.As[providers.Watcher](p); !ok {
		t.Error("no Watcher")
	}
	if s, ok := providers.As[providers.ActivitySampler](p); !ok {
		t.Error("no ActivitySampler")
	} else if at, err := s.Activity(t.Context(), providers.Sandbox{}); err != nil || at.IsZero() {
		t.Errorf("Activity: %v, %v", at, err)
	}
	if b, ok := providers.As[providers.BlindSpot](p); !ok || b.Unreadable() != 7 {
		t.Error("no BlindSpot")
	}
	if i, ok := providers.As[providers.Identifier](p); !ok {
		t.Error("no Identifier")
	} else if id, err := i.Identity(t.Context()); err != nil || id != "here" {
		t.Errorf("Identity: %q, %v", id, err)
	}
}

func TestAsFindsNothingWhereThereIsNothing(t *testing.T) {
	if _, ok := providers.As[providers.Watcher](providers.DryRun(fake.New("mem"))); ok {
		t.Error("a Watcher on a fake")
	}
	if _, ok := providers.As[providers.Watcher](nil); ok {
		t.Error("a Watcher on nothing")
	}
}

func TestSatisfies(t *testing.T) {
	// What each state already is, of stop and pause; none is a removal.
	satisfied := map[providers.State]string{
		providers.StateCreated: "stop pause", providers.StateExited: "stop pause", providers.StateDead: "stop pause",
		providers.StatePaused: "pause", providers.StateSuspended: "pause",
	}
	for _, s := range append(providers.States(), "", "weird") {
		for _, a := range []providers.Action{providers.ActionStop, providers.ActionPause, providers.ActionRemove, ""} {
			want := slices.Contains(strings.Fields(satisfied[s]), string(a))
			if got := s.Satisfies(a); got != want {
				t.Errorf("%q satisfies %q: %v, want %v", s, a, got, want)
			}
		}
		if want := s != "" && s != "weird"; s.Valid() != want {
			t.Errorf("%q valid: %v", s, !want)
		}
		if want := s == providers.StateExited || s == providers.StateDead; s.Ended() != want {
			t.Errorf("%q ended: %v", s, !want)
		}
	}
	providers.States()[0] = "changed by a caller"
	if providers.States()[0] != providers.StateCreated {
		t.Error("a caller can change the states")
	}
}

func TestInstanceID(t *testing.T) {
	sb := providers.Sandbox{Ref: providers.Ref{Provider: "dev", ID: "42"}, Kind: "process"}
	if got := sb.InstanceID(); got != "process_42" {
		t.Errorf("without its own: %q", got)
	}
	sb.Extra = map[string]string{providers.ExtraInstanceID: "docker_5afaa3bfa704"}
	if got := sb.InstanceID(); got != "docker_5afaa3bfa704" {
		t.Errorf("with its own: %q", got)
	}
	if got := sb.Ref.String(); got != "dev/42" {
		t.Errorf("Ref: %q", got)
	}
}

type settings struct {
	Host string `yaml:"host"`
}

func kind(name string, detect func(func(string) string) bool) providers.Kind {
	return providers.Define(name, 4, settings{Host: "default"}, func(name string, s settings) (providers.Provider, error) {
		return fake.New(name + " at " + s.Host), nil
	}, detect)
}

func TestRegistry(t *testing.T) {
	inEnv := func(getenv func(string) string) bool { return getenv("HERE") != "" }
	r := providers.NewRegistry(kind("zeta", inEnv), kind("alpha", nil), kind("mid", func(func(string) string) bool { return true }))
	if got := strings.Join(r.Names(), " "); got != "alpha mid zeta" {
		t.Errorf("names: %s", got)
	}
	k, err := r.Kind("zeta")
	if err != nil || k.Name != "zeta" || k.Parallel != 4 {
		t.Errorf("zeta: %+v, %v", k, err)
	}
	first := k.Settings().(*settings)
	first.Host = "changed"
	if again := k.Settings().(*settings); again.Host != "default" {
		t.Errorf("the defaults are shared: %+v", again)
	}
	p, err := k.New("one", first)
	if err != nil {
		t.Fatal(err)
	}
	p.(*fake.Provider).Put(providers.Sandbox{Ref: providers.Ref{ID: "x"}})
	if sb, err := p.Get(t.Context(), "x"); err != nil || sb.Provider != "one at changed" {
		t.Errorf("%+v, %v", sb, err)
	}
	_, err = r.Kind("daytona")
	const says = `kind "daytona" is not built into this reaperd (it has alpha, mid, zeta): unsupported`
	if err == nil || err.Error() != says || !errors.Is(err, providers.ErrUnsupported) {
		t.Errorf("an unknown kind: %v", err)
	}
	none := func(string) string { return "" }
	if got := strings.Join(r.Detected(none), " "); got != "mid" {
		t.Errorf("detected: %s", got)
	}
	if got := strings.Join(r.Detected(func(string) string { return "1" }), " "); got != "mid zeta" {
		t.Errorf("detected: %s", got)
	}
}

func TestTwoKindsOfOneNameAreAMistakeInTheCode(t *testing.T) {
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "kind twin registered twice") {
			t.Errorf("recovered %v", p)
		}
	}()
	providers.NewRegistry(kind("twin", nil), kind("twin", nil))
}
