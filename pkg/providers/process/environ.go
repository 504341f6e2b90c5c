package process

import (
	"bytes"
	"strings"
)

// What a process says of itself in its environment.
var (
	sandboxVariable = []byte("REAPERD_SANDBOX=")
	tagsVariable    = []byte("REAPERD_TAGS=")
)

// lookup finds the value of a variable, given with its '=', in an environment
// block. Of two it takes the first, as getenv(3) does.
func lookup(block, variable []byte) (value []byte, ok bool) {
	for from := 0; ; {
		i := bytes.Index(block[from:], variable)
		if i < 0 {
			return nil, false
		}
		at := from + i
		from = at + len(variable)
		if at == 0 || block[at-1] == 0 {
			value, _, _ = bytes.Cut(block[from:], []byte{0})
			return value, true
		}
	}
}

// tagSet is the union of its members' tags.
type tagSet struct {
	tags map[string]string
	// disputed is the first key that was given two values; "" if none was.
	disputed string
}

// add takes up a list `k=v,k2=v2`. An entry without '=' is a tag with value "",
// space around keys and values does not count, and an entry without a key is
// passed over. A value that is already there stays, so the oldest member is
// added first.
func (s *tagSet) add(list string) {
	for entry := range strings.SplitSeq(list, ",") {
		k, v, _ := strings.Cut(entry, "=")
		k, v = clean(k), clean(v)
		if k == "" {
			continue
		}
		had, ok := s.tags[k]
		switch {
		case !ok:
			s.tags[k] = v
		case had != v && s.disputed == "":
			s.disputed = k
		}
	}
}

// clean makes text of what may be any bytes, so that a tag is the same in the
// policy that judges it and in the JSON and SQL that record it.
func clean(s string) string {
	return strings.ToValidUTF8(strings.TrimSpace(s), "\uFFFD")
}
