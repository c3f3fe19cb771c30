package views

import (
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// tierScene is the demo's session with a run of a hot tier, of which the first n
// windows are known; all of them and its end with n < 0.
func tierScene(t *Theme, trace, n int) *Scene {
	st := viewstest.Demo()
	run := viewstest.Tier(1, 4, 16, 4096, trace)
	if n >= 0 {
		run = viewstest.TierUntil(run, n)
	}
	st.Tiers = []*sessions.TierRun{run}
	s := &Scene{State: st, Theme: t, Metric: Metrics()[0], Cursor: 3 * 21}
	s.Tier = TierWork{On: true, At: 0, Budget: -1, Runs: -1}
	return s
}
