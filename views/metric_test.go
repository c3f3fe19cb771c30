package views

import (
	"strings"
	"testing"

	"quantscope/sessions"
)

// TestMetricsAreThoseOfSessions: each can be written, and a screen compares it as
// the command does.
func TestMetricsAreThoseOfSessions(t *testing.T) {
	all := sessions.Metrics()
	if len(Metrics()) != len(all) {
		t.Fatalf("%d metrics, want %d", len(Metrics()), len(all))
	}
	for i, m := range Metrics() {
		if text := m.text(0.5); m.Name != all[i].Name || m.Format == "" || strings.Contains(text, "!") {
			t.Errorf("%s: format %q writes %q", m.Name, m.Format, text)
		}
		if c := changeOf(m); c.relative != all[i].Relative {
			t.Errorf("%s: relative %v on screen, %v in comparisons", m.Name, c.relative, all[i].Relative)
		}
	}
}
