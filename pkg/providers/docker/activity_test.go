package docker

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestWhatCountsAsWork(t *testing.T) {
	const id = "x"
	base := usage{cpu: uint64(time.Second), sent: 1000, received: 1000}
	ms := func(n int) uint64 { return base.cpu + uint64(n)*uint64(time.Millisecond) }
	for name, tc := range map[string]struct {
		after time.Duration
		used  usage
		want  bool
	}{
		"nothing":                         {time.Minute, base, false},
		"a waiting server":                {time.Minute, usage{ms(590), 1000, 1000}, false},
		"more than that":                  {time.Minute, usage{ms(610), 1000, 1000}, true},
		"a burst in a long time":          {time.Hour, usage{ms(610), 1000, 1000}, true},
		"as little, in a long time":       {time.Hour, usage{ms(590), 1000, 1000}, false},
		"next to nothing, in an instant":  {time.Millisecond, usage{ms(1), 1000, 1000}, false},
		"much, in an instant":             {time.Millisecond, usage{ms(11), 1000, 1000}, true},
		"what the kernel answers":         {time.Minute, usage{base.cpu, 1256, 5096}, false},
		"an answer of its own":            {time.Minute, usage{base.cpu, 1257, 1000}, true},
		"something sent to it":            {time.Minute, usage{base.cpu, 1000, 5097}, true},
		"another run":                     {time.Minute, usage{base.cpu - 1, 1000, 1000}, true},
		"another run, by what it sent":    {time.Minute, usage{base.cpu, 999, 1000}, true},
		"another run, by what came to it": {time.Minute, usage{base.cpu, 1000, 999}, true},
	} {
		a, now := newActivity(), time.Now()
		if !a.works(id, base, now) {
			t.Errorf("%s: nobody knows what it did before, and it counts as idle", name)
		}
		a.sampled(id, base, true, now)
		if got := a.works(id, tc.used, now.Add(tc.after)); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestWhenItWasLastActive(t *testing.T) {
	began := time.Now()
	at := began.Add
	event := func(action events.Action) events.Message {
		return events.Message{Type: events.ContainerEventType, Action: action, Actor: events.Actor{ID: "x"}}
	}
	for name, tc := range map[string]struct {
		do   func(a *activity)
		want time.Time
	}{
		"since the first sample":      {func(*activity) {}, began},
		"a busy sample":               {func(a *activity) { a.sampled("x", usage{}, true, at(time.Minute)) }, at(time.Minute)},
		"an idle sample":              {func(a *activity) { a.sampled("x", usage{}, false, at(time.Minute)) }, began},
		"a failed sample":             {func(a *activity) { a.missed("x", at(time.Minute)) }, at(time.Minute)},
		"an exec":                     {func(a *activity) { a.hear(event("exec_start: sh -c true"), at(time.Minute)) }, at(time.Minute)},
		"the end of an exec":          {func(a *activity) { a.hear(event("exec_die"), at(time.Minute)) }, at(time.Minute)},
		"an exec of Podman's":         {func(a *activity) { a.hear(event("exec_died"), at(time.Minute)) }, at(time.Minute)},
		"unpaused":                    {func(a *activity) { a.hear(event("unpause"), at(time.Minute)) }, at(time.Minute)},
		"a copy out of it":            {func(a *activity) { a.hear(event("archive-path"), at(time.Minute)) }, at(time.Minute)},
		"a look at its processes":     {func(a *activity) { a.hear(event("top"), at(time.Minute)) }, began},
		"a health check's result":     {func(a *activity) { a.hear(event("health_status: healthy"), at(time.Minute)) }, began},
		"events not heard":            {func(a *activity) { a.deafen() }, time.Time{}},
		"events not heard for a time": {func(a *activity) { a.deafen(); a.listen(at(time.Minute)) }, at(time.Minute)},
		"reaperd not there":           {func(a *activity) { a.listen(began); a.present(at(2 * time.Minute)) }, at(2 * time.Minute)},
		"reaperd there":               {func(a *activity) { a.listen(began); a.present(at(time.Minute)) }, began},
		"there and deaf":              {func(a *activity) { a.deafen(); a.present(at(time.Minute)) }, time.Time{}},
		"gone and there again":        {func(a *activity) { a.hear(event("destroy"), at(time.Minute)) }, at(time.Hour)},
		"not listed for once":         {func(a *activity) { a.keep(nil) }, at(time.Hour)},
		"listed":                      {func(a *activity) { a.keep([]container.Summary{{ID: "x"}}) }, began},
	} {
		a := newActivity()
		a.listen(began.Add(-time.Hour))
		a.sampled("x", usage{}, true, began)
		tc.do(&a)
		if got := a.sampled("x", usage{}, false, at(time.Hour)); !got.Equal(tc.want) {
			t.Errorf("%s: %v after the first sample, want %v", name, got.Sub(began), tc.want.Sub(began))
		}
	}
}

func TestSamplesInAnInstantDoNotHideWork(t *testing.T) {
	a, now := newActivity(), time.Now()
	a.sampled("x", usage{}, true, now)
	var used usage
	for range 20 {
		now = now.Add(100 * time.Millisecond)
		used.cpu += uint64(5 * time.Millisecond)
		busy := a.works("x", used, now)
		a.sampled("x", used, busy, now)
		if busy {
			return
		}
	}
	t.Error("a twentieth of a core went unseen")
}

// activeAt samples a container at once.
func activeAt(t *testing.T, p *Provider, id string) time.Time {
	t.Helper()
	at, err := p.Activity(within(t), mustGet(t, p, id))
	if err != nil {
		t.Fatalf("Activity: %v", err)
	}
	return at
}

// idleFor is for how long a container is looked at until a test believes that
// it is idle.
const idleFor = 3 * time.Second

func TestWhoIsIdleAndWhoIsNot(t *testing.T) { enginetest.Each(t, whoIsIdleAndWhoIsNot) }

func whoIsIdleAndWhoIsNot(t *testing.T, e *enginetest.Engine) {
	p := openAt(t, e.Host())
	idle := e.Run(t, enginetest.Options{})
	if at := activeAt(t, p, idle); !at.IsZero() {
		t.Errorf("nobody listens, and it was active %v", at)
	}
	watch(t, e, p)
	// Through this one nobody seems to use any processor time, so that execs are
	// known by themselves.
	proxy := enginetest.NewProxy(t, e)
	proxy.Hook(on("GET", "/stats", enginetest.Answer(200, `{"cpu_stats":{"cpu_usage":{"total_usage":1000}}}`)))
	still := openAt(t, proxy.Host())
	watch(t, e, still)
	cases := []struct {
		what, id string
		by       *Provider
	}{
		{"burning", e.Run(t, enginetest.Options{Cmd: sh("while :; do :; done")}), p},
		{"with execs now and then", e.Run(t, enginetest.Options{}), still},
		{"with an exec that runs", e.Run(t, enginetest.Options{}), still},
	}
	e.Exec(t, cases[2].id, "sleep", "86400")
	first := activeAt(t, p, idle)
	var round time.Time
	for began := time.Now(); time.Since(began) < idleFor; <-time.After(idleFor / 4) {
		round = time.Now()
		for _, tc := range cases {
			activeAt(t, tc.by, tc.id)
		}
		e.Exec(t, cases[1].id, "true")
	}
	if at := activeAt(t, p, idle); at.Sub(first).Abs() > time.Second {
		t.Errorf("asleep, it was active %v after the first sample", at.Sub(first))
	}
	for _, tc := range cases {
		if at := activeAt(t, tc.by, tc.id); at.Before(round.Add(-time.Second/2)) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("%s: last active %v before the last round", tc.what, round.Sub(at))
		}
	}
}

func TestAHealthCheckIsNobodysWork(t *testing.T) {
	e := enginetest.Shared(t)
	proxy := enginetest.NewProxy(t, e)
	proxy.Hook(on("GET", "/stats", enginetest.Answer(200, `{"cpu_stats":{"cpu_usage":{"total_usage":1000}}}`)))
	p := openAt(t, proxy.Host())
	w := watch(t, e, p)
	checked := func(test ...string) string {
		return e.Run(t, enginetest.Options{Adjust: func(c *container.Config, _ *container.HostConfig) {
			c.Healthcheck = &container.HealthConfig{Test: test, Interval: time.Second}
		}})
	}
	for what, id := range map[string]string{"in a shell": checked("CMD-SHELL", "true"), "by itself": checked("CMD", "echo", "a b")} {
		activeAt(t, p, id)
		activeAt(t, p, id) // which reads what its health check is
		work := func() work {
			p.activity.mu.Lock()
			defer p.activity.mu.Unlock()
			return *p.activity.byID[id]
		}
		until(t, "a check has begun", func() bool { return work().checking != "" })
		first := work()
		until(t, "some more have", func() bool { return work().checking != first.checking })
		if last := work().last; last.After(first.last.Add(time.Second / 2)) {
			t.Errorf("%s: its checks made it active %v later", what, last.Sub(first.last))
		}
		e.Exec(t, id, "true")
		until(t, "somebody's work is heard of", func() bool { return work().last.After(first.last.Add(time.Second / 2)) })
	}
	w.stop()
}

func TestAfterBlindnessTheClockStartsAnew(t *testing.T) {
	enginetest.EachAlone(t, afterBlindnessTheClockStartsAnew)
}

func afterBlindnessTheClockStartsAnew(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	id := e.Run(t, enginetest.Options{})
	w := watch(t, e, p)
	first := activeAt(t, p, id)
	<-time.After(1500 * time.Millisecond)
	if again := activeAt(t, p, id); again.Sub(first).Abs() > time.Second {
		t.Errorf("idle, it was active %v later", again.Sub(first))
	}
	w.stop()
	if err := <-w.ended; err != nil {
		t.Errorf("Watch ended with %v", err)
	}
	if at := activeAt(t, p, id); !at.IsZero() {
		t.Errorf("nobody listens any more, and it was active %v", at)
	}
	back := time.Now()
	watch(t, e, p)
	if at := activeAt(t, p, id); at.Before(back.Add(-100 * time.Millisecond)) {
		t.Errorf("what happened in %v nobody knows, and it counts as idle", back.Sub(at))
	}
}

func TestASampleThatFailsIsNoIdleness(t *testing.T) {
	id := strings.Repeat("ab", 32)
	inspected := `{"Id":"` + id + `","Created":"2026-01-01T00:00:00Z","State":{"Status":"running"},"Config":{},"ExecIDs":["e"]}`
	const idle = `{"cpu_stats":{"cpu_usage":{"total_usage":1000}}}`
	proxy := enginetest.NewProxyTo(t, "/nowhere")
	p := openAt(t, proxy.Host())
	p.deadlines.sample = 300 * time.Millisecond
	began := time.Now()
	now := began
	p.now = func() time.Time { return now }
	p.activity.listen(began)
	undated := func(answer http.HandlerFunc) http.HandlerFunc { // the date is not by the test's clock
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Date"] = nil
			answer(w, r)
		}
	}
	answer := func(stats, exec http.HandlerFunc) {
		proxy.Hook(func(r enginetest.Request) http.HandlerFunc {
			switch {
			case r.Path == "/_ping":
				return undated(enginetest.Answer(200, "OK"))
			case strings.HasSuffix(r.Path, "/stats"):
				return undated(stats)
			case strings.HasPrefix(r.Path, "/exec/"):
				return undated(exec)
			default:
				return undated(enginetest.Answer(200, inspected))
			}
		})
	}
	over := enginetest.Answer(200, `{"Running":false}`)
	ask := func() (time.Time, error) {
		now = now.Add(time.Minute)
		return p.Activity(within(t), providers.Sandbox{Ref: providers.Ref{ID: id}})
	}
	for name, tc := range map[string]struct {
		stats, exec http.HandlerFunc
		want        providers.Cause
	}{
		"forbidden":             {enginetest.Answer(403, `{}`), over, providers.CauseDenied},
		"sick":                  {enginetest.Answer(500, `{}`), over, providers.CauseUnavailable},
		"wedged":                {enginetest.Hold, over, providers.CauseTimeout},
		"no sense":              {enginetest.Answer(200, `<html>`), over, providers.CauseUnavailable},
		"not counted":           {enginetest.Answer(200, `{"cpu_stats":{}}`), over, providers.CauseUnsupported},
		"execs are not told of": {enginetest.Answer(200, idle), enginetest.Answer(500, `{}`), providers.CauseUnavailable},
	} {
		answer(enginetest.Answer(200, idle), over)
		first, err := ask()
		if err != nil {
			t.Fatal(name, err)
		}
		if again, err := ask(); err != nil || again.After(first.Add(30*time.Second)) {
			t.Fatalf("%s: idle, and active %v later, %v", name, again.Sub(first), err)
		}
		answer(tc.stats, tc.exec)
		if at, err := ask(); !at.IsZero() || providers.CauseOf(err) != tc.want {
			t.Errorf("%s: %v, %v; want cause %s", name, at, err, tc.want)
		}
		failed := now
		answer(enginetest.Answer(200, idle), over)
		if at, err := ask(); err != nil || at.Before(failed.Add(-2*time.Second)) {
			t.Errorf("%s: it counts as idle for %v before, %v", name, failed.Sub(at), err)
		}
		p.activity.keep(nil)
	}
	answer(enginetest.Answer(200, idle), enginetest.Answer(200, `{"Running":true}`))
	if _, err := ask(); err != nil {
		t.Fatal(err)
	}
	if at, err := ask(); err != nil || at.Before(now.Add(-2*time.Second)) {
		t.Errorf("with an exec that runs: active %v ago, %v", now.Sub(at), err)
	}
	answer(enginetest.Answer(200, idle), enginetest.Answer(404, `{}`))
	last := now
	if at, err := ask(); err != nil || at.After(last.Add(2*time.Second)) {
		t.Errorf("with an exec that is over: active %v ago, %v", now.Sub(at), err)
	}
}
