package docker

import (
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/reaperd/reaperd/pkg/providers"
)

// fullID is how the engine names a container for good. Names and short ids can
// come to mean another one.
var fullID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// errUnreadable says that an inspect's answer lacks what every container has.
var errUnreadable = errors.New("the answer lacks the container's state or configuration")

// complete says whether c has all the parts that are read from it. The Docker
// client gives nil for those that an answer lacks.
func complete(c container.InspectResponse) error {
	if c.ContainerJSONBase == nil || c.State == nil || c.Config == nil {
		return errUnreadable
	}
	return nil
}

// byPodman says whether it is Podman that gave an inspect: whatever the runtime,
// it says oci (libpod/container_inspect.go), where Docker names one of its own.
func byPodman(c container.InspectResponse) bool {
	return c.HostConfig != nil && c.HostConfig.Runtime == "oci"
}

// sandbox says what a complete inspect (GET /containers/{id}/json) means,
// apart from what takes memory or knowledge of reaperd itself: PausedSince and
// Self.
func sandbox(provider string, c container.InspectResponse) providers.Sandbox {
	sb := providers.Sandbox{
		Ref:      providers.Ref{Provider: provider, ID: c.ID},
		Kind:     Name,
		Name:     ownName([]string{c.Name}),
		Image:    c.Config.Image,
		Endpoint: endpoint(c.ID),
		RawState: c.State.Status,
		State:    stateOf(c.State.Status),
		Tags:     tags(c.Config.Labels),
		Created:  parseTime(c.Created),
		Owner:    ownerOf(c.Config.Labels),
		// RestartCount counts the engine's own restarts alone. Docker 20.10 raises
		// it before it waits to start the container again, moves StartedAt with each
		// start, keeps it when it gives up, and sets it back to 0 when somebody else
		// starts the container or the engine itself was restarted. So a higher count
		// belongs to the same run, and so does the same one after a wait in restarting.
		Restarts: max(0, c.RestartCount),
	}
	sb.Revision = revision(sb.Created)
	if sb.State != providers.StateCreated {
		sb.Started = parseTime(c.State.StartedAt)
	}
	if sb.State.Ended() {
		sb.Ended = parseTime(c.State.FinishedAt)
	}
	sb.Extra = map[string]string{providers.ExtraInstanceID: instanceID(sb)}
	return sb
}

// unread says what the list alone tells of a container whose inspect failed.
// known is what an earlier inspect told of it, if there was one: what cannot
// change about a container is kept from it.
func unread(provider string, s container.Summary, known *providers.Sandbox) providers.Sandbox {
	sb := providers.Sandbox{
		Ref:      providers.Ref{Provider: provider, ID: s.ID},
		Kind:     Name,
		Name:     ownName(s.Names),
		Endpoint: endpoint(s.ID),
		RawState: s.State,
		State:    providers.StateUnknown,
		Tags:     tags(s.Labels),
		Owner:    ownerOf(s.Labels),
	}
	if known != nil {
		sb.Image, sb.Created, sb.Revision, sb.Self = known.Image, known.Created, known.Revision, known.Self
	} else if !strings.HasPrefix(s.Image, "sha256:") { // which the list shows once a tag has moved on
		sb.Image = s.Image
	}
	sb.Extra = map[string]string{providers.ExtraInstanceID: instanceID(sb)}
	return sb
}

// stateOf maps the engine's words for a container's state, and the words that
// Podman has besides (libpod/define/containerstate.go). Of these Podman 4.3.1
// shows stopping in lists and inspects, and stopped in lists alone.
func stateOf(status string) providers.State {
	switch status {
	case container.StateCreated, "configured", "initialized":
		return providers.StateCreated
	case container.StateRunning, "stopping":
		// A container whose stop was lost, since Podman's service ended during it,
		// says stopping for ever and runs on. It can be stopped once more.
		return providers.StateRunning
	case container.StatePaused: // State.Running is true as well
		return providers.StatePaused
	case container.StateRestarting: // between two runs of a crash loop
		return providers.StateStarting
	case container.StateRemoving:
		return providers.StateChanging
	case container.StateExited, "stopped":
		return providers.StateExited
	case container.StateDead:
		return providers.StateDead
	default:
		return providers.StateUnknown
	}
}

// ownName picks a container's own name out of its names: "/name", and
// "/other/alias" for each link that another container has to it.
func ownName(names []string) string {
	for _, n := range names {
		if n = strings.TrimPrefix(n, "/"); n != "" && !strings.Contains(n, "/") {
			return n
		}
	}
	return ""
}

func endpoint(id string) string { return Name + "://" + short(id) }

func short(id string) string { return id[:min(12, len(id))] }

func tags(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}

// ownerOf names the controller that would replace the container. Swarm labels
// its tasks' containers with the task's id, the kubelet its own with the pod's.
// Podman's units for systemd (quadlets, generate systemd) bear their unit's name.
func ownerOf(labels map[string]string) string {
	switch {
	case labels["com.docker.swarm.task.id"] != "", labels["com.docker.swarm.task"] != "",
		labels["com.docker.swarm.service.id"] != "":
		return "swarm"
	case labels["io.kubernetes.pod.uid"] != "":
		return "kubernetes"
	case labels["PODMAN_SYSTEMD_UNIT"] != "":
		return "systemd"
	default:
		return ""
	}
}

// revision is the time of creation: the engine never uses an id again.
func revision(created time.Time) string {
	if created.IsZero() {
		return ""
	}
	return created.Format(time.RFC3339Nano)
}

// praisonAIPrefix is what PraisonAI puts before its instance ids to name a container.
const praisonAIPrefix = "praisonai_"

// instanceID is the id that people know a sandbox by.
func instanceID(sb providers.Sandbox) string {
	if id := sb.Tags["instance_id"]; id != "" {
		return id
	}
	if id, found := strings.CutPrefix(sb.Name, praisonAIPrefix); found && id != "" {
		return id
	}
	return Name + "_" + short(sb.ID)
}

// parseTime reads one of the engine's times. Zero, cannot say, is what it makes
// of "0001-01-01T00:00:00Z" (never), of garbage, and of years in which no
// engine ran or will run.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return plausible(t)
}

// plausible gives t in UTC, or zero if no engine can have meant it.
func plausible(t time.Time) time.Time {
	if t.Year() < 2000 || t.Year() >= 9000 {
		return time.Time{}
	}
	return t.UTC()
}
