package process

import (
	"strings"
	"testing"
)

// rest is what follows the state in a line of /proc/PID/stat.
const rest = " 7 1 1 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 123456 8192 100 18446744073709551615 1 2 3 4 5 0 0 0 0 0 0 0 17 1 0 0 0 0 0 10 20 30 40 50 60 70 0\n"

func TestParseStat(t *testing.T) {
	for _, tc := range []struct {
		name, line, comm string
		state            byte
	}{
		{"plain", "42 (sleep) S" + rest, "sleep", 'S'},
		{"spaces", "42 (tmux: server) R" + rest, "tmux: server", 'R'},
		{"parentheses", "42 ((sd-pam)) S" + rest, "(sd-pam)", 'S'},
		{"a name that mocks the format", "42 (a) Z 1 1 (b) T" + rest, "a) Z 1 1 (b", 'T'},
		{"a line break", "42 (a\nb) S" + rest, "a\nb", 'S'},
		{"no name", "42 () S" + rest, "", 'S'},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseStat([]byte(tc.line))
			want := stat{comm: tc.comm, state: tc.state, parent: 7, flags: 4194560, start: 123456, environStart: 60, environEnd: 70}
			if err != nil || got != want {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
}

func TestParseStatRefuses(t *testing.T) {
	for _, line := range []string{
		"", "42", "42 (sleep", "42 sleep) S", ")(", "42 (sleep)", "42 (sleep) S 1 2",
		"42 (sleep) SS" + rest,
		"42 (sleep) S" + strings.Replace(rest, "123456", "soon", 1),
		"42 (sleep) S" + strings.Replace(rest, " 7 ", " x ", 1),
	} {
		if got, err := parseStat([]byte(line)); err == nil {
			t.Errorf("%q gave %+v", line, got)
		}
	}
}

func TestStatStates(t *testing.T) {
	for _, tc := range []struct {
		stat                  stat
		dead, kernel, stopped bool
	}{
		{stat{state: 'S'}, false, false, false},
		{stat{state: 'D'}, false, false, false},
		{stat{state: 'T'}, false, false, true},
		{stat{state: 't'}, false, false, true},
		{stat{state: 'Z'}, true, false, false},
		{stat{state: 'X'}, true, false, false},
		{stat{state: 'R', flags: 0x400004}, true, false, false},
		{stat{state: 'I', flags: 69238880}, false, true, false},
	} {
		if s := tc.stat; s.dead() != tc.dead || s.kernel() != tc.kernel || s.stopped() != tc.stopped {
			t.Errorf("%+v: dead %v, kernel %v, stopped %v", s, s.dead(), s.kernel(), s.stopped())
		}
	}
}

func TestParseRealUID(t *testing.T) {
	for _, tc := range []struct {
		status string
		want   uint32
		ok     bool
	}{
		{"Name:\tsudo\nUid:\t1000\t0\t0\t0\nGid:\t1\t1\t1\t1\n", 1000, true},
		{"Name:\tUid:\nUid:\t4294967294\t0\t0\t0\n", 4294967294, true},
		{"Name:\tx\n", 0, false},
		{"Uid:\n", 0, false},
		{"Uid:\tx\n", 0, false},
	} {
		if got, ok := parseRealUID([]byte(tc.status)); got != tc.want || ok != tc.ok {
			t.Errorf("%q: got %d, %v; want %d, %v", tc.status, got, ok, tc.want, tc.ok)
		}
	}
}
