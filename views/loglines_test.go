package views

import (
	"math"
	"testing"
	"time"

	"quantscope/sessions"
)

func TestSinceStart(t *testing.T) {
	for us, want := range map[int64]string{
		0: "0:00.000", 999: "0:00.000", 1_000: "0:00.001", 7_312_456: "0:07.312", -1_500_000: "-0:01.500",
		59*60e6 + 59_999_999: "59:59.999", int64(time.Hour / time.Microsecond): "1:00:00.000", 100 * 3600e6: "100:00:00.000",
		math.MinInt64: "–",
	} {
		if got := sinceStart(us); got != want {
			t.Errorf("%d µs: %q, want %q", us, got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 37152: "37,152", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestLogLinesLookAtEachEventOnce(t *testing.T) {
	log := []sessions.Event{
		{Kind: sessions.EventCreated}, {Kind: sessions.EventFinding}, {Kind: sessions.EventFailed}, {Kind: sessions.EventFallback},
	}
	var l logLines
	l.reset(logFilters[1])
	l.scan(log[:2])
	l.scan(log)
	l.scan(log)
	if len(l.shown) != 3 || l.shown[0] != 1 || l.scanned != 4 {
		t.Errorf("shown %v of %d", l.shown, l.scanned)
	}
	if got := l.summary(); got != "1 finding · 1 failure · 1 fallback" {
		t.Errorf("summary %q", got)
	}
	l.scan(log[:1]) // the log became shorter: another one
	if len(l.shown) != 0 || l.counts[sessions.EventCreated] != 1 || l.counts[sessions.EventFailed] != 0 {
		t.Errorf("after a shorter log: %v, %v", l.shown, l.counts)
	}
}
