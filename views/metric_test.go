package views

import (
	"slices"
	"strings"
	"testing"

	"quantscope/sessions"
)

// recordMetrics are those that every record has.
func recordMetrics() []Metric {
	return slices.DeleteFunc(slices.Clone(Metrics()), func(m Metric) bool { return m.Calibrated() || m.codebook })
}

// TestMetricsAreThoseOfSessions: each can be written, and a screen compares it as
// the command does.
func TestMetricsAreThoseOfSessions(t *testing.T) {
	all := sessions.Metrics()
	mine := slices.DeleteFunc(slices.Clone(Metrics()), Metric.Calibrated)
	if len(mine) != len(all) {
		t.Fatalf("%d metrics of records, want %d", len(mine), len(all))
	}
	for i, m := range mine {
		if text := m.text(0.5); m.Name != all[i].Name || m.Format == "" || strings.Contains(text, "!") {
			t.Errorf("%s: format %q writes %q", m.Name, m.Format, text)
		}
		if m.Diverging != all[i].Diverging || m.Worse != all[i].Worse {
			t.Errorf("%s: %+v on screen, %+v in comparisons", m.Name, m, all[i])
		}
		if c := changeOf(m); c.relative != all[i].Relative {
			t.Errorf("%s: relative %v on screen, %v in comparisons", m.Name, c.relative, all[i].Relative)
		}
	}
}
