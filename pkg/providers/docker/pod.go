package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"

	"github.com/docker/docker/api/types/container"
)

// ownerPod is the Owner of the containers on which a whole pod of Podman's
// depends: its infra container, which holds the namespaces that the others share,
// and the service container of "play kube". Podman takes them away with the pod.
// Stopped alone, an infra container cuts its pod off, and to remove one Podman
// 4.3.1 refuses. The labels of a pod are those of its infra container too, so a
// policy may well select it. Whoever else is in a pod is a container like any.
const ownerPod = "pod"

var (
	// How Podman names the control group of a pod: with cgroupfs, with systemd.
	podGroup = regexp.MustCompile(`libpod_parent/[0-9a-f]{64}$|libpod_pod_[0-9a-f]{64}\.slice`)
	// How it names such containers, unless somebody chose another name.
	podHolder = regexp.MustCompile(`^/[0-9a-f]{12}-(infra|service)$`)
)

// holdsPod says whether a pod depends on the container. Docker's API has no
// word for that, so Podman's own is asked about containers of a pod (GET
// /libpod/containers/{id}/json). Where a proxy keeps that from us, the name decides.
func (p *Provider) holdsPod(ctx context.Context, c container.InspectResponse) bool {
	named := podHolder.MatchString(c.Name)
	if !byPodman(c) || !named && !podGroup.MatchString(c.HostConfig.CgroupParent) {
		return false
	}
	holds, failed := call(ctx, p.conn, func(ctx context.Context, l *liveClient) (bool, error) {
		return l.holdsPod(ctx, c.ID)
	})
	if failed != nil {
		return named
	}
	return holds
}

func (l *liveClient) holdsPod(ctx context.Context, id string) (bool, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.base+"/v4.0.0/libpod/containers/"+id+"/json", http.NoBody)
	if err != nil {
		return false, err
	}
	resp, err := l.http.Do(r)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return false, errors.New(resp.Status)
	}
	var c struct{ IsInfra, IsService bool }
	// Labels and the like may be long, but not endless.
	err = json.NewDecoder(io.LimitReader(resp.Body, 8<<20)).Decode(&c)
	return c.IsInfra || c.IsService, err
}
