package views

import (
	"testing"

	"github.com/muesli/termenv"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

func gatesScene(t testing.TB, profile termenv.Profile, share float64) *Scene {
	s := sceneIn(t, viewstest.Demo(), profile)
	g := viewstest.Gates(viewstest.GateArms, 6, share)
	s.State.Gates = []*sessions.GateRun{g}
	s.Gates = GatesWork{Report: viewstest.GatesReport(g), Runs: -1}
	return s
}

func TestGatesGolden(t *testing.T) {
	for _, size := range paneSizes {
		t.Run(size.name, func(t *testing.T) {
			p := NewGates(gatesScene(t, termenv.Ascii, 1))
			p.SetSize(size.w, size.h)
			for _, k := range []string{"down", "down", "right"} {
				hit(p, k)
			}
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
}
