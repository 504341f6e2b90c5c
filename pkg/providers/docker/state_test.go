package docker

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestEveryStateOfARealEngineIsTold(t *testing.T) {
	enginetest.Each(t, everyStateOfARealEngineIsTold)
}

func everyStateOfARealEngineIsTold(t *testing.T, e *enginetest.Engine) {
	cli, p := e.Client(t), openAt(t, e.Host())
	ids := map[providers.State]string{
		providers.StateCreated: e.Run(t, enginetest.Options{CreateOnly: true}),
		providers.StateRunning: e.Run(t, enginetest.Options{}),
		providers.StatePaused:  e.Run(t, enginetest.Options{}),
		providers.StateExited:  e.Run(t, enginetest.Options{Cmd: []string{"true"}}),
	}
	if err := cli.ContainerPause(within(t), ids[providers.StatePaused]); err != nil {
		t.Fatal(err)
	}
	e.Wait(t, ids[providers.StateExited], func(s *container.State) bool { return s.Status == "exited" })

	all := mustList(t, p)
	for state, id := range ids {
		listed, got := all[id], mustGet(t, p, id)
		if listed.State != state || got.State != state || got.RawState != string(state) {
			t.Errorf("%s: List says %s, Get says %s (%s)", state, listed.State, got.State, got.RawState)
		}
		if !listed.Started.Equal(got.Started) || !listed.Ended.Equal(got.Ended) || listed.Revision != got.Revision {
			t.Errorf("%s: List %+v disagrees with Get %+v", state, listed, got)
		}
		if got.Created.IsZero() || got.Revision != got.Created.Format(time.RFC3339Nano) {
			t.Errorf("%s: created %v, revision %q", state, got.Created, got.Revision)
		}
		if got.Started.IsZero() != (state == providers.StateCreated) {
			t.Errorf("%s: started %v", state, got.Started)
		}
		if got.Ended.IsZero() != (state != providers.StateExited) {
			t.Errorf("%s: ended %v", state, got.Ended)
		}
	}
}

func TestACrashLoopIsStartingAndCanBeStopped(t *testing.T) {
	e := enginetest.Shared(t)
	p := openAt(t, e.Host())
	id := e.Run(t, enginetest.Options{Cmd: []string{"false"}, Restart: "always"})
	// Each time the engine waits twice as long, so that soon it mostly waits.
	until(t, "state starting", func() bool {
		return e.Inspect(t, id).RestartCount >= 5 && mustGet(t, p, id).State == providers.StateStarting
	})
	mustStop(t, p, id, providers.StopOptions{Action: providers.ActionStop, Grace: time.Second})
	if c := e.Inspect(t, id); c.State.Status != "exited" || c.HostConfig.RestartPolicy.Name != "no" {
		t.Errorf("after the stop: %s, restart policy %s", c.State.Status, c.HostConfig.RestartPolicy.Name)
	}
}

func TestTheEnginesOwnRestartsAreCountedUntilSomebodyStartsItAnew(t *testing.T) {
	enginetest.Each(t, theEnginesOwnRestartsAreCountedUntilSomebodyStartsItAnew)
}

func theEnginesOwnRestartsAreCountedUntilSomebodyStartsItAnew(t *testing.T, e *enginetest.Engine) {
	p := openAt(t, e.Host())
	// It crashes three times, after two seconds at first, and then stays.
	const crashes = `n=$(cat /n 2>/dev/null || echo 0); n=$((n+1)); echo $n >/n
		[ $n -eq 1 ] && sleep 2; [ $n -le 3 ] && exit 1; exec sleep 86400`
	id := e.Run(t, enginetest.Options{Cmd: []string{"sh", "-c", crashes}, Restart: "always"})
	first := mustGet(t, p, id)
	if first.Restarts != 0 {
		t.Errorf("%d restarts at first", first.Restarts)
	}
	before := first
	until(t, "three restarts", func() bool {
		sb := mustGet(t, p, id)
		if sb.Restarts < before.Restarts || sb.Restarts == before.Restarts && !sb.Started.Equal(before.Started) && before.State != providers.StateStarting {
			t.Fatalf("after %d restarts, %s, started %v, it has %d, is %s, started %v",
				before.Restarts, before.State, before.Started, sb.Restarts, sb.State, sb.Started)
		}
		before = sb
		return sb.Restarts == 3 && sb.State == providers.StateRunning
	})
	if at := parseTime(e.Inspect(t, id).State.StartedAt); !before.Started.Equal(at) || !at.After(first.Started) {
		t.Errorf("started %v; the engine says %v, and first said %v", before.Started, at, first.Started)
	}
	if sb := mustList(t, p)[id]; sb.Restarts != 3 || !sb.Started.Equal(before.Started) {
		t.Errorf("List: %d restarts, started %v; Get said 3, %v", sb.Restarts, sb.Started, before.Started)
	}
	restart(t, e, id)
	if sb := mustGet(t, p, id); sb.Restarts != 0 || !sb.Started.After(before.Started) {
		t.Errorf("after somebody restarted it: %d restarts, started %v", sb.Restarts, sb.Started)
	}
}

