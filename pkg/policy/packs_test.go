package policy_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
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
// was created and started, and came to its state, age ago.
func TestShippedPolicies(t *testing.T) {
	const (
		managed = "praisonai_docker_0123456789ab"
		exec    = "praisonai-0b54a9a1-6f4e-4c0e-9d6a-0123456789ab"
	)
	isManaged, isExec := tags("praisonai", "managed", "instance_id", "docker_0123456789ab"), tags("praisonai", "sandbox-exec")
	also := func(more ...string) map[string]string {
		m := maps.Clone(isManaged)
		maps.Copy(m, tags(more...))
		return m
	}
	ofTest := func(more ...string) map[string]string {
		m := tags("org.testcontainers", "true", "org.testcontainers.sessionId", "x")
		maps.Copy(m, tags(more...))
		return m
	}
	ofProject := func(folder string) map[string]string {
		return tags("com.docker.compose.project", "shop", "com.docker.compose.project.working_dir", folder)
	}
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
		"dead":                         {managed, isManaged, providers.StateExited, day, "praisonai-dead", policy.MaxStopped, ""},
		"dead, lately":                 {managed, isManaged, providers.StateDead, 23 * time.Hour, "", policy.WithinLimits, ""},
		"never started":                {managed, isManaged, providers.StateCreated, day, "praisonai-unstarted", policy.MaxAge, ""},
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
		"another's id":                 {"praisonai_docker_00000000000f", isManaged, providers.StateRunning, 9 * day, "", policy.Unmatched, "praisonai-renamed"},
		"another's id, dead":           {"praisonai_docker_00000000000f", isManaged, providers.StateExited, 9 * day, "", policy.Unmatched, ""},
		"another's id, never started":  {"praisonai_docker_00000000000f", isManaged, providers.StateCreated, 9 * day, "", policy.Unmatched, ""},
		"no id":                        {managed, tags("praisonai", "managed"), providers.StateRunning, 9 * day, "", policy.Unmatched, "praisonai-renamed"},
		"suspended":                    {managed, isManaged, providers.StateSuspended, 9 * day, "", policy.WithinLimits, ""},
		"exec without a label":         {exec, tags("x", "y"), providers.StateRunning, 15 * time.Minute, "", policy.Unmatched, "praisonai-exec-unlabelled"},
		"exec, another label":          {exec, tags("praisonai", "x"), providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"exec, labels not read":        {exec, nil, providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"a tool":                       {"praisonai-browser-1", tags(), providers.StateRunning, 4 * time.Hour, "", policy.Unmatched, "praisonai-tools"},
		"no tool":                      {"my-praisonai-sbx-1", tags(), providers.StateRunning, 4 * time.Hour, "", policy.Unmatched, ""},
		"a longer name":                {managed + "c", isManaged, providers.StateRunning, 9 * day, "", policy.Unmatched, "praisonai-renamed"},
		"labels could not be read":     {managed, nil, providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"managed, but protected":       {managed, also("reaperd.protect", "true"), providers.StateRunning, 9 * day, "", policy.Protected, ""},
		"protected in other words":     {managed, also("reaperd.protect", "false"), providers.StateRunning, 9 * day, "praisonai-managed", policy.MaxUptime, ""},

		"ttl over":                {"a", tags("reaperd.ttl", "2h"), providers.StateRunning, 2 * time.Hour, "ttl", policy.TTLTag, ""},
		"ttl not over":            {"a", tags("reaperd.ttl", "2h"), providers.StateRunning, 119 * time.Minute, "", policy.WithinLimits, ""},
		"ttl too long":            {"a", tags("reaperd.ttl", "52w"), providers.StateRunning, day, "ttl", policy.MaxAge, ""},
		"ttl malformed":           {"a", tags("reaperd.ttl", "soon"), providers.StateRunning, 23 * time.Hour, "", policy.WithinLimits, ""},
		"ttl malformed, old":      {"a", tags("reaperd.ttl", "soon"), providers.StateRunning, day, "ttl", policy.MaxAge, ""},
		"ttl, exited":             {"a", tags("reaperd.ttl", "2h"), providers.StateExited, 9 * day, "", policy.WithinLimits, ""},
		"ttl longer than managed": {managed, also("reaperd.ttl", "1d"), providers.StateRunning, 4 * time.Hour, "praisonai-managed", policy.MaxUptime, ""},

		"expired":               {"a", tags("reaperd.expires-at", "2026-03-14T12:00:00Z"), providers.StateRunning, time.Hour, "expires-at", policy.ExpiresTag, ""},
		"not expired":           {"a", tags("reaperd.expires-at", "2026-03-14T12:00:01Z"), providers.StateRunning, time.Hour, "", policy.WithinLimits, ""},
		"expires too late":      {"a", tags("reaperd.expires-at", "2030-01-01T00:00:00Z"), providers.StateRunning, day, "expires-at", policy.MaxAge, ""},
		"expiry malformed":      {"a", tags("reaperd.expires-at", "tomorrow"), providers.StateRunning, 23 * time.Hour, "", policy.WithinLimits, ""},
		"expiry malformed, old": {"a", tags("reaperd.expires-at", "tomorrow"), providers.StateRunning, day, "expires-at", policy.MaxAge, ""},

		"gitlab":           {"runner-1", tags("com.gitlab.gitlab-runner.managed", "true"), providers.StateRunning, 6 * time.Hour, "", policy.Unmatched, "ci-gitlab-runner"},
		"gitlab, young":    {"runner-1", tags("com.gitlab.gitlab-runner.managed", "true"), providers.StateRunning, 5 * time.Hour, "", policy.Unmatched, ""},
		"test":             {"postgres", ofTest(), providers.StateRunning, 3 * time.Hour, "", policy.Unmatched, "testcontainers-leftovers"},
		"test, young":      {"postgres", ofTest(), providers.StateRunning, 2 * time.Hour, "", policy.Unmatched, ""},
		"ryuk":             {"x", ofTest("org.testcontainers.ryuk", "true"), providers.StateRunning, 9 * day, "", policy.Protected, ""},
		"reaper":           {"x", ofTest("org.testcontainers.reaper", "true"), providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"ryuk by name":     {"testcontainers-ryuk-1f2e", ofTest(), providers.StateRunning, 9 * day, "", policy.Protected, ""},
		"ryuk of go":       {"reaper_1f2e", ofTest(), providers.StateRunning, 9 * day, "", policy.Protected, ""},
		"test, reused":     {"x", ofTest("org.testcontainers.hash", "1f2e"), providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"test, reusable":   {"x", ofTest("org.testcontainers.reuse", "true"), providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"test, reuse.hash": {"x", ofTest("org.testcontainers.reuse.hash", "1f2e"), providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"test, reuse-hash": {"x", ofTest("org.testcontainers.reuse-hash", "1f2e"), providers.StateRunning, 9 * day, "", policy.Unmatched, ""},
		"project of a job": {"shop-db-1", ofProject("/builds/acme/shop"), providers.StateExited, 6 * time.Hour, "", policy.Unmatched, "compose-leftovers"},
		"github's":         {"shop-db-1", ofProject("/home/runner/work/shop/shop"), providers.StateRunning, 6 * time.Hour, "", policy.Unmatched, "compose-leftovers"},
		"own runner's":     {"shop-db-1", ofProject("/opt/actions-runner/_work/shop"), providers.StateRunning, 6 * time.Hour, "", policy.Unmatched, "compose-leftovers"},
		"jenkins's":        {"shop-db-1", ofProject("/var/jenkins_home/workspace/shop"), providers.StateRunning, 6 * time.Hour, "", policy.Unmatched, "compose-leftovers"},
		"project, young":   {"shop-db-1", ofProject("/builds/acme/shop"), providers.StateRunning, 5 * time.Hour, "", policy.Unmatched, ""},
		"somebody's":       {"shop-db-1", ofProject("/home/ann/builds/shop"), providers.StateRunning, 90 * day, "", policy.Unmatched, ""},
		"production":       {"shop-db-1", ofProject("/srv/shop"), providers.StateRunning, 90 * day, "", policy.Unmatched, ""},

		"ci":               {"a", tags("reaperd.ci", "4711", "owner", "ann"), providers.StateRunning, 6 * time.Hour, "ci-leftovers", policy.MaxAge, ""},
		"ci, exited":       {"a", tags("reaperd.ci", "", "owner", "ann"), providers.StateExited, 6 * time.Hour, "ci-leftovers", policy.MaxAge, ""},
		"ci, young":        {"a", tags("reaperd.ci", "4711", "owner", "ann"), providers.StateRunning, 5 * time.Hour, "", policy.WithinLimits, ""},
		"ci, nobody's":     {"a", tags("reaperd.ci", "4711"), providers.StateRunning, 10 * time.Minute, "", policy.WithinLimits, "ci-owner"},
		"ci, nobody's yet": {"a", tags("reaperd.ci", "4711"), providers.StateRunning, 9 * time.Minute, "", policy.WithinLimits, ""},
		"not ci":           {"ci-1", tags("ci", "true"), providers.StateRunning, 90 * day, "", policy.Unmatched, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := running(func(f *policy.Facts) {
				f.Name, f.Tags, f.State, f.Image = tc.name, tc.tags, tc.state, "postgres:17"
				f.Created, f.Started = ago(tc.age), ago(tc.age)
				f.Pulse.FirstSeen, f.Pulse.StateSince = ago(tc.age), ago(tc.age)
			})
			d := s.Evaluate(f, now)
			if want := tc.policy != ""; (d.Verdict == policy.Reclaim) != want || d.Reason != tc.reason || want && d.Policy != tc.policy {
				t.Errorf("%+v", d)
			}
			if d.Verdict == policy.Reclaim && d.Policy != "ttl" && d.Policy != "expires-at" && d.Action != remove {
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
	if got := s.Policies(); len(got) != 14 {
		t.Errorf("%d policies are shipped, the table above knows 14", len(got))
	}
}

// TestRyukIsKnownByItsImage: by whatever name and registry it was pulled, and
// where the image cannot be told it may be Ryuk.
func TestRyukIsKnownByItsImage(t *testing.T) {
	s := packs(t)
	for image, shadows := range map[string]int{
		"testcontainers/ryuk:0.14.0": 0, "docker.io/testcontainers/ryuk:0.11": 0, "registry.example/testcontainers/ryuk:1": 0,
		"testcontainers/ryuk@sha256:00": 0, "sha256:00": 0, "": 0,
		"postgres:17": 1, "acme/ryuk:1": 1,
	} {
		f := running(func(f *policy.Facts) {
			f.Image, f.Tags, f.Created = image, tags("org.testcontainers", "true"), ago(day)
		})
		if d := s.Evaluate(f, now); len(d.Shadows) != shadows {
			t.Errorf("%q: %+v", image, d)
		}
	}
}

// TestShippedFilesNameTheirSchema: editors find it by this line.
func TestShippedFilesNameTheirSchema(t *testing.T) {
	paths, err := filepath.Glob(packsDir + "/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(data), "# yaml-language-server: $schema=../policies.schema.json\n") {
			t.Errorf("%s does not begin with the line that names its schema", path)
		}
	}
}
