package docker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

// Podman passes the tests that enginetest.Each runs. Here is what it alone has,
// and what it does differently; docs/providers/docker.md tells the same.

// libpod calls Podman's own API, which gives id, or nothing.
func libpod(t *testing.T, e *enginetest.Engine, method, path, body string) (id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // a cleanup calls it too
	defer cancel()
	l, err := openAt(t, e.Host()).conn.client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, method, l.base+"/v4.0.0/libpod"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := l.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct{ ID, Message string }
	err = json.NewDecoder(resp.Body).Decode(&answer)
	if resp.StatusCode >= 400 {
		t.Fatalf("%s %s: %s %s, %v", method, path, resp.Status, answer.Message, err)
	}
	return answer.ID
}

func TestPodmansIdentityIsTheSameForEveryAnswer(t *testing.T) {
	e, other := enginetest.SharedPodman(t), enginetest.StartPodman(t)
	first, err := openAt(t, e.Host()).Identity(within(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := enginetest.NewProxy(t, e)
	if again, err := openAt(t, proxy.Host()).Identity(within(t)); again != first || err != nil {
		t.Errorf("the same service gives %q and %q, %v", first, again, err)
	}
	if id, err := openAt(t, other.Host()).Identity(within(t)); id == first || err != nil {
		t.Errorf("one with another root gives %q too, %v", id, err)
	}
}

func TestAContainerOfPodmanKnowsItself(t *testing.T) {
	e := enginetest.SharedPodman(t)
	id := e.Run(t, enginetest.Options{
		Cmd:    []string{"sh", "-c", "cat /proc/self/mountinfo; echo end; exec sleep 86400"},
		Adjust: func(c *container.Config, _ *container.HostConfig) { c.Tty = true },
	})
	proc := procOf(t, map[string]string{"mountinfo": logsUntil(t, e, id, "end")})
	if got := candidates(proc, noHostname); len(got) != 1 || got[0] != id {
		t.Errorf("it takes itself for %v, it is %s", got, id)
	}
}

func TestPodmansForcedRemovalIsPrecededByAKill(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		proxy := enginetest.NewProxy(t, e)
		p := openAt(t, proxy.Host())
		patient := 50
		id := e.Run(t, enginetest.Options{Adjust: func(c *container.Config, _ *container.HostConfig) { c.StopTimeout = &patient }})
		began := time.Now()
		mustStop(t, p, id, providers.StopOptions{Action: providers.ActionRemove})
		if took := time.Since(began); took > 20*time.Second || e.Exists(t, id) {
			t.Errorf("with no grace it took %v", took)
		}
		want := []string{"DELETE /containers/" + id + "?force=1"}
		if e.IsPodman() {
			want = slices.Insert(want, 0, "POST /containers/"+id+"/stop?t=0")
		}
		if got := paths(proxy.Mutations()); !slices.Equal(got, want) {
			t.Errorf("it called %v, want %v", got, want)
		}
	})
}

// Podman 4.3.1 cannot update a restart policy, but heeds none for what it was
// told to stop, until its unit podman-restart starts all of them at the next boot.
func TestWhatPodmanStoppedStaysStoppedThoughItsPolicyStays(t *testing.T) {
	e := enginetest.StartPodman(t)
	p := openAt(t, e.Host())
	var ids []string
	for _, policy := range []container.RestartPolicyMode{"always", "unless-stopped", "on-failure"} {
		ids = append(ids, e.Run(t, enginetest.Options{Restart: policy}))
	}
	crashes := e.Run(t, enginetest.Options{Cmd: []string{"sh", "-c", "sleep 0.5; exit 1"}, Restart: "always"})
	until(t, "a crash loop that runs", func() bool {
		c := e.Inspect(t, crashes)
		return c.RestartCount > 0 && c.State.Running
	})
	ids = append(ids, crashes)
	// One stop of a crash loop may find it between two runs, which looks like its
	// end. It then runs again within half a second.
	until(t, "all are stopped for good", func() bool {
		return !slices.ContainsFunc(ids, func(id string) bool {
			err := p.Stop(within(t), mustGet(t, p, id), providers.StopOptions{Action: providers.ActionStop})
			if err != nil && !errors.Is(err, providers.ErrChanged) { // it came back just then
				t.Fatal(err)
			}
			s := e.Inspect(t, id).State
			return s.Status != "exited" || time.Since(parseTime(s.FinishedAt)) < 2*time.Second
		})
	})
	e.Restart(t)
	for _, id := range ids {
		c := e.Inspect(t, id)
		if c.State.Running || c.HostConfig.RestartPolicy.IsNone() {
			t.Errorf("%+v with restart policy %s", c.State, c.HostConfig.RestartPolicy.Name)
		}
	}
}

// Podman's service may end during a stop, which nobody takes up again.
func TestAStopThatPodmanLostIsMadeAgain(t *testing.T) {
	e := enginetest.StartPodman(t)
	p := openAt(t, e.Host())
	id := e.Run(t, enginetest.Options{})
	stop := providers.StopOptions{Action: providers.ActionStop, Grace: 3 * time.Second}
	sb := mustGet(t, p, id)
	var losing sync.WaitGroup
	losing.Go(func() { _ = p.Stop(t.Context(), sb, stop) }) // whatever comes of it
	e.Wait(t, id, func(s *container.State) bool { return s.Status == "stopping" })
	if listed, got := mustList(t, p)[id], mustGet(t, p, id); listed.State != providers.StateRunning || got.State != providers.StateRunning {
		t.Errorf("while it is being stopped, List says %s, Get %s", listed.State, got.State)
	}
	e.Restart(t)
	losing.Wait()
	if s := e.Inspect(t, id).State; s.Status == "stopping" {
		stop.Grace = 0
		mustStop(t, p, id, stop)
	}
	if sb := mustGet(t, p, id); sb.State != providers.StateExited {
		t.Errorf("it is %s", sb.RawState)
	}
}

