package main

import (
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reaperd/reaperd/pkg/providers/all"
)

// version is set by the linker: make build takes it from git.
var version = "unknown"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the kinds built in",
		Args:  noArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			cmd.Printf("reaperd %s (%s, %s/%s)\nkinds: %s\n", version, runtime.Version(),
				runtime.GOOS, runtime.GOARCH, strings.Join(all.Registry().Names(), ", "))
		},
	}
}
