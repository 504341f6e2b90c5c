package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/docker/cli/cli/context/store"
)

// defaultContext is the name of the docker context that is none: whatever
// DOCKER_HOST says, or the usual sockets.
const defaultContext = "default"

// contexts are the docker contexts of one account, as `docker context` keeps
// them (docs.docker.com/engine/manage-resources/contexts). They are read by
// docker's own package, which brings two small modules. Its package for the
// rest of ~/.docker would bring the stores of passwords, for one key.
type contexts struct {
	folder string // ~/.docker; "" if it is not known
	named  bool   // by DOCKER_CONFIG, not just somebody's home
	store  *store.ContextStore
}

// dockerEndpoint is where a context has its engine. A context may have
// endpoints of other sorts as well, or only those.
type dockerEndpoint struct {
	Host          string
	SkipTLSVerify bool
}

// endpointName is what an engine's endpoint is called in a context.
const endpointName = "docker"

// contexts looks for them in the environment alone, not in the list of
// accounts: a service without a HOME has no contexts, whoever runs it.
func (env environment) contexts() contexts {
	all := contexts{folder: env.getenv("DOCKER_CONFIG")}
	all.named = all.folder != ""
	if home := env.getenv("HOME"); !all.named && home != "" {
		all.folder = filepath.Join(home, ".docker")
	}
	all.store = store.New(filepath.Join(all.folder, "contexts"), store.NewConfig(
		func() any { return &map[string]any{} },
		store.EndpointTypeGetter(endpointName, func() any { return &dockerEndpoint{} }),
	))
	return all
}

// find gives the place that a context names.
func (c contexts) find(name, origin string) (place, error) {
	if c.folder == "" {
		return place{}, fmt.Errorf("%s: docker context %q cannot be looked up: neither DOCKER_CONFIG nor HOME is set", origin, name)
	}
	meta, err := c.store.GetMetadata(name)
	switch {
	case errdefs.IsNotFound(err):
		return place{}, fmt.Errorf("%s: there is no docker context %q: %s", origin, name, c.thereIs())
	case err != nil:
		return place{}, fmt.Errorf("%s: read docker context %q: %s", origin, name, clip(err.Error()))
	}
	endpoint, _ := meta.Endpoints[endpointName].(dockerEndpoint)
	if endpoint.Host == "" {
		return place{}, fmt.Errorf("%s: docker context %q names no engine: %s", origin, name, c.thereIs())
	}
	if err := checkAddress(endpoint.Host, fmt.Sprintf("%s: docker context %q", origin, name)); err != nil {
		return place{}, err
	}
	p := place{address: endpoint.Host, via: name}
	folder := filepath.Join(c.store.GetStorageInfo(name).TLSPath, endpointName)
	_, err = os.Stat(folder)
	if strings.HasPrefix(p.address, "tcp://") && (err == nil || endpoint.SkipTLSVerify) {
		p.tls = tlsIn(folder, fmt.Sprintf("docker context %q", name))
		// A context need not bring each of the files, and trusts no other CA
		// than its own.
		p.tls.optional, p.tls.onlyCA, p.tls.unchecked = true, true, endpoint.SkipTLSVerify
	}
	return p, nil
}

// thereIs says which contexts could have been named instead.
func (c contexts) thereIs() string {
	names := []string{defaultContext}
	list, err := c.store.List()
	if err != nil {
		return "those in " + c.folder + " cannot be listed: " + clip(err.Error())
	}
	for _, meta := range list {
		if e, ok := meta.Endpoints[endpointName].(dockerEndpoint); ok && e.Host != "" {
			names = append(names, meta.Name)
		}
	}
	return "in " + c.folder + " there is " + clip(strings.Join(names, ", "))
}

// current gives the name of the current context, which `docker context use`
// sets, or says why there is none. It is an error where a choice may have been
// made that cannot be read.
func (c contexts) current() (name, without string, err error) {
	if c.folder == "" {
		return "", "neither DOCKER_CONFIG nor HOME is set", nil
	}
	path := filepath.Join(c.folder, "config.json")
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "", path + " is absent", nil
	case errors.Is(err, fs.ErrPermission) && !c.named:
		// A HOME that reaperd may not look into is somebody else's, who chose
		// nothing for it.
		return "", path + ": " + bare(err).Error(), nil
	}
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		return "", "", fmt.Errorf("the current docker context is not known: %s: %s: write host or context, or mend the file", path, clip(bare(err).Error()))
	}
	if config.CurrentContext == "" || config.CurrentContext == defaultContext {
		return "", saidOr(config.CurrentContext, "none") + " in " + path, nil
	}
	return config.CurrentContext, "", nil
}
