package policy_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

const packsDir = "../../configs/policies"

// packs loads all that is shipped as one set, as an installation does.
func packs(t *testing.T) *policy.Set {
	t.Helper()
	paths, err := filepath.Glob(packsDir + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var files []policy.File
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, policy.File{Name: filepath.Base(path), Data: data})
	}
	// Nobody has configured a provider by any name that we could ship.
	s, warnings, err := policy.Load(files, policy.Known{Kinds: known.Kinds, Providers: []string{}})
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	return s
}

// TestShippedPolicies shows what each shipped policy does to a sandbox that
// was created and started age ago.
func TestShippedPolicies(t *testing.T) {
	const (
		managed = "praisonai_docker_0123456789ab"
		exec    = "praisonai-0b54a9a1-6f4e-4c0e-9d6a-0123456789ab"
	)
	isManaged, isExec := tags("praisonai", "managed", "instance_id", "docker_0123456789ab"), tags("praisonai", "sandbox-exec")
	remove := providers.StopOptions{Action: providers.ActionRemove, Grace: 10 * time.Second, Volumes: true}
	s := packs(t)
	for name, tc := range map[string]struct {
		name   string
		tags   map[string]string
		state  providers.State
		age    time.Duration
		policy string // the one that reclaims; "": kept
		reason policy.Reason
		shadow string
	}{
		"managed, at its limit":        {managed, isManaged, providers.StateRunning, 4 * time.Hour, "praisonai-managed", policy.MaxUptime, ""},
		"managed, before":              {managed, isManaged, providers.StateRunning, 4*time.Hour - 1, "", policy.WithinLimits, ""},
		"managed, paused":              {managed, isManaged, providers.StatePaused, 4 * time.Hour, "praisonai-managed", policy.MaxUptime, ""},
		"managed, crash loop":          {managed, isManaged, providers.StateStarting, 4 * time.Hour, "praisonai-managed", policy.MaxUptime, ""},
		"managed, being stopped":       {managed, isManaged, providers.StateChanging, day, "", policy.InTransition, ""},
		"managed, could not be read":   {managed, isManaged, providers.StateUnknown, day, "", policy.InTransition, ""},
		"dead":                         {managed, isManaged, providers.StateExited, day, "praisonai-dead", policy.MaxAge, ""},
		"dead, lately":                 {managed, isManaged, providers.StateDead, 23 * time.Hour, "", policy.WithinLimits, ""},
		"never started":                {managed, isManaged, providers.StateCreated, day, "praisonai-dead", policy.MaxAge, ""},
		"just created":                 {managed, isManaged, providers.StateCreated, 5 * time.Hour, "", policy.WithinLimits, ""},
		"exec":                         {exec, isExec, providers.StateRunning, 15 * time.Minute, "praisonai-exec", policy.MaxUptime, ""},
		"exec, before":                 {exec, isExec, providers.StateRunning, 14 * time.Minute, "", policy.WithinLimits, ""},
		"exec, lying around":           {exec, isExec, providers.StateExited, day, "praisonai-exec", policy.MaxAge, ""},
		"renamed":                      {"mine", isManaged, providers.StateRunning, 9 * day, "", policy.Unmatched, "praisonai-renamed"},
		"renamed, lately":              {"mine", isManaged, providers.StateRunning, time.Hour, "", policy.Unmatched, ""},
		"from a committed image":       {"praisonai_docker_web", isManaged, providers.StateRunning, 9 * day, "", policy.Unmatched, "praisonai-renamed"},
		"from a committed image, dead": {"web", isManaged, providers.StateExited, 9 * day, "", policy.Unmatched, ""},
		"nameless":                     {"", isManaged, providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"the name without the label":   {managed, tags(), providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"the name, other value":        {managed, tags("praisonai", "Managed"), providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"a user's redis":               {"praisonai-redis", tags("app", "redis"), providers.StateRunning, 90 * day, "", policy.Unmatched, ""},
		"a longer name":                {managed + "c", isManaged, providers.StateRunning, 9 * day, "", policy.Unmatched, "praisonai-renamed"},
		"labels could not be read":     {managed, nil, providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"managed, but protected":       {managed, tags("praisonai", "managed", "reaperd.protect", "true"), providers.StateRunning, 9 * day, "", policy.Protected, ""},
		"protected in other words":     {managed, tags("praisonai", "managed", "reaperd.protect", "false"), providers.StateRunning, 9 * day, "praisonai-managed", policy.MaxUptime, ""},

		"ttl over":                {"a", tags("reaperd.ttl", "2h"), providers.StateRunning, 2 * time.Hour, "ttl", policy.TTLTag, ""},
		"ttl not over":            {"a", tags("reaperd.ttl", "2h"), providers.StateRunning, 119 * time.Minute, "", policy.WithinLimits, ""},
		"ttl too long":            {"a", tags("reaperd.ttl", "52w"), providers.StateRunning, day, "ttl", policy.MaxAge, ""},
		"ttl malformed":           {"a", tags("reaperd.ttl", "soon"), providers.StateRunning, 23 * time.Hour, "", policy.WithinLimits, ""},
		"ttl malformed, old":      {"a", tags("reaperd.ttl", "soon"), providers.StateRunning, day, "ttl", policy.MaxAge, ""},
		"ttl, exited":             {"a", tags("reaperd.ttl", "2h"), providers.StateExited, 9 * day, "", policy.WithinLimits, ""},
		"ttl longer than managed": {managed, tags("praisonai", "managed", "reaperd.ttl", "1d"), providers.StateRunning, 4 * time.Hour, "praisonai-managed", policy.MaxUptime, ""},

		"ci":               {"a", tags("reaperd.ci", "4711", "owner", "ann"), providers.StateRunning, 6 * time.Hour, "ci-leftovers", policy.MaxAge, ""},
		"ci, exited":       {"a", tags("reaperd.ci", "", "owner", "ann"), providers.StateExited, 6 * time.Hour, "ci-leftovers", policy.MaxAge, ""},
		"ci, young":        {"a", tags("reaperd.ci", "4711", "owner", "ann"), providers.StateRunning, 5 * time.Hour, "", policy.WithinLimits, ""},
		"ci, nobody's":     {"a", tags("reaperd.ci", "4711"), providers.StateRunning, 10 * time.Minute, "", policy.WithinLimits, "ci-owner"},
		"ci, nobody's yet": {"a", tags("reaperd.ci", "4711"), providers.StateRunning, 9 * time.Minute, "", policy.WithinLimits, ""},
		"not ci":           {"ci-1", tags("ci", "true"), providers.StateRunning, 90 * day, "", policy.Unmatched, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := running(func(f *policy.Facts) {
				f.Name, f.Tags, f.State = tc.name, tc.tags, tc.state
				f.Created, f.Started, f.Pulse.FirstSeen = ago(tc.age), ago(tc.age), ago(tc.age)
			})
			d := s.Evaluate(f, now)
			if want := tc.policy != ""; (d.Verdict == policy.Reclaim) != want || d.Reason != tc.reason || want && d.Policy != tc.policy {
				t.Errorf("%+v", d)
			}
			if d.Verdict == policy.Reclaim && d.Policy != "ttl" && d.Action != remove {
				t.Errorf("%+v", d.Action)
			}
			var shadow string
			if len(d.Shadows) > 0 {
				shadow = d.Shadows[0].Policy
			}
			if len(d.Shadows) > 1 || shadow != tc.shadow {
				t.Errorf("shadows %+v", d.Shadows)
			}
		})
	}
	if got := s.Policies(); len(got) != 7 {
		t.Errorf("%d policies are shipped, the table above knows 7", len(got))
	}
}
