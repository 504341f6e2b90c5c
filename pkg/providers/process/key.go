package process

import (
	"strconv"
	"strings"
)

// key names one sandbox. The uid is part of it so that nobody can put a
// process into somebody else's sandbox by guessing its id.
type key struct {
	uid uint32
	id  string
}

// String gives the form that Ref.ID has.
func (k key) String() string { return strconv.FormatUint(uint64(k.uid), 10) + ":" + k.id }

// parseKey reads what String wrote, and nothing else: "007:x" would name the
// same sandbox as "7:x" under a second id.
func parseKey(s string) (key, bool) {
	uid, id, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(uid, 10, 32)
	k := key{uint32(n), id}
	return k, err == nil && validID(id) && k.String() == s
}

const maxID = 128

// validID says whether a value of REAPERD_SANDBOX names a sandbox: 1 to 128
// printable ASCII characters without space, '/' and ':', which keeps it whole
// in "<uid>:<id>", in "provider/id", in a URL's path and in a column.
func validID(id string) bool {
	if id == "" || len(id) > maxID {
		return false
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' || c == '/' || c == ':' {
			return false
		}
	}
	return true
}