func TestOneThatTheEngineGaveUpKeepsItsRestarts(t *testing.T) {
	enginetest.Each(t, oneThatTheEngineGaveUpKeepsItsRestarts)
}

func oneThatTheEngineGaveUpKeepsItsRestarts(t *testing.T, e *enginetest.Engine) {
	p := openAt(t, e.Host())
	id := e.Run(t, enginetest.Options{
		Cmd: []string{"false"},
		Adjust: func(_ *container.Config, h *container.HostConfig) {
			h.RestartPolicy = container.RestartPolicy{Name: container.RestartPolicyOnFailure, MaximumRetryCount: 2}
		},
	})
	until(t, "given up", func() bool {
		// Podman has no word for the time between a crash and the next start.
		return mustGet(t, p, id).State == providers.StateExited && (!e.IsPodman() || e.Inspect(t, id).RestartCount == 2)
	})
	if sb := mustGet(t, p, id); sb.Restarts != 2 {
		t.Errorf("%d restarts, want 2", sb.Restarts)
	}
}

func TestOddStatesAndTimesAreNotTakenForAnswers(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	id := e.Run(t, enginetest.Options{})
	c := e.Inspect(t, id)
	rewritten := func(change func(string) string) providers.Sandbox {
		t.Helper()
		proxy.Hook(on("GET", id+"/json", proxy.Rewrite(func(b []byte) []byte { return []byte(change(string(b))) })))
		p := openAt(t, proxy.Host())
		listed, got := mustList(t, p)[id], mustGet(t, p, id)
		if listed.State != got.State || !listed.Started.Equal(got.Started) || !listed.Ended.Equal(got.Ended) {
			t.Errorf("List %+v disagrees with Get %+v", listed, got)
		}
		return got
	}
	for status, want := range map[string]providers.State{
		"restarting": providers.StateStarting, "removing": providers.StateChanging, "dead": providers.StateDead,
		"hibernated": providers.StateUnknown, "": providers.StateUnknown, "RUNNING": providers.StateUnknown,
	} {
		sb := rewritten(func(s string) string {
			s = strings.Replace(s, `"FinishedAt":"`+c.State.FinishedAt, `"FinishedAt":"2026-01-02T03:04:05Z`, 1)
			return strings.Replace(s, `"Status":"running"`, `"Status":"`+status+`"`, 1)
		})
		if sb.State != want || sb.RawState != status {
			t.Errorf("%q: state %s (%q), want %s", status, sb.State, sb.RawState, want)
		}
		if sb.Ended.IsZero() != (want != providers.StateDead) {
			t.Errorf("%q: ended %v", status, sb.Ended)
		}
	}
	for _, odd := range []string{
		"", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1999-12-31T23:59:59Z", "9999-12-31T23:59:59Z",
		"9000-01-01T00:00:00Z", "garbage", "0", "1764520000", "2026-13-01T00:00:00Z", "2026-11-30", "2026-11-30T10:00:00",
	} {
		sb := rewritten(func(s string) string {
			s = strings.Replace(s, `"Created":"`+c.Created, `"Created":"`+odd, 1)
			return strings.Replace(s, `"StartedAt":"`+c.State.StartedAt, `"StartedAt":"`+odd, 1)
		})
		if !sb.Created.IsZero() || !sb.Started.IsZero() || sb.Revision != "" || sb.State != providers.StateRunning {
			t.Errorf("%q: created %v, started %v, revision %q, state %s", odd, sb.Created, sb.Started, sb.Revision, sb.State)
		}
	}
	if sb := rewritten(func(s string) string { return strings.Replace(s, `"Status":"running"`, `"Status":"created"`, 1) }); !sb.Started.IsZero() {
		t.Errorf("created, with a StartedAt all the same: started %v", sb.Started)
	}
	const zoned = "2026-11-30T12:00:00.5+02:00"
	sb := rewritten(func(s string) string { return strings.Replace(s, c.State.StartedAt, zoned, 1) })
	if want := time.Date(2026, 11, 30, 10, 0, 0, 5e8, time.UTC); !sb.Started.Equal(want) || sb.Started.Location() != time.UTC {
		t.Errorf("%s: started %v", zoned, sb.Started)
	}
}

