package tui

import (
	"testing"
	"time"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// TestSecondSessionStandsAgainstTheFirst: of two sessions opened as one, the
// comparison shows the second one's first variant against the first one's.
func TestSecondSessionStandsAgainstTheFirst(t *testing.T) {
	joined, err := sessions.Join(viewstest.Demo(), viewstest.Demo(), "other")
	if err != nil {
		t.Fatal(err)
	}
	o := fixed()
	d := &driver{t: t, now: time.Unix(1_764_435_720, 0)}
	o.Now = func() time.Time { return d.now }
	o.Screen = "compare"
	d.m = newOpening("run.qscope", func() (sessions.Feed, error) { return sessions.NewStatic(joined), nil }, o)
	t.Cleanup(func() { _ = d.m.end() })
	d.do(d.m.Init())
	d.Resize(160, 48).WaitIdle().Sees("Compare · A nvfp4 · B nvfp4 @ other", "n = 240")
	d.Press("x").WaitIdle().Sees("Compare · A nvfp4 @ other · B nvfp4 ·")
}
