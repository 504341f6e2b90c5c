package process

import (
	"math"
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	for _, tc := range []struct {
		ref  string
		want key
		ok   bool
	}{
		{"0:ci", key{0, "ci"}, true},
		{"1000:job-7_a.b@c#1", key{1000, "job-7_a.b@c#1"}, true},
		{"4294967295:x", key{math.MaxUint32, "x"}, true},
		{"0:" + strings.Repeat("x", 128), key{0, strings.Repeat("x", 128)}, true},
		{"0:" + strings.Repeat("x", 129), key{}, false},
		{"4294967296:x", key{}, false},
		{"-1:x", key{}, false},
		{"+1:x", key{}, false},
		{"007:x", key{}, false}, // a second name for 7:x
		{"0:", key{}, false},
		{"0", key{}, false},
		{":x", key{}, false},
		{"", key{}, false},
		{"0:a:b", key{}, false},
		{"0:a/b", key{}, false},
		{"0:a b", key{}, false},
		{"0:a\nb", key{}, false},
		{"0:é", key{}, false},
	} {
		got, ok := parseKey(tc.ref)
		if ok != tc.ok || ok && (got != tc.want || got.String() != tc.ref) {
			t.Errorf("%q: got %+v, %v; want %+v, %v", tc.ref, got, ok, tc.want, tc.ok)
		}
	}
}
