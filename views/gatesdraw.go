package views

import (
	"slices"
	"strings"

	"github.com/muesli/termenv"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/grade"
	"quantscope/sessions"
)

// View draws the screen.
func (p *Gates) View() string {
	now := p.drawing()
	if p.drawn != now || p.cached == "" {
		p.refresh()
		p.cached, p.drawn = p.draw(), now
	}
	return p.cached
}

func (p *Gates) drawing() gatesDrawing {
	seen := 0
	if g := p.run(); g != nil {
		seen = len(g.Results)
	}
	return gatesDrawing{p.version, p.scene.Version, p.scene.Theme, p.scene.Gates.Report, p.scene.State, seen, p.w, p.h}
}

func (p *Gates) draw() string {
	if p.w <= 0 || p.h <= 0 {
		return Block(nil, p.w, p.h)
	}
	if p.book.run == nil || len(p.book.run.Setup.Probes) == 0 || len(p.book.run.Setup.Arms) == 0 {
		return Block(p.without(), p.w, p.h)
	}
	l := p.layout()
	if p.full {
		lines := p.fullLines()
		p.scroll = max(min(p.scroll, len(lines)-p.h), 0)
		return Block(p.scrolled(lines, p.scroll, p.w, p.h), p.w, p.h)
	}
	blocks := []placed{{l.head, Block(p.arranged().head, l.head.w, l.head.h)}}
	if !l.table.empty() {
		blocks = append(blocks, placed{l.table, p.drawTable(l.table.w, l.table.h)})
	}
	if !l.cases.empty() {
		blocks = append(blocks, placed{l.cases, p.drawCases(l.cases.w, l.cases.h)})
	}
	if !l.text.empty() {
		blocks = append(blocks, placed{l.text, p.drawText(l.text.w, l.text.h)})
	}
	if !l.checks.empty() {
		blocks = append(blocks, placed{l.checks, p.drawChecks(l.checks.w, l.checks.h)})
	}
	if !l.arms.empty() {
		blocks = append(blocks, placed{l.arms, p.drawArms(l.arms.w, l.arms.h)})
	}
	return compose(p.w, p.h, blocks)
}

// scrolled is the part of lines that is seen in h; the last one says how many more
// there are.
func (p *Gates) scrolled(lines []string, from, w, h int) []string {
	to := min(from+h, len(lines))
	out := append([]string(nil), lines[min(from, to):to]...)
	if left := len(lines) - to; left > 0 && len(out) > 0 {
		out[len(out)-1] = p.scene.Theme.Dim.Render(Truncate(moreText(left+1)+" lines", w))
	}
	return out
}

// partTitle is the title of a part, marked where it has the keys.
func (p *Gates) partTitle(part gatesPart, title string) string {
	th := p.scene.Theme
	if p.focus != part {
		return th.Title.Render(title)
	}
	if th.Profile == termenv.Ascii {
		return "▸ " + title
	}
	return th.Accent.Bold(true).Render(title)
}

func (p *Gates) layout() gatesLayout { return p.arranged().layout }

// gatesArranged is what drawing, keys and the mouse all need, worked out once for
// what a picture depends on.
type gatesArranged struct {
	of     gatesArrangedOf
	head   []string
	inks   []int
	layout gatesLayout
}

type gatesArrangedOf struct {
	drawing gatesDrawing
	at      gatesRowID
	arm     int
	focus   gatesPart
	full    bool
}

func (p *Gates) arranged() *gatesArranged {
	of := gatesArrangedOf{p.drawing(), p.at, p.arm, p.focus, p.full}
	a := &p.memo
	if a.of == of {
		return a
	}
	*a = gatesArranged{of: of}
	want := gatesWants{focus: p.focus, full: p.full}
	if p.book.run != nil {
		a.inks = p.book.inks(p.scene.State)
		a.head = p.head()
		want.head, want.rows, want.cases = len(a.head), len(p.rows), len(p.items.list)
		want.narrow, want.wide = p.tableWidths()
		if p.w >= gatesWideW && p.h >= gatesWideH {
			right := gatesSide(p.w)
			lines, _ := p.checkSpans(right, 0)
			want.checks, want.armsH = len(lines)+1, len(p.book.run.Setup.Arms)+2+len(p.armWords(right))+1
		}
	}
	a.layout = arrangeGates(p.w, p.h, want)
	return a
}

// ink is the colour of an arm.
func (p *Gates) ink(arm int) int {
	if inks := p.arranged().inks; arm >= 0 && arm < len(inks) {
		return inks[arm]
	}
	return -1
}

// unfinishedGates says that a run did not come to its end.
func unfinishedGates(g *sessions.GateRun) bool {
	return g.End == nil || g.End.State != string(sessions.RunFinished)
}

// GatesLeft says that there is more to ask of a run: it did not come to its end, or
// answers did not come.
func GatesLeft(g *sessions.GateRun) bool {
	return g != nil && (unfinishedGates(g) || slices.ContainsFunc(g.Results, func(r *gates.Result) bool { return r.Verdict.Fault == grade.Erred }))
}

// besideRule sets two columns of lines of w cells each beside each other, with a rule
// between them.
func besideRule(th *Theme, a, b []string, w int) []string {
	n := max(len(a), len(b))
	out := make([]string, n)
	rule := th.Faint.Render(" │ ")
	for i := range n {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		out[i] = strings.TrimRight(Fit(x, w)+rule+y, " ")
	}
	return out
}
