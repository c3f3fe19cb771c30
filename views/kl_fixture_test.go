package views

import (
	"testing"

	"github.com/muesli/termenv"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// klScene looks at a measurement of the demo. Its chunks are scored up to a share
// of them; odd says that much has gone wrong in it.
func klScene(t testing.TB, profile termenv.Profile, chunks int, odd bool) *Scene {
	s := sceneIn(t, viewstest.Demo(), profile)
	y := viewstest.Yard(viewstest.DemoShape())
	if chunks < len(y.Chunks) {
		y.Chunks, y.End = y.Chunks[:chunks], nil
	}
	var r *yardstick.Report
	if odd {
		r = viewstest.Odd(y)
	} else {
		r = viewstest.YardReport(y)
	}
	s.State.Yards = []*sessions.Yard{y}
	s.KL = KLWork{Report: r}
	return s
}
