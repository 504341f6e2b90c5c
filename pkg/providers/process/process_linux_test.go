package process

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/providertest"
)

// own shows only the sandboxes of one test: others may run on this machine.
type own struct {
	*Provider
	prefix string
}

func (o own) List(ctx context.Context) ([]providers.Sandbox, error) {
	all, err := o.Provider.List(ctx)
	if err != nil {
		return nil, err
	}
	var ours []providers.Sandbox
	for _, sb := range all {
		if strings.HasPrefix(sb.Name, o.prefix) {
			ours = append(ours, sb)
		}
	}
	return ours, nil
}

func TestConformance(t *testing.T) {
	providertest.Run(t, func(*testing.T) providertest.Fixture {
		prefix := newID() + "-"
		helpers := map[string]*helper{}
		return providertest.Fixture{
			Provider: own{New("local"), prefix},
			Name:     "local",
			Actions:  []providers.Action{providers.ActionStop, providers.ActionRemove},
			Start: func(t *testing.T, tags map[string]string) string {
				id := fmt.Sprint(prefix, len(helpers))
				var list []string
				for k, v := range tags {
					list = append(list, k+"="+v)
				}
				h := startMember(t, "sleep", id, "REAPERD_TAGS="+strings.Join(list, ","))
				helpers[ref(id)] = h
				return ref(id)
			},
			Vanish: func(_ *testing.T, id string) { helpers[id].end() },
		}
	})
}

// ref is the Ref.ID of a sandbox of our own user.
func ref(id string) string { return fmt.Sprintf("%d:%s", os.Getuid(), id) }

func mustGet(tb testing.TB, p *Provider, id string) providers.Sandbox {
	tb.Helper()
	sb, err := p.Get(within(tb), ref(id))
	if err != nil {
		tb.Fatalf("Get: %v", err)
	}
	return sb
}

func isGone(tb testing.TB, p *Provider, id string) {
	tb.Helper()
	if sb, err := p.Get(within(tb), ref(id)); providers.CauseOf(err) != providers.CauseNotFound {
		tb.Errorf("Get gave %+v, %v; want it gone", sb, err)
	}
}

func TestSandboxSaysWhatItsProcessesAre(t *testing.T) {
	id := newID()
	first := startMember(t, "sleep", id, "REAPERD_TAGS=owner=me, debug")
	startMember(t, "sleep", id)
	p := New("local")
	got := mustGet(t, p, id)
	if got.Created.IsZero() || got.Started != got.Created || got.Created.Nanosecond()%int(1e7) != mustGet(t, p, id).Created.Nanosecond()%int(1e7) {
		t.Errorf("created %v, started %v: want one stable instant", got.Created, got.Started)
	}
	if got.Revision == "" {
		t.Error("no revision")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := providers.Sandbox{
		Ref: providers.Ref{Provider: "local", ID: ref(id)}, Kind: "process", Name: id,
		Image: exe[strings.LastIndex(exe, "/")+1:], Endpoint: fmt.Sprint("process://", first.Process.Pid),
		State: providers.StateRunning, RawState: "running",
		Tags:    map[string]string{"owner": "me", "debug": ""},
		Created: got.Created, Started: got.Created, Revision: got.Revision,
		Extra: map[string]string{"processes": "2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.InstanceID() != "process_"+ref(id) {
		t.Errorf("instance id %q", got.InstanceID())
	}
}

func TestSandboxWithoutTagsHasNone(t *testing.T) {
	id := newID()
	startMember(t, "sleep", id)
	if tags := mustGet(t, New("local"), id).Tags; tags == nil || len(tags) != 0 {
		t.Errorf("tags %#v: want empty, not nil", tags)
	}
}

func TestDaemonIsFoundWhereverItWentTo(t *testing.T) {
	id := newID()
	h := startMember(t, "daemon", id)
	if err := h.Wait(); err != nil {
		t.Fatal(err)
	}
	p := New("local")
	sb := mustGet(t, p, id)
	if err := p.Stop(within(t), sb, providers.StopOptions{Action: providers.ActionStop}); err != nil {
		t.Fatal(err)
	}
	isGone(t, p, id)
}

// A tag of any member may be the one that protects.
func TestTagsOfAllMembersCount(t *testing.T) {
	id := newID()
	startMember(t, "sleep", id, "REAPERD_TAGS=owner=me")
	startMember(t, "sleep", id, "REAPERD_TAGS=owner=me,reaperd.protect=true")
	got := mustGet(t, New("local"), id)
	if diff := cmp.Diff(map[string]string{"owner": "me", "reaperd.protect": "true"}, got.Tags); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.State != providers.StateRunning {
		t.Errorf("state %s: they agree", got.State)
	}
}

func TestMembersThatDisagreeOnATagAreKept(t *testing.T) {
	id := newID()
	startMember(t, "sleep", id, "REAPERD_TAGS=env=dev")
	startMember(t, "sleep", id, "REAPERD_TAGS=env=prod")
	got := mustGet(t, New("local"), id)
	if got.State != providers.StateUnknown || !strings.HasSuffix(got.RawState, "env") || got.Tags["env"] != "dev" {
		t.Errorf("state %s (%s), tags %v: want unknown, the key named, the oldest's value", got.State, got.RawState, got.Tags)
	}
}

func TestStoppedMembersArePausedOnlyTogether(t *testing.T) {
	id := newID()
	a, b := startMember(t, "sleep", id), startMember(t, "sleep", id)
	p := New("local")
	state := func() providers.State { return mustGet(t, p, id).State }
	pause := func(h *helper) {
		if err := h.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the process stops", func() bool {
			s, err := p.table.files.stat(-1, fmt.Sprintf("/proc/%d/", h.Process.Pid))
			return err == nil && s.stopped()
		})
	}
	pause(a)
	if s := state(); s != providers.StateRunning {
		t.Errorf("with one of two stopped: %s", s)
	}
	pause(b)
	if s := state(); s != providers.StatePaused {
		t.Errorf("with both stopped: %s", s)
	}
	if err := a.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if s := state(); s != providers.StateRunning {
		t.Errorf("with the first let go on: %s", s)
	}
}

