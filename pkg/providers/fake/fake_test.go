package fake_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/fake"
	"github.com/reaperd/reaperd/pkg/providers/providertest"
)

func TestConformance(t *testing.T) {
	providertest.Run(t, func(*testing.T) providertest.Fixture {
		p := fake.New("memory")
		started := 0
		return providertest.Fixture{
			Provider: p,
			Name:     "memory",
			Actions:  []providers.Action{providers.ActionStop, providers.ActionRemove, providers.ActionPause},
			Start: func(_ *testing.T, tags map[string]string) string {
				started++
				id := fmt.Sprintf("sandbox-%d", started)
				at := time.Date(2026, 11, 30, 12, 0, started, 0, time.UTC)
				p.Put(providers.Sandbox{
					Ref: providers.Ref{ID: id}, State: providers.StateRunning, Tags: tags,
					Created: at, Started: at, Revision: "1",
				})
				return id
			},
			Vanish: func(_ *testing.T, id string) { p.Delete(id) },
		}
	})
}
