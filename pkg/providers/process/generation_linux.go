package process

import (
	"fmt"
	"slices"
)

// generation is what is remembered of a sandbox from one look to the next, so
// that it keeps its age when the member it began with ends. The zero value
// remembers nothing.
type generation struct {
	first    process   // the oldest member when it was first seen: names the generation
	created  uint64    // the oldest start ever seen
	living   []process // when last seen, in order of age
	fleeting bool      // none of them outlived the look
}

// knows says whether any remembered member is among these.
func (g generation) knows(members []member) bool {
	return slices.ContainsFunc(members, func(m member) bool {
		_, known := slices.BinarySearchFunc(g.living, m.process, process.compare)
		return known
	})
}

// next is the generation of the members that are there now, oldest first: the
// same one as long as any remembered member is still among them. When none is,
// somebody has used the id again, save where look after look finds only
// processes that do not outlive it: that is one sandbox which forks and exits
// in a loop, and would otherwise always be too young and never the one judged.
func (g generation) next(members []member, fleeting bool) generation {
	now := make([]process, len(members))
	for i := range members {
		now[i] = members[i].process
	}
	if same := g.knows(members) || g.fleeting && fleeting; !same {
		g = generation{first: now[0], created: now[0].start}
	}
	g.created = min(g.created, now[0].start)
	g.living, g.fleeting = now, fleeting
	return g
}

// revision is the same from every provider that first saw the generation with
// the same oldest member.
func (g generation) revision(boot string) string {
	return fmt.Sprintf("%s-%d-%d", boot, g.first.start, g.first.pid)
}
