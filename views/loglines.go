package views

import (
	"fmt"

	"quantscope/sessions"
)

// logFilter is a choice of event kinds.
type logFilter struct {
	name  string
	kinds []sessions.EventKind // nil is all
}

var logFilters = []logFilter{
	{"all", nil},
	{"problems", []sessions.EventKind{sessions.EventFailed, sessions.EventFallback, sessions.EventFinding, sessions.EventStopped}},
	{"findings", []sessions.EventKind{sessions.EventFinding}},
	{"failures", []sessions.EventKind{sessions.EventFailed, sessions.EventStopped}},
	{"fallbacks", []sessions.EventKind{sessions.EventFallback}},
	{"calibration", []sessions.EventKind{sessions.EventCalib, sessions.EventUnit, sessions.EventCalibEnd, sessions.EventFallback}},
	{"run", []sessions.EventKind{
		sessions.EventCreated, sessions.EventVariant, sessions.EventPlan, sessions.EventStarted, sessions.EventPaused, sessions.EventResumed,
		sessions.EventCancelled, sessions.EventStopped, sessions.EventFinished, sessions.EventYard, sessions.EventYardEnd,
		sessions.EventCalib, sessions.EventUnit, sessions.EventCalibEnd,
	}},
}

func (f logFilter) shows(kind sessions.EventKind) bool {
	if f.kinds == nil {
		return true
	}
	for _, k := range f.kinds {
		if k == kind {
			return true
		}
	}
	return false
}

// logLines is which lines of a session's log are shown. It follows a log that
// grows and looks at each of its events once, until the filter changes.
type logLines struct {
	filter  logFilter
	scanned int
	shown   []int32 // indices in the log, ascending
	counts  map[sessions.EventKind]int
}

// reset forgets everything; the next scan starts at the beginning.
func (l *logLines) reset(f logFilter) {
	*l = logLines{filter: f, shown: l.shown[:0], counts: map[sessions.EventKind]int{}}
}

// scan takes in what was appended to the log.
func (l *logLines) scan(log []sessions.Event) {
	if l.scanned > len(log) || l.counts == nil {
		l.reset(l.filter)
	}
	for i := l.scanned; i < len(log); i++ {
		l.counts[log[i].Kind]++
		if l.filter.shows(log[i].Kind) {
			l.shown = append(l.shown, int32(i))
		}
	}
	l.scanned = len(log)
}

// summary is the counts of what a person should look at.
func (l *logLines) summary() string {
	return fmt.Sprintf("%s · %s · %s",
		plural(l.counts[sessions.EventFinding], "finding"),
		plural(l.counts[sessions.EventFailed]+l.counts[sessions.EventStopped], "failure"),
		plural(l.counts[sessions.EventFallback], "fallback"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// thousands writes a count with a comma every three digits.
func thousands[N int | int64](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// sinceStart writes a moment of the session: m:ss.mmm, from one hour on
// h:mm:ss.mmm. Moments before the start, which a clock that was set back can
// leave, have a sign.
func sinceStart(us int64) string {
	sign := ""
	if us < 0 {
		sign, us = "-", -us
	}
	ms := us / 1000
	if ms < 0 { // the one value that has no opposite
		return "–"
	}
	if h := ms / 3_600_000; h > 0 {
		return fmt.Sprintf("%s%d:%02d:%02d.%03d", sign, h, ms/60_000%60, ms/1000%60, ms%1000)
	}
	return fmt.Sprintf("%s%d:%02d.%03d", sign, ms/60_000, ms/1000%60, ms%1000)
}
