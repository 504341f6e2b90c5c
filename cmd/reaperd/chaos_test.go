package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/store"
)

// chaosRounds and chaosSeed give from the environment how often the chaos is
// gone through, each time by another seed, and by which seed it begins.
// REAPERD_CHAOS_ROUNDS=20 is for a night, REAPERD_CHAOS_SEED for a story that
// went wrong: it repeats what was drawn, as far as the machine does.
func chaosRounds() int { return int(chaosNumber("REAPERD_CHAOS_ROUNDS", 1)) }

func chaosSeed() uint64 { return chaosNumber("REAPERD_CHAOS_SEED", uint64(time.Now().UnixNano())) }

func chaosNumber(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// chaosKills is how often the daemon is killed in one round; two sandboxes come
// for each.
const chaosKills = 50

const chaosPolicies = `version: 1
protect: [{tags: {reaperd.test: $ID, keep: "yes"}}]
policies:
  - name: slow
    match: {tags: {reaperd.test: $ID, slow: "yes"}}
    limits: {ttl: {tag: reaperd.ttl, max: 1d}}
    action: {type: remove, grace: 1s}
  - name: wishes
    match: {tags: {reaperd.test: $ID}}
    limits: {ttl: {tag: reaperd.ttl, max: 1d}}
    action: {type: remove, grace: 0s}
  - name: watched
    match: {tags: {reaperd.test: $ID, watched: "yes"}}
    limits: {heartbeat: {timeout: 8s, required: true}}
    action: {type: remove, grace: 0s}
`

// TestTheDaemonIsKilledAgainAndAgain kills it with SIGKILL at random instants,
// while sandboxes come and go. Whatever it was in the middle of, nothing wrong
// goes, nothing due stays, and history tells of each reclaim once.
func TestTheDaemonIsKilledAgainAndAgain(t *testing.T) {
	e := enginetest.Shared(t)
	for n, seed := chaosRounds(), chaosSeed(); n > 0; n, seed = n-1, seed+1 {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Logf("REAPERD_CHAOS_SEED=%d repeats this", seed)
			goThroughChaos(t, e, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func goThroughChaos(t *testing.T, e *enginetest.Engine, r *rand.Rand) {
	t.Helper()
	p := enginetest.NewProxy(t, e)
	l := newLedger(p)
	s := newScene(t, chaosPolicies, dockerAt("dev", p.Host())+"brake: {min_count: 1000}\n")
	s.rewrite(t, "reaperd.yaml", strings.Replace(s.configuration(t), "level: debug", "level: info", 1))
	socket := s.onSocket(t)
	state := store.DSN(s.remembering(t))

	b := beatOn(t, socket)
	b.also("/api/v1/leases/held?ttl=10s", "/api/v1/leases/released?ttl=10s")
	f := newFleet(r, 2*chaosKills)
	f.beating = func(id string) { b.also("/api/v1/sandboxes/dev/" + id + "/heartbeat") }
	come := make(chan struct{}, 2*chaosKills)
	arrived := f.arrive(t, s, e, come)
	for range chaosKills {
		come <- struct{}{}
		come <- struct{}{}
		d := start(t, nil, nil, "run", "-c", s.file)
		l.strike(r)
		d.signal(t, syscall.SIGKILL)
		if code := d.wait(t); code != -1 {
			t.Fatalf("it ended by itself, with %d", code)
		}
	}
	d := s.daemon(t)
	arrived()
	b.without("/api/v1/leases/released?ttl=10s")
	if status, body := ask(t, "POST", socket, "/api/v1/leases/released/release", ""); status != 200 {
		t.Errorf("release: %d %s", status, body)
	}
	until(t, "all that is due is gone", func() bool {
		there := e.IDs(t)
		return !slices.ContainsFunc(f.guests, func(m *guest) bool { return m.fate != lives && there[m.id] })
	})
	d.scans(t, "dev", 2)
	for series, v := range d.metrics(t) {
		if strings.HasPrefix(series, "reaperd_leaked_sandboxes{") && v != 0 {
			t.Errorf("%s is %v", series, v)
		}
	}
	d.stop(t)
	f.judge(t, e, l, readHistory(t, state))
}

func readHistory(t testing.TB, dsn string) map[string][]store.Entry {
	t.Helper()
	r, err := store.Read(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.History(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	by := map[string][]store.Entry{}
	for _, e := range slices.Backward(all) { // the oldest first
		by[e.SandboxID] = append(by[e.SandboxID], e)
	}
	return by
}

// judge compares what became of every sandbox with what was to.
func (f *fleet) judge(t *testing.T, e *enginetest.Engine, l *ledger, history map[string][]store.Entry) {
	t.Helper()
	told := map[string]int{}
	for _, m := range f.guests {
		asked, rows := l.of(m.id), history[m.id]
		outcomes := map[string]int{}
		for _, row := range rows {
			outcomes[outcomeWord(row)]++
			if row.Outcome == "failed" && row.Error != "reaperd ended before its outcome was known" {
				t.Errorf("%s %s failed: %s", m.role, m.id[:12], row.Error)
			}
		}
		wrong := func(what string) { t.Errorf("%s %s: %s; asked %v, history %v", m.role, m.id[:12], what, asked, rows) }
		if m.fate == lives || m.fate == leaves {
			if len(asked)+len(rows) > 0 {
				wrong("reaperd took it on")
			}
			if m.fate == lives && !e.Inspect(t, m.id).State.Running {
				wrong("it does not run")
			}
			continue
		}
		if len(asked) > 0 && asked[0].Before(m.notBefore) {
			wrong("it was not due before " + m.notBefore.String())
		}
		if outcomes["begun"] > 0 || outcomes["reclaimed"] > 1 {
			wrong("not told once")
		}
		if outcomes["reclaimed"] == 0 && m.fate == goes {
			wrong("not told as reclaimed")
		}
		told[string(m.fate)+" as reclaimed"] += outcomes["reclaimed"]
		told["as failed, since its outcome was not known"] += outcomes["failed"]
	}
	for _, what := range slices.Sorted(maps.Keys(told)) {
		t.Logf("told %s: %d", what, told[what])
	}
}
