package process

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reaperd/reaperd/pkg/providers"
)

// long is a grace that no test means to wait for.
const long = time.Hour

func stop(t *testing.T, p *Provider, id string, grace time.Duration) {
	t.Helper()
	sb := mustGet(t, p, id)
	if err := p.Stop(within(t), sb, providers.StopOptions{Action: providers.ActionRemove, Grace: grace}); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	isGone(t, p, id)
}

func TestStopAsksFirst(t *testing.T) {
	id := newID()
	h := startMember(t, "polite", id)
	stop(t, New("local"), id, long)
	if said := h.rest(t); said != "asked\n" {
		t.Errorf("the member said %q, want that it was asked, once", said)
	}
}

func TestStopWithoutGraceDoesNotAsk(t *testing.T) {
	id := newID()
	h := startMember(t, "polite", id)
	stop(t, New("local"), id, 0)
	if said := h.rest(t); said != "" {
		t.Errorf("the member said %q", said)
	}
}

func TestStopKillsWhoDoesNotListen(t *testing.T) {
	id := newID()
	h := startMember(t, "stubborn", id)
	before := descriptors(t)
	stop(t, New("local"), id, 100*time.Millisecond)
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
	if said := h.rest(t); said != "asked\n" {
		t.Errorf("the member said %q, want that it was asked, once", said)
	}
}

func TestStopLetsAStoppedMemberAct(t *testing.T) {
	id := newID()
	h := startMember(t, "polite", id)
	if err := h.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p := New("local")
	eventually(t, "it is paused", func() bool { return mustGet(t, p, id).State == providers.StatePaused })
	stop(t, p, id, long)
	if said := h.rest(t); said != "asked\n" {
		t.Errorf("the member said %q, want that it was asked", said)
	}
}

func TestStopAsksThoseBornMeanwhile(t *testing.T) {
	id := newID()
	h := startMember(t, "breeder", id)
	stop(t, New("local"), id, long) // or this waits for the child for an hour
	h.rest(t)
}

func TestStopWinsAgainstForks(t *testing.T) {
	for _, behaviour := range []string{"chain", "hydra"} {
		for _, grace := range []time.Duration{0, 100 * time.Millisecond} {
			t.Run(behaviour+" "+grace.String(), func(t *testing.T) {
				id := newID()
				h := startMember(t, behaviour, id)
				p := New("local")
				// In a chain a look finds one member or another, or catches none.
				var sb providers.Sandbox
				eventually(t, "it is found and stopped", func() bool {
					var err error
					if sb, err = p.Get(within(t), ref(id)); err != nil {
						return false
					}
					ctx, cancel := context.WithTimeout(t.Context(), loopers/2)
					defer cancel()
					err = p.Stop(ctx, sb, providers.StopOptions{Action: providers.ActionRemove, Grace: grace})
					if errors.Is(err, providers.ErrChanged) || errors.Is(err, providers.ErrNotFound) {
						return false
					}
					if err != nil {
						t.Fatal(err)
					}
					return true
				})
				isGone(t, p, id)
				// Nobody holds the helper's output any more: all have ended, and
				// not of themselves.
				if said := h.rest(t); strings.Contains(said, "late") {
					t.Error("the loop went on until it ended by itself")
				}
			})
		}
	}
}

func TestStopEndsWithItsContext(t *testing.T) {
	id := newID()
	h := startMember(t, "stubborn", id)
	p := New("local")
	sb := mustGet(t, p, id)
	before := descriptors(t)
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() {
		done <- p.Stop(ctx, sb, providers.StopOptions{Action: providers.ActionRemove, Grace: long})
	}()
	h.hear(t, "asked")
	cancel()
	err := <-done
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 of its processes left") {
		t.Errorf("Stop gave %v; want the context's error and what is left", err)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
	if got := mustGet(t, p, id); got.State != providers.StateRunning {
		t.Errorf("state %s; want it left running", got.State)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// One that is given up half-way must not stay frozen.
func TestThawUndoesFreeze(t *testing.T) {
	id := newID()
	startMember(t, "sleep", id)
	p := New("local")
	k, _ := parseKey(ref(id))
	h := hunt{table: p.table, key: k, frozen: map[process]bool{}}
	defer h.close()
	if err := h.freeze(within(t)); err != nil {
		t.Fatal(err)
	}
	if s := mustGet(t, p, id).State; s != providers.StatePaused {
		t.Errorf("frozen: state %s", s)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.thaw(over); err != nil {
		t.Fatal(err)
	}
	if s := mustGet(t, p, id).State; s != providers.StateRunning {
		t.Errorf("thawed: state %s", s)
	}
}

func TestStopRefusesWhatItCannotDo(t *testing.T) {
	id := newID()
	startMember(t, "sleep", id)
	p := New("local")
	sb := mustGet(t, p, id)
	for name, o := range map[string]providers.StopOptions{
		"pause":    {Action: providers.ActionPause},
		"images":   {Action: providers.ActionRemove, Images: true},
		"snapshot": {Action: providers.ActionRemove, Snapshot: true},
		"nothing":  {},
	} {
		if err := p.Stop(within(t), sb, o); !errors.Is(err, providers.ErrUnsupported) {
			t.Errorf("%s gave %v; want ErrUnsupported", name, err)
		}
	}
	if s := mustGet(t, p, id).State; s != providers.StateRunning {
		t.Fatalf("state %s after refusals", s)
	}
	// A process has no volumes and no networks: there is nothing left to delete.
	if err := p.Stop(within(t), sb, providers.StopOptions{Action: providers.ActionRemove, Volumes: true, Networks: true}); err != nil {
		t.Error(err)
	}
}

// The sandbox must not be touched when the first signal says that we may not.
func TestSignalThatIsNotAllowedIsDenied(t *testing.T) {
	err := unavailable(unix.EPERM)
	if !errors.Is(err, providers.ErrDenied) {
		t.Errorf("EPERM is %v, want denied", err)
	}
	if err := unavailable(unix.ENOSYS); !errors.Is(err, providers.ErrUnsupported) || !strings.Contains(err.Error(), "Linux 5.3") {
		t.Errorf("a kernel without pidfds: %v", err)
	}
}
