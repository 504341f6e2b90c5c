package process

import (
	"fmt"
	"slices"
)

// generation is what is remembered of a sandbox from one look to the next, so
// that it keeps its age when the member it began with ends. The zero value
// remembers nothing.
type generation struct {
	first   process   // the oldest member when it was first seen: names the generation
	created uint64    // the oldest start ever seen
	living  []process // when last seen
}

// next is the generation of the members that are there now, oldest first: the
// same one as long as any remembered member is still among them. When none is,
// somebody has used the id again.
func (g generation) next(members []member) generation {
	now := make([]process, len(members))
	same := false
	for i := range members {
		now[i] = members[i].process
		_, known := slices.BinarySearchFunc(g.living, now[i], process.compare)
		same = same || known
	}
	if !same {
		return generation{first: now[0], created: now[0].start, living: now}
	}
	g.created = min(g.created, now[0].start)
	g.living = now
	return g
}

// revision is the same from every provider that first saw the generation with
// the same oldest member.
func (g generation) revision(boot string) string {
	return fmt.Sprintf("%s-%d-%d", boot, g.first.start, g.first.pid)
}
