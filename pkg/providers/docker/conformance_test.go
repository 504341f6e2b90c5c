package docker_test

import (
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/docker"
	"github.com/reaperd/reaperd/pkg/providers/providertest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func TestConformance(t *testing.T) {
	e := enginetest.Shared(t)
	providertest.Run(t, func(t *testing.T) providertest.Fixture {
		return providertest.Fixture{
			Provider: openAt(t, e.Host()),
			Name:     "engine",
			Actions:  []providers.Action{providers.ActionStop, providers.ActionRemove},
			Start: func(t *testing.T, tags map[string]string) string {
				return e.Run(t, enginetest.Options{Labels: tags})
			},
			Vanish: func(t *testing.T, id string) { e.Remove(t, id) },
		}
	})
}

func openAt(t *testing.T, host string) *docker.Provider {
	t.Helper()
	p, err := docker.New("engine", docker.Settings{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}
