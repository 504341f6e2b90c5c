//go:build !linux

package process

import (
	"fmt"
	"runtime"

	"github.com/reaperd/reaperd/pkg/providers"
)

const available = false

func open(name string) (providers.Provider, error) {
	return nil, fmt.Errorf("provider %s: kind %s needs Linux, this is %s: %w",
		name, Name, runtime.GOOS, providers.ErrUnsupported)
}
