package simulation_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var withMutants = flag.Bool("sim.mutants", false, "break the safety rules one at a time, and see that the stories tell")

// mutant is the product with one safety rule broken: a text of one file, which
// has to be there exactly once, replaced by another.
type mutant struct{ rule, file, is, becomes string }

var mutants = []mutant{
	{
		"whoever is to be stopped is looked at again", "pkg/scan/reclaim.go",
		"again, err := s.get(ctx, it.Facts.ID)", "again, err := it.Facts.Sandbox, error(nil)",
	}, {
		"whoever is no longer due is spared", "pkg/scan/reclaim.go",
		"	if d.Verdict != policy.Reclaim {\n		if s.retries",
		"	if d.Verdict != policy.Reclaim {\n		d = it.Decision\n	}\n	if false {\n		if s.retries",
	}, {
		"a list that failed takes back the one before", "pkg/scan/scanner.go",
		"	s.agenda = agenda{}\n", "	_ = agenda{}\n",
	}, {
		"not too many go at once", "pkg/scan/brake.go",
		"len(b.begun) < limit", "limit >= 0",
	}, {
		"what an earlier daemon began is verified", "pkg/scan/history.go",
		"	if len(s.orphans) == 0 {\n", "	if s != nil {\n",
	}, {
		"an intent is written before the stop", "pkg/scan/reclaim.go",
		"intent := s.intend(ctx, it, told)", "_ = told\n	intent := (*store.Entry)(nil)",
	}, {
		"an accepted stop is no end", "pkg/scan/reclaim.go",
		"proof := s.prove(ctx, sb, it.Decision.Action.Action)", "proof := error(nil)",
	}, {
		"what changes is left alone", "pkg/policy/states.go",
		"endedStates | setOf(providers.StateCreated)", "endedStates | setOf(providers.StateCreated, providers.StateChanging)",
	}, {
		"what cannot be said does not match", "pkg/policy/evaluate.go",
		"if a := r.applies(f, &looked); a != yes {", "if a := r.applies(f, &looked); a == no {",
	}, {
		"who is protected is kept", "pkg/policy/evaluate.go",
		"g := s.protection(f, &looked, now)", "g := guard{origin: origin{now: now}}",
	}, {
		"whoever slept has heard nothing", "pkg/scan/guard.go",
		"if g.watching && gap > lateTicks*g.tick {", "if g.watching && gap < 0 {",
	}, {
		"a step of the clock makes nothing due at once", "pkg/scan/guard.go",
		"return m.step > 0 && due.After(m.now.Add(-m.step))", "return m.step < 0 && due.IsZero()",
	}, {
		"an empty list makes nothing young", "pkg/scan/pulses.go",
		"	p.lists++\n", "	p.lists++\n	if len(seen) == 0 {\n		clear(p.kept)\n	}\n",
	}, {
		"a sick provider is left alone", "pkg/scan/health.go",
		"if h.degraded || len(h.late) < sickAfter {", "if h.late != nil || len(h.late) < sickAfter {",
	}, {
		"a dry run changes nothing", "pkg/scan/lane.go",
		"r.target.Provider = providers.DryRun(s.real)", "_ = providers.DryRun(s.real)",
	},
}

// mutantSeeds is how many stories a mutant may survive.
const mutantSeeds = 60

// TestMutants breaks the safety rules. It takes a minute, and is run by make
// simulate: elsewhere it has nothing to say.
func TestMutants(t *testing.T) {
	if !*withMutants {
		return
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.rule, " ", "-"), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			told := m.run(t, root)
			failed := regexp.MustCompile(`seed (\d+) .*:\n +(.*)`).FindStringSubmatch(told)
			if failed == nil {
				t.Fatalf("survives %d stories, or is none:\n%s", mutantSeeds, told)
			}
			t.Logf("caught in %s by story %s: %.200s", time.Since(began).Round(time.Second), failed[1], failed[2])
		})
	}
}

// run tells stories of the mutant, and gives what came of it.
func (m mutant) run(t *testing.T, root string) string {
	t.Helper()
	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.is); n != 1 {
		t.Fatalf("%s has %d times what was to be broken, want once: has the code moved on?\n%s", m.file, n, m.is)
	}
	dir := t.TempDir()
	broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	write(t, broken, []byte(strings.Replace(string(source), m.is, m.becomes, 1)))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, replace)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-overlay", overlay, "-run", "^TestStories$",
		"./pkg/scan/simulation", "-sim.seeds="+strconv.Itoa(mutantSeeds))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "it passes"
	}
	return string(out)
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
