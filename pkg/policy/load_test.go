package policy_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reaperd/reaperd/internal/strictyaml"
	"github.com/reaperd/reaperd/pkg/policy"
)

// TestBadFilesAreRefusedWithTheirExactMessage holds testdata/bad/NAME.yaml
// against NAME.txt beside it; -update writes the latter.
func TestBadFilesAreRefusedWithTheirExactMessage(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d bad files, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			set, warnings, err := policy.Load([]policy.File{{Name: name + ".yaml", Data: data}}, known)
			if set != nil || warnings != nil {
				t.Errorf("a bad file gave %v and %v", set, warnings)
			}
			if _, ok := errors.AsType[strictyaml.Faults](err); !ok {
				t.Fatalf("error of type %T: %v", err, err)
			}
			golden := strings.TrimSuffix(path, ".yaml") + ".txt"
			got := err.Error() + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllFaultsOfAllFilesAreTold(t *testing.T) {
	_, _, err := policy.Load([]policy.File{
		{Name: "b.yaml", Data: []byte(rules("match: {}, limits: {max_age: 1d}"))},
		{Name: "empty.yaml"},
		{Name: "a.yaml", Data: []byte("version: 1\npolicies:\n  - {name: p0, match: {everything: true}, limits: {max_age: 5}}\n")},
	}, known)
	want := `a.yaml:3:12: policies[0].name: "p0" already names the policy at b.yaml:3
a.yaml:3:61: policies[0].limits.max_age: "5" has no unit: write 5s, 5m or 5h for seconds, minutes or hours
b.yaml:3:23: policies[0].match: is empty: fill it or remove the key
empty.yaml: the file is empty`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestFilesFormOneSetInTheirOrder(t *testing.T) {
	s, warnings, err := policy.Load([]policy.File{
		{Name: "z.yaml", Data: []byte(rules("match: {everything: true}, limits: {max_age: 1d}"))},
		{Name: "a.yaml", Data: []byte("version: 1\nprotect: [{names: [keep]}]\n")},
		{Name: "b.yaml", Data: []byte(strings.ReplaceAll(rules("match: {everything: true}, limits: {max_age: 1d}"), "p0", "q0"))},
	}, known)
	if err != nil || warnings != nil {
		t.Fatal(warnings, err)
	}
	if p := s.Policies(); len(p) != 2 || p[0].Source != "z.yaml:3" || p[1].Source != "b.yaml:3" {
		t.Errorf("%+v", p)
	}
	f := running(func(f *policy.Facts) { f.Name, f.Created = "keep", ago(2*day) })
	if d := s.Evaluate(f, now); d.Reason != policy.Protected {
		t.Errorf("a protection of one file does not bind the policies of another: %+v", d)
	}
}

func TestAProviderNobodyConfiguredIsAWarning(t *testing.T) {
	text := `version: 1
protect:
  - {providers: [prod]}
policies:
  - name: a
    match: {everything: true, providers: [dev, lcoal]}
    unless: [{providers: [local]}, {providers: [elsewhere]}]
    limits: {max_age: 1d}
`
	files := []policy.File{{Name: "p.yaml", Data: []byte(text)}}
	_, warnings, err := policy.Load(files, known)
	want := []string{
		`p.yaml:3:18: protect[0].providers[0]: no provider is called "prod" (known here: dev, local)`,
		`p.yaml:6:48: policies[0].match.providers[1]: no provider is called "lcoal": did you mean "local"?`,
		`p.yaml:7:49: policies[0].unless[1].providers[0]: no provider is called "elsewhere" (known here: dev, local)`,
	}
	if diff := cmp.Diff(want, warnings); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	if _, warnings, err = policy.Load(files, policy.Known{}); warnings != nil || err != nil {
		t.Errorf("with nothing known: %v, %v", warnings, err)
	}
	if _, warnings, err = policy.Load(files, policy.Known{Providers: []string{}}); len(warnings) != 5 || err != nil {
		t.Errorf("with none configured: %v, %v", warnings, err)
	}
}

func TestALimitThatNothingFeedsIsAWarning(t *testing.T) {
	text := `version: 1
policies:
  - name: a
    match: {everything: true}
    limits: {max_idle: 30m, max_age: 1d}
  - name: b
    match: {everything: true, kinds: [process, docker]}
    limits: {max_idle: 30m}
  - name: c
    match: {everything: true, kinds: [process]}
    limits: {max_idle: 30m, heartbeat: {timeout: 5m}}
`
	const (
		anyone = "p.yaml:5:24: policies[0].limits.max_idle: no configured kind can tell when a sandbox was last active: this limit never acts"
		both   = "p.yaml:8:24: policies[1].limits.max_idle: no configured sandbox of kind process or docker can tell when it was last active: this limit never acts, and the policy has no other"
		one    = "p.yaml:11:24: policies[2].limits.max_idle: no configured sandbox of kind process can tell when it was last active: this limit never acts"
		deaf   = "p.yaml:11:40: policies[2].limits.heartbeat: nothing feeds heartbeats: this limit never acts"
		alone  = ", and the policy has no other"
	)
	for name, tc := range map[string]struct {
		known policy.Known
		want  []string
	}{
		"nothing known":    {policy.Known{}, nil},
		"no kind can tell": {policy.Known{TellsActivity: []string{}}, []string{anyone, both, one}},
		"docker can tell":  {policy.Known{TellsActivity: []string{"docker"}}, []string{one}},
		"nothing is fed":   {policy.Known{TellsActivity: []string{}, Deaf: true}, []string{anyone, both, one + alone, deaf + alone}},
	} {
		_, warnings, err := policy.Load([]policy.File{{Name: "p.yaml", Data: []byte(text)}}, tc.known)
		if diff := cmp.Diff(tc.want, warnings); diff != "" || err != nil {
			t.Errorf("%s: %v, (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestPauseNeedsKindsThatCan(t *testing.T) {
	const some, any = "match: {everything: true, kinds: [docker]}, limits: {max_age: 1d}, action: {type: pause}", "match: {everything: true}, limits: {max_age: 1d}, action: {type: pause}"
	for name, tc := range map[string]struct {
		body string
		can  []string
		want string
	}{
		"nothing known":       {any, nil, ""},
		"can":                 {some, []string{"docker"}, ""},
		"cannot":              {some, []string{"fake"}, "p.yaml:3:50: policies[0].match.kinds[0]: kind docker cannot pause, and these can: fake"},
		"all kinds, some can": {any, []string{"docker"}, "p.yaml:3:81: policies[0].action.type: not every kind can pause: give match kinds of docker"},
		"none can":            {some, []string{}, "p.yaml:3:98: policies[0].action.type: no kind that is built in can pause"},
	} {
		_, _, err := policy.Load([]policy.File{{Name: "p.yaml", Data: []byte(rules(tc.body))}}, policy.Known{Pauses: tc.can})
		if got := strings.TrimPrefix(fmt.Sprint(err), "<nil>"); got != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestEditorsMarksAreTaken(t *testing.T) {
	text := "\ufeff" + strings.ReplaceAll(rules("match: {everything: true}, limits: {max_age: 1d}"), "\n", "\r\n")
	if got := load(t, text).Policies(); len(got) != 1 || got[0].Source != "p.yaml:3" {
		t.Errorf("%+v", got)
	}
}
