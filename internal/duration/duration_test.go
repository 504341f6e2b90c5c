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

// FuzzParse: whatever is taken is more than zero, and written out it is read
// as the same again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "0", "0s", "90m", "1d12h", "250ms", "1y2w3d4h5m6s7ms", "-5m", "1.5h", "1D", "1 d", "1mo", "P1D", "9999999w", "292y", "293y", "00m1s", "1h1h", "1m1h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err != nil {
			if d != 0 || err.Error() == "" {
				t.Errorf("%q gave %v and %v", text, d, err)
			}
			return
		}
		if d <= 0 {
			t.Errorf("%q gave %v", text, d)
		}
		if back, err := Parse(Format(d)); err != nil || back != d {
			t.Errorf("%q gave %v, which is written %s and read as %v, %v", text, d, Format(d), back, err)
		}
	})
}
