package views

import (
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/views/viewstest"
)

// What is left over beside the table is used: names of arms that fit stand whole, no
// arm is left out for room that cases do not need, intervals come as soon as they fit,
// and checks say as much as leaves room for all of them.
func TestGatesUseTheirRoom(t *testing.T) {
	for _, c := range []struct {
		w, h            int
		there, notThere []string
	}{
		{80, 20, []string{"+mse_ge1 ●", "int4-g128 ◆", "‹ 1  1 ›"}, []string{"95%"}},
		{198, 54, []string{"int4-g128 ◆", "bf16 again"}, []string{" more ›", "95%"}},
		{248, 74, []string{"int4-g128 ◆", "bf16 again", "95%"}, []string{" more ›"}},
	} {
		s := gatesScene(t, termenv.Ascii, 1)
		s.State.Gates[0] = viewstest.Gates(viewstest.GateArms, 40, 1)
		s.Gates.Report = viewstest.GatesReport(s.State.Gates[0])
		p := NewGates(s)
		p.SetSize(c.w, c.h)
		gatesAt(t, p, "needle", 5)
		view := p.View()
		checkSize(t, view, c.w, c.h)
		view = strings.Join(strings.Split(view, "\n")[2:6], "\n") // the table's head is among these
		for _, text := range c.there {
			if !strings.Contains(view, text) {
				t.Errorf("%d×%d has no %q:\n%s", c.w, c.h, text, view)
			}
		}
		for _, text := range c.notThere {
			if strings.Contains(view, text) {
				t.Errorf("%d×%d has %q:\n%s", c.w, c.h, text, view)
			}
		}
	}
}

// Between one line for each check and all that is said there are steps.
func TestGatesChecksSayWhatFits(t *testing.T) {
	p := NewGates(gatesScene(t, termenv.Ascii, 1))
	p.SetSize(248, 74)
	p.View()
	const w = 30
	was := 0
	for level := len(gatesSpoken) - 1; level >= 0; level-- {
		lines, of := p.checkSpans(w, level)
		if len(lines) != len(of) || len(lines) <= was || of[len(of)-1] != len(p.checkItems())-1 {
			t.Errorf("level %d: %d lines after %d, of %d items", level, len(lines), was, of[len(of)-1]+1)
		}
		for h := len(lines); h >= was && h > 0 && level < len(gatesSpoken)-1; h -= max(len(lines)-was, 1) {
			seen, _, left := p.seenChecks(w, h)
			if left != 0 || len(seen) > h || len(seen) < was {
				t.Errorf("%d lines of %d are used, %d left out", len(seen), h, left)
			}
		}
		was = len(lines)
	}
}
