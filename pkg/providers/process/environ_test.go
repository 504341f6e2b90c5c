package process

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLookup(t *testing.T) {
	for _, tc := range []struct {
		name, block, want string
		ok                bool
	}{
		{"first", "REAPERD_SANDBOX=a\x00B=c\x00", "a", true},
		{"last, without an end", "B=c\x00REAPERD_SANDBOX=a", "a", true},
		{"empty", "REAPERD_SANDBOX=\x00B=c\x00", "", true},
		{"twice: as getenv", "REAPERD_SANDBOX=a\x00REAPERD_SANDBOX=b\x00", "a", true},
		{"with another's name before it", "NO_REAPERD_SANDBOX=b\x00REAPERD_SANDBOX=a\x00", "a", true},
		{"within another's name", "NO_REAPERD_SANDBOX=b\x00", "", false},
		{"within another's value", "B=REAPERD_SANDBOX=b\x00", "", false},
		{"a longer name", "REAPERD_SANDBOX_ID=b\x00", "", false},
		{"nothing", "", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := lookup([]byte(tc.block), sandboxVariable)
			if string(got) != tc.want || ok != tc.ok {
				t.Errorf("got %q, %v; want %q, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestTags(t *testing.T) {
	type tags = map[string]string
	for _, tc := range []struct {
		name     string
		lists    []string
		want     tags
		disputed string
	}{
		{"none", nil, tags{}, ""},
		{"empty list", []string{""}, tags{}, ""},
		{"two", []string{"a=1,b=2"}, tags{"a": "1", "b": "2"}, ""},
		{"no value", []string{"a,b="}, tags{"a": "", "b": ""}, ""},
		{"no key", []string{"=1,,a=2"}, tags{"a": "2"}, ""},
		{"equals sign in the value", []string{"a=b=c"}, tags{"a": "b=c"}, ""},
		{"space around", []string{" a = 1 , b = 2 "}, tags{"a": "1", "b": "2"}, ""},
		{"not text", []string{"a=\xff"}, tags{"a": "\uFFFD"}, ""},
		{"union", []string{"a=1", "b=2"}, tags{"a": "1", "b": "2"}, ""},
		{"the same twice", []string{"a=1", "a=1"}, tags{"a": "1"}, ""},
		{"members disagree", []string{"a=1,b=2", "b=3"}, tags{"a": "1", "b": "2"}, "b"},
		{"one disagrees with itself", []string{"a=1,a=2"}, tags{"a": "1"}, "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tagSet{tags: tags{}}
			for _, l := range tc.lists {
				s.add(l)
			}
			if diff := cmp.Diff(tc.want, s.tags); diff != "" || s.disputed != tc.disputed {
				t.Errorf("disputed %q, want %q; tags (-want +got):\n%s", s.disputed, tc.disputed, diff)
			}
		})
	}
}
