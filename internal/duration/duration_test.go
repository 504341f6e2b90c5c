package duration

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"1d": 24 * time.Hour, "2w": 336 * time.Hour, "1d12h": 36 * time.Hour,
		"90m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "1y": 365 * 24 * time.Hour,
	} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", in, got, err, want)
		}
		if back, err := Parse(Format(want)); err != nil || back != want {
			t.Errorf("Parse(Format(%v)) = %v, %v", want, back, err)
		}
	}
}

func TestParseRefusesWhatCouldBeMisread(t *testing.T) {
	for in, says := range map[string]string{
		"":                      "missing",
		"400":                   "no unit",
		"0":                     "no unit",
		"0s":                    "more than zero",
		"-5m":                   "negative",
		"1.5h":                  "not a duration",
		"1D":                    "not a duration",
		"1 d":                   "not a duration",
		" 1d":                   "not a duration",
		"1mo":                   "not a duration",
		"P1D":                   "not a duration",
		"1h; rm":                "not a duration",
		"forever":               "not a duration",
		"1m1h":                  "not a duration",
		"9999999w":              "292 years",
		"99999999999999999999s": "not a duration",
	} {
		got, err := Parse(in)
		if err == nil || !strings.Contains(err.Error(), says) || got != 0 {
			t.Errorf("Parse(%q) = %v, %v; want 0 and an error that says %q", in, got, err, says)
		}
	}
	if got, err := ParseOrZero("0s"); err != nil || got != 0 {
		t.Errorf("ParseOrZero(0s) = %v, %v", got, err)
	}
	if _, err := ParseOrZero("0"); err == nil {
		t.Error("ParseOrZero takes a bare 0")
	}
}
