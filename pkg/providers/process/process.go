// Package process is the kind that needs no engine: a sandbox is every local
// process of one user whose environment carries the same REAPERD_SANDBOX=<id>.
// Children inherit the environment, so members are found wherever they
// double-fork to. It works on Linux.
package process

import "github.com/reaperd/reaperd/pkg/providers"

// Name is what `kind:` says in the configuration.
const Name = "process"

// parallel is how many sandboxes may be reclaimed at once: each costs little
// but waits out its own grace.
const parallel = 16

// Settings has no keys: the kind looks at the whole process table.
type Settings struct{}

// Kind describes the kind to the registry.
func Kind() providers.Kind {
	return providers.Define(Name, parallel, Settings{},
		func(name string, _ Settings) (providers.Provider, error) { return open(name) },
		func(func(string) string) bool { return available })
}