func TestAgeOutlivesTheFirstMember(t *testing.T) {
	id := newID()
	first := startMember(t, "sleep", id)
	p := New("local")
	began := mustGet(t, p, id)
	if again := mustGet(t, New("another"), id); again.Revision != began.Revision {
		t.Errorf("another provider gives revision %s, want %s", again.Revision, began.Revision)
	}
	second := startMember(t, "sleep", id)
	mustGet(t, p, id)
	first.end()
	if got := mustGet(t, p, id); got.Created != began.Created || got.Revision != began.Revision {
		t.Errorf("created %v, revision %s; want still %v, %s", got.Created, got.Revision, began.Created, began.Revision)
	}
	second.end()
	startMember(t, "sleep", id)
	if got := mustGet(t, p, id); !got.Created.After(began.Created) || got.Revision == began.Revision {
		t.Errorf("the id used again: created %v, revision %s; want later than %v, not %s", got.Created, got.Revision, began.Created, began.Revision)
	}
}

func TestZombieIsNoMember(t *testing.T) {
	id := newID()
	h := startMember(t, "sleep", id)
	if err := h.Process.Kill(); err != nil { // and not waited for
		t.Fatal(err)
	}
	p := New("local")
	eventually(t, "the dead process is not listed", func() bool {
		_, err := p.Get(within(t), ref(id))
		return providers.CauseOf(err) == providers.CauseNotFound
	})
}

func TestProcessThatTakesOffTheVariableHasLeft(t *testing.T) {
	id := newID()
	h := startMember(t, "leaver", id)
	p := New("local")
	mustGet(t, p, id)
	if err := h.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	h.hear(t, "ready") // as another program
	isGone(t, p, id)
}

func TestValueThatIsNoIDIsNoSandbox(t *testing.T) {
	id := newID()
	startMember(t, "sleep", id+"/x")
	startMember(t, "sleep", id+":x")
	startMember(t, "sleep", id+" x")
	all, err := own{New("local"), id}.List(within(t))
	if err != nil || len(all) != 0 {
		t.Errorf("List gave %+v, %v; want none", all, err)
	}
}

func TestIdentityIsTheMachines(t *testing.T) {
	a, err := New("a").Identity(within(t))
	if err != nil {
		t.Fatal(err)
	}
	b, err := New("b").Identity(within(t))
	if err != nil || a != b || len(a) < 40 {
		t.Errorf("identities %q and %q, %v: want one", a, b, err)
	}
}
