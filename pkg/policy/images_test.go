package policy_test

import (
	"strings"
	"testing"

	"github.com/reaperd/reaperd/pkg/policy"
)

func TestImagesSelectByFamiliarName(t *testing.T) {
	id := strings.Repeat("0a1b2c3d", 8)
	pinned := "@sha256:" + id
	for glob, items := range map[string]struct{ hit, miss, unsure string }{
		"python": {
			hit:    "python python:latest docker.io/library/python docker.io/python index.docker.io/library/python:latest library/python python:latest" + pinned,
			miss:   "python:3 mypython pythonx acme/python ghcr.io/python localhost:5000/python PYTHON python:Latest ghcr.io/library/python",
			unsure: "python" + pinned,
		},
		"docker.io/library/python:latest": {hit: "python docker.io/library/python", miss: "python:3"},
		"python:*": {
			hit:  "python python:3.12 docker.io/library/python:3 python:3" + pinned + " python" + pinned,
			miss: "python-evil:3 acme/python:3 acme/python" + pinned,
		},
		"python:3*":               {hit: "python:3 python:3.12-slim", miss: "python python:2.7", unsure: "python" + pinned},
		"acme/*:*":                {hit: "acme/tool acme/tool:1 docker.io/acme/tool", miss: "acme/tools/x ghcr.io/acme/tool acmex/tool acme"},
		"acme/tool-?":             {hit: "acme/tool-1 acme/tool-1:latest", miss: "acme/tool- acme/tool-12 acme/tool-1:2"},
		"ghcr.io/acme/*":          {hit: "ghcr.io/acme/tool", miss: "ghcr.io/acme/tool:1 ghcr.io/acme/a/b docker.io/ghcr.io"},
		"localhost:5000/*":        {hit: "localhost:5000/x", miss: "localhost:5001/x localhost:5000/x/y x"},
		"localhost:5000/*:latest": {hit: "localhost:5000/x localhost:5000/x:latest", miss: "localhost:5000/x:1"},
		"py[23]:*":                {hit: "py2 py3:x", miss: "py4 py"},
		"deadbeefcafe0:1":         {hit: "deadbeefcafe0:1", miss: "deadbeefcafe0"},
		"*/tool:1":                {hit: "acme/tool:1", miss: "tool:1 ghcr.io/acme/tool:1"},
	} {
		hits, spares := load(t, rules("match: {images: ['"+glob+"', never-this]}"+short)), load(t, rules("match: {everything: true}, unless: [{images: ['"+glob+"']}]"+short))
		for image, want := range map[string]policy.Answer{items.hit: policy.Yes, items.miss: policy.No, items.unsure + " sha256:" + id + " " + id + " 0a1b2c3d4e5f": policy.CannotSay} {
			for _, image := range append(strings.Fields(image), map[policy.Answer][]string{policy.CannotSay: {""}}[want]...) {
				f := running(func(f *policy.Facts) { f.Image = image })
				if got := hits.Explain(f, now).Policies[0].Match[0]; got.Answer != want || got.Wants == "" || image != "" && got.Saw == "" {
					t.Errorf("%s of %q: %+v", glob, image, got)
				}
				if got := hits.Evaluate(f, now).Verdict == policy.Reclaim; got != (want == policy.Yes) {
					t.Errorf("match %s reclaims %q: %v", glob, image, got)
				}
				if got := spares.Evaluate(f, now).Verdict == policy.Reclaim; got != (want == policy.No) {
					t.Errorf("unless %s leaves %q to be reclaimed: %v", glob, image, got)
				}
			}
		}
	}
}

// TestOneImageOfSeveralIsEnough: what one pattern cannot say another may.
func TestOneImageOfSeveralIsEnough(t *testing.T) {
	s := load(t, rules("match: {images: ['python:3', 'python:*']}"+short))
	if d := s.Evaluate(running(func(f *policy.Facts) { f.Image = "python@sha256:00" }), now); d.Verdict != policy.Reclaim {
		t.Errorf("%+v", d)
	}
}
