package docker

import (
	"net/http"
	"testing"
	"time"

	"github.com/reaperd/reaperd/internal/enginetest"
)

func TestSkewIsTheLeastThatExplainsTheAnswers(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	const ms = time.Millisecond
	// answer is one answer: sent so long after start, received so much later,
	// with a Date so long after start, cut to whole seconds as the header is.
	type answer struct{ sent, took, date time.Duration }
	date := func(a answer) string { return start.Add(a.date).Truncate(time.Second).Format(http.TimeFormat) }
	for name, tc := range map[string]struct {
		answers []answer
		want    time.Duration
	}{
		"the same clock":                             {[]answer{{300 * ms, ms, 300 * ms}}, 0},
		"the same clock, at a second":                {[]answer{{999 * ms, 2 * ms, 1000 * ms}}, 0},
		"half a second ahead cannot show":            {[]answer{{300 * ms, ms, 800 * ms}}, 0},
		"an hour ahead":                              {[]answer{{300 * ms, 10 * ms, time.Hour + 300*ms}}, time.Hour - 310*ms},
		"an hour behind":                             {[]answer{{300 * ms, 10 * ms, -time.Hour + 300*ms}}, -time.Hour + 700*ms},
		"a slow answer proves little":                {[]answer{{0, 30 * time.Second, 20 * time.Second}}, 0},
		"a slow answer after a quick one":            {[]answer{{0, 10 * ms, time.Minute}, {time.Second, 30 * time.Second, time.Minute + 20*time.Second}}, time.Minute - 10*ms},
		"several narrow it down":                     {[]answer{{100 * ms, 10 * ms, 5 * time.Second}, {1900 * ms, 10 * ms, 7 * time.Second}}, 5*time.Second + 90*ms},
		"what they leave may be a point":             {[]answer{{0, 0, 2 * time.Second}, {0, 0, time.Second}}, 2 * time.Second},
		"set forward":                                {[]answer{{0, ms, 0}, {10 * time.Second, ms, 70 * time.Second}}, time.Minute - ms},
		"set back":                                   {[]answer{{0, ms, time.Hour}, {10 * time.Second, ms, 10 * time.Second}}, 0},
		"the span before still counts":               {[]answer{{20 * ms, 10 * ms, 1900 * ms}, {spanLasts + 20*ms, 10 * ms, spanLasts + 950*ms}}, 970 * ms},
		"a drift is followed":                        {[]answer{{20 * ms, 10 * ms, 1900 * ms}, {spanLasts + 20*ms, 10 * ms, spanLasts + 950*ms}, {2*spanLasts + 20*ms, 10 * ms, 2*spanLasts + 950*ms}}, 0},
		"a night without answers":                    {[]answer{{100 * ms, ms, 1900 * ms}, {12*time.Hour + 50*ms, ms, 12*time.Hour + 950*ms}}, 0},
		"what was proven before the last span holds": {[]answer{{0, ms, time.Minute}, {spanLasts, 40 * time.Second, spanLasts + time.Minute}}, time.Minute - ms},
		"our own clock set back meanwhile":           {[]answer{{300 * ms, ms, time.Minute}, {time.Hour, -time.Hour, 10 * time.Second}}, time.Minute - 301*ms},
	} {
		t.Run(name, func(t *testing.T) {
			var s skew
			for _, a := range tc.answers {
				sent := start.Add(a.sent)
				s.note(sent, sent.Add(a.took), http.Header{"Date": {date(a)}})
			}
			if got, known := s.ahead(); got != tc.want || !known {
				t.Errorf("ahead by %v (known %v), want %v", got, known, tc.want)
			}
		})
	}
}

func TestADateThatIsNoneProvesNothing(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var s skew
	for _, date := range []string{"", "0", "now", "2026-11-30T12:00:00Z", "1764504000", "Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 30 Feb 2026 12:00:00 GMT"} {
		s.note(now, now, http.Header{"Date": {date}})
	}
	s.note(now, now, nil)
	if ahead, known := s.ahead(); known || ahead != 0 {
		t.Errorf("ahead by %v, known %v", ahead, known)
	}
}

func TestTheEnginesClockIsReadOffItsAnswers(t *testing.T) {
	enginetest.Each(t, theEnginesClockIsReadOffItsAnswers)
}

func theEnginesClockIsReadOffItsAnswers(t *testing.T, e *enginetest.Engine) {
	proxy := enginetest.NewProxy(t, e)
	p := openAt(t, proxy.Host())
	if _, known := p.Skew(); known {
		t.Error("known before there was an answer")
	}
	mustList(t, p)
	if ahead, known := p.Skew(); ahead != 0 || !known {
		t.Errorf("the same machine: ahead by %v, known %v", ahead, known)
	}
	for _, off := range []time.Duration{time.Hour, -time.Hour, 0} {
		proxy.Headers(func(h http.Header) {
			at, err := http.ParseTime(h.Get("Date"))
			if err != nil {
				t.Errorf("the engine's own Date: %v", err)
			}
			h.Set("Date", at.Add(off).Format(http.TimeFormat))
		})
		mustList(t, p)
		ahead, known := p.Skew()
		if !known || ahead.Abs() > off.Abs() || (ahead-off).Abs() > 2*time.Second {
			t.Errorf("off by %v: ahead by %v, known %v", off, ahead, known)
		}
	}
	proxy.Headers(func(h http.Header) { h["Date"] = nil })
	mustList(t, p)
	if ahead, known := p.Skew(); ahead != 0 || !known {
		t.Errorf("an answer without a Date: ahead by %v, known %v", ahead, known)
	}
}