func TestAnIncompleteInspectMakesItUnknown(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	id := e.Run(t, enginetest.Options{Labels: map[string]string{"a": "b"}})
	for _, body := range []string{`{}`, `null`, `{"Id":"` + id + `"}`, `{"Id":"` + id + `","State":{"Status":"running"}}`, `[]`, `<html>`, ``} {
		proxy.Hook(on("GET", id+"/json", enginetest.Answer(http.StatusOK, body)))
		p := openAt(t, proxy.Host())
		sb, ok := mustList(t, p)[id]
		if !ok || sb.State != providers.StateUnknown || sb.Tags["a"] != "b" || sb.RawState != "running" {
			t.Errorf("%s: in the list %v, %+v", body, ok, sb)
		}
		if got, err := p.Get(within(t), id); providers.CauseOf(err) != providers.CauseUnavailable {
			t.Errorf("%s: Get gave %+v, %v", body, got, err)
		}
	}
}

func TestNamesImagesOwnersAndInstanceIDs(t *testing.T) {
	enginetest.Each(t, namesImagesOwnersAndInstanceIDs)
}

func namesImagesOwnersAndInstanceIDs(t *testing.T, e *enginetest.Engine) {
	cli, p := e.Client(t), openAt(t, e.Host())
	if err := cli.ImageTag(within(t), enginetest.Image, "moving:tag"); err != nil {
		t.Fatal(err)
	}
	labelled := e.Run(t, enginetest.Options{CreateOnly: true, Name: "praisonai_docker_0123456789ab", Labels: map[string]string{"instance_id": "docker_ffff"}})
	named := e.Run(t, enginetest.Options{CreateOnly: true, Name: "praisonai_docker_ba9876543210", Labels: map[string]string{"instance_id": ""}})
	plain := e.Run(t, enginetest.Options{CreateOnly: true, Name: "praisonai-redis", Image: "moving:tag"})
	task := e.Run(t, enginetest.Options{CreateOnly: true, Labels: map[string]string{"com.docker.swarm.task.id": "x"}})
	pod := e.Run(t, enginetest.Options{CreateOnly: true, Labels: map[string]string{"io.kubernetes.pod.uid": "x"}})
	// The list then shows sha256:… for the one made from it.
	e.Import(t, "moving:tag", "/bin/busybox", "busybox")

	all := mustList(t, p)
	for id, want := range map[string]struct{ name, image, owner, instance string }{
		labelled: {"praisonai_docker_0123456789ab", enginetest.Image, "", "docker_ffff"},
		named:    {"praisonai_docker_ba9876543210", enginetest.Image, "", "docker_ba9876543210"},
		plain:    {"praisonai-redis", "moving:tag", "", "docker_" + plain[:12]},
		task:     {all[task].Name, enginetest.Image, "swarm", "docker_" + task[:12]},
		pod:      {all[pod].Name, enginetest.Image, "kubernetes", "docker_" + pod[:12]},
	} {
		for from, sb := range map[string]providers.Sandbox{"List": all[id], "Get": mustGet(t, p, id)} {
			if e.IsPodman() { // says names of images in full
				sb.Image = strings.TrimPrefix(strings.TrimPrefix(sb.Image, "docker.io/"), "library/")
			}
			if sb.Name != want.name || sb.Image != want.image || sb.Owner != want.owner || sb.InstanceID() != want.instance {
				t.Errorf("%s: name %q, image %q, owner %q, instance id %q; want %+v", from, sb.Name, sb.Image, sb.Owner, sb.InstanceID(), want)
			}
			if sb.Endpoint != "docker://"+id[:12] || sb.Tags == nil || sb.Self {
				t.Errorf("%s: endpoint %q, tags %v, self %v", from, sb.Endpoint, sb.Tags, sb.Self)
			}
		}
	}
	if err := cli.ContainerRename(within(t), plain, "praisonai_renamed"); err != nil {
		t.Fatal(err)
	}
	if sb := mustList(t, p)[plain]; sb.Name != "praisonai_renamed" || sb.InstanceID() != "renamed" {
		t.Errorf("after a rename, which changes no state: name %q, instance id %q", sb.Name, sb.InstanceID())
	}
	if got := ownName([]string{"/web/db", "/db"}); got != "db" {
		t.Errorf("with a link in front: name %q, want db", got)
	}
}
