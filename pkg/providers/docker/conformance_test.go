package docker

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/providertest"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv("DOCKERTEST_STDIO"); socket != "" {
		os.Exit(dialStdio(socket))
	}
	enginetest.Main(m)
}

func TestConformance(t *testing.T) { enginetest.Each(t, conformance) }

func conformance(t *testing.T, e *enginetest.Engine) {
	providertest.Run(t, func(t *testing.T) providertest.Fixture {
		return providertest.Fixture{
			Provider: openAt(t, e.Host()),
			Name:     "engine",
			Actions:  []providers.Action{providers.ActionStop, providers.ActionRemove, providers.ActionPause},
			Start: func(t *testing.T, tags map[string]string) string {
				return e.Run(t, enginetest.Options{Labels: tags})
			},
			Vanish: func(t *testing.T, id string) { e.Remove(t, id) },
		}
	})
}

// patience is how long a test waits for what must happen.
const patience = time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// openAt gives a provider as the daemon would have it.
func openAt(t *testing.T, host string) *Provider {
	t.Helper()
	return openBy(t, Settings{Host: host})
}

func openBy(t *testing.T, s Settings) *Provider {
	t.Helper()
	p, err := Kind().New("engine", &s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.(*Provider).Close() })
	return p.(*Provider)
}

func mustList(t *testing.T, p *Provider) map[string]providers.Sandbox {
	t.Helper()
	all, err := p.List(within(t))
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	byID := make(map[string]providers.Sandbox, len(all))
	for _, sb := range all {
		byID[sb.ID] = sb
	}
	return byID
}

func mustGet(t *testing.T, p *Provider, id string) providers.Sandbox {
	t.Helper()
	sb, err := p.Get(within(t), id)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return sb
}

func mustStop(t *testing.T, p *Provider, id string, o providers.StopOptions) {
	t.Helper()
	if err := p.Stop(within(t), mustGet(t, p, id), o); err != nil {
		t.Fatalf("Stop: %v", err)
	}
}

// until asks again and again until cond says yes.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx := within(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

// on gives a hook that answers requests of that method whose path ends so.
func on(method, suffix string, answer http.HandlerFunc) enginetest.Hook {
	return func(r enginetest.Request) http.HandlerFunc {
		if r.Method == method && strings.HasSuffix(r.Path, suffix) {
			return answer
		}
		return nil
	}
}

// paths gives the requests as text.
func paths(requests []enginetest.Request) []string {
	all := make([]string, len(requests))
	for i, r := range requests {
		all[i] = r.String()
	}
	return all
}