func TestTheContainerOnWhichAPodDependsHasAnOwner(t *testing.T) {
	e := enginetest.SharedPodman(t)
	for name, rest := range map[string]string{"usual": "", "another": `,"infra_name":"chosen"`} {
		t.Run(name, func(t *testing.T) {
			pod := libpod(t, e, "POST", "/pods/create", `{"name":"pod-`+name+`","labels":{"act":"remove"},"share_parent":true,
				"netns":{"nsmode":"none"},"shared_namespaces":["ipc"],"infra_image":"`+enginetest.Image+`","infra_command":["/bin/sleep","86400"]`+rest+`}`)
			t.Cleanup(func() {
				libpod(t, e, "DELETE", "/pods/"+pod+"?force=true&timeout=0", "")
				left, _ := filepath.Glob("/sys/fs/cgroup/*/libpod_parent/" + pod) // by 4.3.1 under control groups v1
				for _, group := range left {
					_ = os.Remove(group)
				}
			})
			member := libpod(t, e, "POST", "/containers/create", `{"image":"`+enginetest.Image+`","command":["sleep","86400"],
				"pod":"`+pod+`","netns":{"nsmode":"none"},"stop_timeout":0}`)
			libpod(t, e, "POST", "/pods/"+pod+"/start", "")

			proxy := enginetest.NewProxy(t, e)
			p := openAt(t, proxy.Host())
			check := func(named string) {
				t.Helper()
				all := mustList(t, p)
				if len(all) != 2 || all[member].Owner != "" {
					t.Fatalf("%+v", all)
				}
				for id, sb := range all {
					if id != member && (sb.Owner != named || sb.Tags["act"] != "remove") {
						t.Errorf("the infra container %s: owner %q, tags %v; want owner %q", sb.Name, sb.Owner, sb.Tags, named)
					}
				}
			}
			check("pod")
			// A proxy may keep Podman's own API from us.
			p = openAt(t, proxy.Host())
			proxy.Hook(func(r enginetest.Request) http.HandlerFunc {
				if strings.HasPrefix(r.Path, "/libpod") {
					return enginetest.Answer(http.StatusForbidden, `{}`)
				}
				return nil
			})
			if name == "usual" {
				check("pod")
			} else {
				check("")
			}
			mustStop(t, p, member, providers.StopOptions{Action: providers.ActionRemove})
			if e.Exists(t, member) {
				t.Error("a member of a pod was not removed")
			}
		})
	}
}

func TestWhatSystemdRunsHasAnOwner(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		id := e.Run(t, enginetest.Options{CreateOnly: true, Labels: map[string]string{"PODMAN_SYSTEMD_UNIT": "web.service"}})
		if sb := mustGet(t, openAt(t, e.Host()), id); sb.Owner != "systemd" {
			t.Errorf("owner %q", sb.Owner)
		}
	})
}

func TestPodmansWordsForStates(t *testing.T) {
	for word, want := range map[string]providers.State{
		"configured": providers.StateCreated, "initialized": providers.StateCreated, "stopping": providers.StateRunning,
		"stopped": providers.StateExited, "unknown": providers.StateUnknown, "invalid state": providers.StateUnknown,
	} {
		if got := stateOf(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
	e := enginetest.SharedPodman(t)
	id := e.Run(t, enginetest.Options{CreateOnly: true})
	libpod(t, e, "POST", "/containers/"+id+"/init", "")
	p := openAt(t, e.Host())
	if sb := mustGet(t, p, id); sb.State != providers.StateCreated || !sb.Started.IsZero() {
		t.Errorf("initialized: %+v", sb)
	}
	mustStop(t, p, id, providers.StopOptions{Action: providers.ActionRemove, Grace: time.Second})
	if e.Exists(t, id) {
		t.Error("an initialized one was not removed")
	}
}

func TestWhatGoesWhilePodmanLooksAtItIsGone(t *testing.T) {
	e := enginetest.SharedPodman(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	id := e.Run(t, enginetest.Options{CreateOnly: true})
	for text, want := range map[string]providers.Cause{
		"container " + id + " does not exist in database: no such container": providers.CauseNotFound,
		"the database is locked": providers.CauseUnavailable,
	} {
		proxy.Hook(on("GET", id+"/json", enginetest.Answer(http.StatusInternalServerError, `{"message":"`+text+`"}`)))
		if _, err := p.Get(within(t), id); providers.CauseOf(err) != want {
			t.Errorf("%s: %v, want cause %s", text, err, want)
		}
	}
}

func TestOneThatPodmanListsAsStoppedIsNotReadByEachList(t *testing.T) {
	e := enginetest.SharedPodman(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	id := e.Run(t, enginetest.Options{Cmd: []string{"true"}})
	e.Wait(t, id, func(s *container.State) bool { return s.Status == "exited" })
	proxy.Hook(on("GET", "/containers/json", proxy.Rewrite(func(b []byte) []byte {
		return []byte(strings.ReplaceAll(string(b), `"State":"exited"`, `"State":"stopped"`))
	})))
	mustList(t, p)
	proxy.Reset()
	if sb := mustList(t, p)[id]; sb.State != providers.StateExited {
		t.Errorf("it is %+v", sb)
	}
	if got := paths(proxy.Requests()); !slices.Equal(got, []string{listCall}) {
		t.Errorf("it asked %v", got)
	}
}
