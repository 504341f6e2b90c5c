package process

import "testing"

func TestGeneration(t *testing.T) {
	at := func(starts ...uint64) []member {
		var ms []member
		for _, s := range starts {
			ms = append(ms, member{process: process{start: s, pid: int(s)}})
		}
		return ms
	}
	type look struct {
		members  []member
		fleeting bool
		first    uint64 // what names the generation
		created  uint64
	}
	for _, tc := range []struct {
		name  string
		looks []look
	}{
		{"stays while one lives", []look{{at(10), false, 10, 10}, {at(10, 20), false, 10, 10}, {at(20), false, 10, 10}, {at(20, 30), false, 10, 10}}},
		{"is new when none lives", []look{{at(10, 20), false, 10, 10}, {at(30), false, 30, 30}}},
		{"remembers who was there last", []look{{at(10, 20), false, 10, 10}, {at(20), false, 10, 10}, {at(11), false, 11, 11}}},
		{"an older one joins", []look{{at(20), false, 20, 20}, {at(10, 20), false, 20, 10}, {at(20), false, 20, 10}}},
		{"a loop of forks is one", []look{{at(10), true, 10, 10}, {at(20), true, 10, 10}, {at(30), true, 10, 10}}},
		{"a loop that comes to rest is another", []look{{at(10), true, 10, 10}, {at(20), false, 20, 20}}},
		{"a rest that becomes a loop is another", []look{{at(10), false, 10, 10}, {at(20), true, 20, 20}, {at(30), true, 20, 20}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var g generation
			for i, l := range tc.looks {
				g = g.next(l.members, l.fleeting)
				if g.first.start != l.first || g.created != l.created {
					t.Errorf("look %d: named by %d, created %d; want %d, %d", i, g.first.start, g.created, l.first, l.created)
				}
			}
		})
	}
}

// Two processes of one clock tick are told apart, and so are two boots.
func TestRevision(t *testing.T) {
	g := generation{first: process{10, 1}}
	if g.revision("boot") == (generation{first: process{10, 2}}).revision("boot") || g.revision("boot") == g.revision("other") {
		t.Error("one revision for two generations")
	}
}
