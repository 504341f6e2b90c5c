package docker

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestProbeTellsAWedgedEngineThatStillAnswersPings(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	if err := p.Probe(within(t)); err != nil {
		t.Fatalf("a fit engine: %v", err)
	}
	if got := paths(proxy.Requests()); !slices.Equal(got, []string{"GET /networks"}) {
		t.Errorf("it asked %v", got)
	}
	proxy.Hook(on("GET", "/networks", enginetest.Hold))
	mustList(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wedged engine: %v; want a deadline", err)
	}
	p.deadlines.probe = 300 * time.Millisecond
	if err := p.Probe(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wedged engine, and no deadline: %v; want its own", err)
	}
	proxy.Hook(nil)
	if err := p.Probe(within(t)); err != nil {
		t.Errorf("fit again: %v", err)
	}
}

func TestProbeAsksForA200AndForNothingElse(t *testing.T) {
	proxy := enginetest.NewProxyTo(t, "/nowhere")
	p := openAt(t, proxy.Host())
	long := `[{"Name":"` + strings.Repeat("x", 4*readAtMost)
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   providers.Cause
	}{
		"networks":       {enginetest.Answer(200, `[]`), ""},
		"something else": {enginetest.Answer(200, `<html>`), ""},
		"more than read": {enginetest.Stall(long), ""},
		"half an answer": {enginetest.Stall(`[`), providers.CauseTimeout},
		"a cut":          {enginetest.Cut, providers.CauseUnavailable},
		"sick":           {enginetest.Answer(500, `{"message":"`+long), providers.CauseUnavailable},
		"no such call":   {enginetest.Answer(404, `{}`), providers.CauseUnavailable},
		"kept from us":   {enginetest.Answer(403, `{}`), providers.CauseDenied},
		"nothing in it":  {enginetest.Answer(204, ``), providers.CauseUnavailable},
		"somewhere else": {http.RedirectHandler("http://example.invalid/", http.StatusFound).ServeHTTP, providers.CauseUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			proxy.Hook(func(r enginetest.Request) http.HandlerFunc {
				if r.Path == "/_ping" {
					return enginetest.Answer(200, "OK")
				}
				return tc.answer
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if tc.want == providers.CauseTimeout {
				ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
			}
			defer cancel()
			err := p.Probe(ctx)
			if got := providers.CauseOf(err); got != tc.want {
				t.Errorf("%v (cause %q), want cause %q", err, got, tc.want)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("%d bytes of error", len(err.Error()))
			}
		})
	}
}

func TestProbeReachesAnEngineByTCP(t *testing.T) {
	var asked []string
	engine := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.URL.Path) }))
	defer engine.Close()
	p := openAt(t, "tcp://"+engine.Listener.Addr().String())
	if err := p.Probe(within(t)); err != nil {
		t.Error(err)
	}
	if want := []string{"/_ping", "/networks"}; !slices.Equal(asked, want) {
		t.Errorf("it asked for %v, want %v", asked, want)
	}
}
