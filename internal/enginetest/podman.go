package enginetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// podman runs Podman's Docker-compatible service (podman system service).
//
// Podman is no daemon: its containers live on when the service ends, each under
// a conmon of its own. So the service is started below a shell that is the init
// of a PID namespace, and the kernel ends everything in there when the shell
// goes, however this process died. It has mounts and a network of its own too,
// and an empty /run: a Podman of the machine and its containers stay unseen.
var podman = kind{
	name:    "podman",
	program: func() (string, error) { return program("podman") },
	command: podmanCommand,
	orphans: false, // the kernel has ended them
}

// supervisor is the init of a Podman's namespace. The first loop obeys Up and
// Down, until this process closes its end of the pipe or dies. The shell itself
// waits for that, and by that collects what lost its parent: Podman takes a
// conmon that nobody collected for one that runs.
const supervisor = `
mount -t proc proc /proc && mount -t tmpfs tmpfs /run || exit 1
exec 4<&0
{ while read -r word; do
	case $word in
	up) "$@" </dev/null & service=$! ;;
	down) kill $service; wait $service ;;
	esac
done; } <&4 4<&- &
wait`

func podmanCommand(binary string, d *dir) (*exec.Cmd, error) {
	sh, err := shell()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(d.path("containers.conf"), []byte(containersConf(d)), 0o600); err != nil {
		return nil, err
	}
	driver := "overlay"
	if onOverlay(d.root) {
		driver = "vfs"
	}
	cmd := exec.Command(sh, "sh", "-c", supervisor, "supervisor", binary,
		"--root", d.path("data"),
		"--runroot", d.path("exec"),
		"--tmpdir", d.path("tmp"),
		"--storage-driver", driver,
		"--cgroup-manager", "cgroupfs",
		"--events-backend", "file",
		"system", "service", "--time=0", "unix://"+d.path("docker.sock"))
	cmd.Env = append(cmd.Env, "CONTAINERS_CONF="+d.path("containers.conf"), "TMPDIR="+d.root)
	cmd.SysProcAttr = inItsOwnWorld()
	return cmd, nil
}

// containersConf takes the place of the machine's own configuration. Podman
// would raise its containers' limits to 1048576 open files, which sandboxes
// forbid, and keeps its locks in a file that all Podmans of a machine share.
func containersConf(d *dir) string {
	return fmt.Sprintf(`[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[network]
network_config_dir = %q
[engine]
lock_type = "file"
`, d.path("networks"))
}

// StartPodman is Start for Podman. Down and Up end and start its service alone:
// containers outlive that, as they do where systemd runs it.
func StartPodman(tb testing.TB) *Engine {
	tb.Helper()
	return startFor(tb, podman)
}

// SharedPodman is Shared for Podman: the package's second engine.
func SharedPodman(tb testing.TB) *Engine {
	tb.Helper()
	return sharedOf(tb, podman)
}

// Each runs the test once on the shared Docker engine and once on the shared
// Podman.
func Each(t *testing.T, test func(t *testing.T, e *Engine)) {
	t.Helper()
	t.Run("docker", func(t *testing.T) { test(t, Shared(t)) })
	t.Run("podman", func(t *testing.T) { test(t, SharedPodman(t)) })
}

// EachAlone is Each with engines that belong to this test alone.
func EachAlone(t *testing.T, test func(t *testing.T, e *Engine)) {
	t.Helper()
	t.Run("docker", func(t *testing.T) { test(t, Start(t)) })
	t.Run("podman", func(t *testing.T) { test(t, StartPodman(t)) })
}

// IsPodman says whether the engine is a Podman, for what the two do differently.
func (e *Engine) IsPodman() bool { return e.kind.name == podman.name }

// clearControlGroups removes those that containers of a killed Podman left. A
// frozen process does not even die under control groups v1, so those thaw.
func (d *dir) clearControlGroups() {
	for _, c := range d.containers() {
		left, _ := filepath.Glob("/sys/fs/cgroup/*/libpod_parent/*" + c + "*")
		more, _ := filepath.Glob("/sys/fs/cgroup/libpod_parent/*" + c + "*")
		for _, group := range append(left, more...) {
			if strings.Contains(group, "/freezer/") {
				_ = os.WriteFile(filepath.Join(group, "freezer.state"), []byte("THAWED"), 0)
			}
			_ = os.Remove(group)
		}
	}
}
