// Package all is the list of kinds that reaperd is built with: one line each.
package all

import (
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/docker"
	"github.com/reaperd/reaperd/pkg/providers/process"
)

// Registry gives a registry of every kind.
func Registry() *providers.Registry {
	return providers.NewRegistry(
		docker.Kind(),
		process.Kind(),
	)
}
