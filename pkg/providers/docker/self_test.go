package docker

import (
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

func noHostname() (string, error) { return "", errors.New("no name") }

func procOf(t *testing.T, files map[string]string) fs.FS {
	t.Helper()
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func TestCandidatesForOnesOwnID(t *testing.T) {
	a, b := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	for name, tc := range map[string]struct {
		mountinfo, cgroup, hostname string
		want                        []string
	}{
		"a bare host": {"22 1 8:1 / / rw - ext4 /dev/sda rw\n", "0::/init.scope\n", "workstation", nil},
		"no files":    {"", "", "", nil},
		"Docker": {
			"50 40 0:60 / / rw - overlay overlay rw\n61 50 8:1 /var/lib/docker/containers/" + a + "/hostname /etc/hostname rw - ext4 /dev/sda rw\n",
			"0::/\n", "chosen", []string{a},
		},
		"Docker with its data elsewhere": {
			"61 50 8:1 /engine/containers/" + a + "/resolv.conf /etc/resolv.conf rw - ext4 /dev/sda rw\n", "", "", []string{a},
		},
		"Podman": {
			"61 50 0:24 /containers/overlay-containers/" + a + "/userdata/hosts /etc/hosts rw - tmpfs tmpfs rw\n", "", "", []string{a},
		},
		"the host of containers, whose files are mounted there too": {
			"90 20 0:70 / /var/lib/docker/containers/" + a + "/mounts/shm rw - tmpfs shm rw\n" +
				"91 20 8:1 /var/lib/docker/containers/" + a + "/hostname /mnt/hostname rw - ext4 /dev/sda rw\n", "0::/\n", "host", nil,
		},
		"cgroup v1":                         {"", "12:pids:/docker/" + a + "\n11:cpu:/docker/" + a + "\n", "", []string{a}},
		"cgroup v1 of systemd":              {"", "1:name=systemd:/system.slice/docker-" + a + ".scope\n", "", []string{a}},
		"cgroup v1 of a pod":                {"", "5:memory:/kubepods/burstable/podx/" + a + "\n", "", []string{a}},
		"cgroup v2 in the host's namespace": {"", "0::/system.slice/docker-" + a + ".scope\n", "", []string{a}},
		"longer or shorter hex is no id":    {"", "5:memory:/docker/" + a + "00\n4:cpu:/docker/" + a[:62] + "\n", "", nil},
		"a hostname like an id":             {"", "0::/\n", a[:12], []string{a[:12]}},
		"a hostname only nearly like one":   {"", "0::/\n", strings.ToUpper(a[:12]), nil},
		"all, the surest first": {
			"61 50 8:1 /d/containers/" + a + "/hosts /etc/hosts rw - ext4 /dev/sda rw\n", "3:cpu:/docker/" + b + "\n", "0123456789ab",
			[]string{a, b, "0123456789ab"},
		},
		"torn lines": {"61 50\n\n/etc/hostname\n", "::\n:\ngarbage\n", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			proc := procOf(t, map[string]string{"mountinfo": tc.mountinfo, "cgroup": tc.cgroup})
			got := candidates(proc, func() (string, error) { return tc.hostname, nil })
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// insideOf makes p believe that reaperd runs in that container.
func insideOf(t *testing.T, p *Provider, id string) {
	t.Helper()
	p.self = newSelf(procOf(t, map[string]string{"cgroup": "3:cpu:/docker/" + id + "\n"}), noHostname)
}

func TestReaperdsOwnContainersAreKnownAndNeverTouched(t *testing.T) {
	enginetest.Each(t, reaperdsOwnContainersAreKnownAndNeverTouched)
}

func reaperdsOwnContainersAreKnownAndNeverTouched(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	joins := func(network, pid string) func(*container.Config, *container.HostConfig) {
		return func(_ *container.Config, h *container.HostConfig) {
			if network != "" {
				h.NetworkMode = container.NetworkMode("container:" + network)
			}
			h.PidMode = container.PidMode(pid)
		}
	}
	pod := e.Run(t, enginetest.Options{Name: "pod"})
	own := e.Run(t, enginetest.Options{Adjust: joins("pod", "")}) // by name, as people do
	sibling := e.Run(t, enginetest.Options{Adjust: joins(pod, "")})
	watcher := e.Run(t, enginetest.Options{Adjust: joins("", "container:"+own)})
	stranger := e.Run(t, enginetest.Options{Adjust: joins("", "host")})

	open := func() *Provider {
		p := openAt(t, proxy.Host())
		insideOf(t, p, own)
		return p
	}
	all := mustList(t, open())
	for name, tc := range map[string]struct {
		id   string
		self bool
	}{
		"its own": {own, true}, "the one whose network it joined": {pod, true}, "another that joined it": {sibling, true},
		"one in its PID namespace": {watcher, true}, "a stranger in the host's": {stranger, false},
	} {
		if got := all[tc.id].Self; got != tc.self {
			t.Errorf("%s: List says self %v", name, got)
		}
		p := open()
		sb := mustGet(t, p, tc.id)
		if sb.Self != tc.self {
			t.Errorf("%s: Get says self %v", name, sb.Self)
		}
		if !tc.self {
			continue
		}
		for _, says := range []bool{true, false} { // whatever the caller believes
			sb.Self = says
			for _, o := range []providers.StopOptions{{Action: providers.ActionStop}, {Action: providers.ActionRemove}, {Action: providers.ActionRemove, Grace: time.Second}} {
				if err := p.Stop(within(t), sb, o); !errors.Is(err, providers.ErrUnsupported) {
					t.Errorf("%s: %s gave %v", name, o.Action, err)
				}
			}
		}
	}
	if got := paths(proxy.Mutations()); len(got) != 0 {
		t.Errorf("it touched %v", got)
	}
}

func TestWhileItDoesNotKnowItselfItStopsNothing(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	own, other := e.Run(t, enginetest.Options{}), e.Run(t, enginetest.Options{})
	insideOf(t, p, own)
	proxy.Hook(on("GET", own+"/json", enginetest.Answer(http.StatusInternalServerError, `{"message":"sick"}`)))
	all := mustList(t, p)
	if !all[own].Self || all[own].State != providers.StateUnknown {
		t.Errorf("its own, unreadable: %+v", all[own])
	}
	stop := providers.StopOptions{Action: providers.ActionStop}
	if err := p.Stop(within(t), all[other], stop); !errors.Is(err, providers.ErrUnavailable) || len(proxy.Mutations()) != 0 {
		t.Errorf("Stop gave %v after %v", err, paths(proxy.Mutations()))
	}
	proxy.Hook(nil)
	if err := p.Stop(within(t), all[other], stop); err != nil {
		t.Errorf("now that it is known: %v", err)
	}
}

func TestAHostnameIsOnesOwnIDOnlyIfTheEngineAgrees(t *testing.T) {
	e := enginetest.Shared(t)
	usual := e.Run(t, enginetest.Options{})
	named := e.Run(t, enginetest.Options{Adjust: func(c *container.Config, _ *container.HostConfig) { c.Hostname = "chosen" }})
	for id, want := range map[string]bool{usual: true, named: false} {
		p := openAt(t, e.Host())
		p.self = newSelf(fstest.MapFS{}, func() (string, error) { return id[:12], nil })
		if sb := mustGet(t, p, id); sb.Self != want {
			t.Errorf("hostname %s of container %s: self %v, want %v", id[:12], short(id), sb.Self, want)
		}
	}
}
