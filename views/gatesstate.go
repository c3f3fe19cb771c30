package views

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/stats"
)

// gatesState is how a cell stands, the worst that can be said of it.
type gatesState uint8

const (
	gatesNone  gatesState = iota // nothing was asked yet
	gatesSome                    // not all answers are there
	gatesAsked                   // being asked now
	gatesOK
	gatesUntold // what a probe measures is not known
	gatesUp     // better than the baseline, beyond test and placebo
	gatesShort  // too few passed
	gatesDown   // worse than the baseline, beyond test and placebo
	gatesErr    // answers did not come
)

// gatesStates are the signs of states, which are told by them and not by colour
// alone, and what they mean.
var gatesStates = [...]struct{ glyph, word string }{
	gatesNone:   {"·", ""},
	gatesSome:   {ellipsis, "more to come"},
	gatesAsked:  {"▶", "being asked"},
	gatesOK:     {"✓", "enough passed"},
	gatesUntold: {"?", "not known"},
	gatesUp:     {"↑", "better than the baseline"},
	gatesShort:  {"✗", "too few passed"},
	gatesDown:   {"↓", "worse than the baseline"},
	gatesErr:    {"!", "answers did not come"},
}

// style is the colour of a state.
func (s gatesState) style(th *Theme) lipgloss.Style {
	switch s {
	case gatesOK, gatesUp:
		return th.Good
	case gatesShort, gatesDown, gatesErr:
		return th.Bad
	case gatesAsked:
		return th.Accent
	case gatesUntold:
		return th.Warn
	}
	return th.Dim
}

// gatesIndex finds rows and pairs of a report without walking over it.
type gatesIndex struct {
	report   *gates.Report
	rows     map[[2]int]*gates.Row
	pairs    map[[2]int]*gates.Pair
	accepted map[[2]int]*gates.Acceptance
}

func (x *gatesIndex) update(r *gates.Report) {
	if x.report == r && x.rows != nil {
		return
	}
	*x = gatesIndex{report: r, rows: map[[2]int]*gates.Row{}, pairs: map[[2]int]*gates.Pair{}, accepted: map[[2]int]*gates.Acceptance{}}
	if r == nil {
		return
	}
	for i := range r.Rows {
		x.rows[[2]int{r.Rows[i].Probe, r.Rows[i].Arm}] = &r.Rows[i]
	}
	for i := range r.Pairs {
		x.pairs[[2]int{r.Pairs[i].Probe, r.Pairs[i].Arm}] = &r.Pairs[i]
	}
	for i := range r.Acceptance {
		x.accepted[[2]int{r.Acceptance[i].Probe, r.Acceptance[i].Arm}] = &r.Acceptance[i]
	}
}

// pairOf is the pair of a row of the table: of a probe, or of all of them.
func (x *gatesIndex) pairOf(row *gatesRow, arm int) *gates.Pair {
	switch row.kind {
	case gatesProbeRow:
		return x.pairs[[2]int{row.probe, arm}]
	case gatesSumRow:
		if !row.part { // the pair is of all of them
			return x.pairs[[2]int{-1, arm}]
		}
	}
	return nil
}

// stateOf is how a cell of the table stands.
func (p *Gates) stateOf(row *gatesRow, arm int, c *gatesCell) gatesState {
	switch {
	case c.faults[grade.Erred] > 0:
		return gatesErr
	case p.asked(row, arm) && c.of < c.all:
		return gatesAsked
	case c.of == 0:
		return gatesNone
	case c.of < c.all:
		return gatesSome
	}
	short := false
	for _, probe := range row.probes {
		if probe < len(p.book.cells) && arm < len(p.book.cells[probe]) {
			one := &p.book.cells[probe][arm]
			short = short || float64(one.passed) < p.book.run.Setup.Probes[probe].Need*float64(one.all)-1e-9
		}
	}
	pair := p.index.pairOf(row, arm)
	if row.kind == gatesGroupRow || row.part { // no pair of its own: the worst of its probes
		for _, probe := range row.probes {
			if q := p.index.pairs[[2]int{probe, arm}]; q != nil && q.Worse {
				pair = q
			}
		}
	}
	drafts, measured := p.acceptanceState(row, arm)
	switch {
	case pair != nil && pair.Worse || measured && drafts == gatesDown:
		return gatesDown
	case short:
		return gatesShort
	case measured && (drafts == gatesUntold || row.kind == gatesProbeRow):
		return drafts
	case pair != nil && pair.Better:
		return gatesUp
	}
	return gatesOK
}

// asked says that a question of that cell is on its way, as far as is known.
func (p *Gates) asked(row *gatesRow, arm int) bool {
	probe, at := p.asking()
	if at != arm || arm < 0 {
		return false
	}
	if row.kind == gatesProbeRow {
		return row.probe == probe
	}
	for _, q := range row.probes {
		if q == probe {
			return row.kind == gatesSumRow || row.folded
		}
	}
	return false
}

// asking is the probe and the arm that are being asked, −1 where none is.
func (p *Gates) asking() (probe, arm int) {
	w := &p.scene.Gates
	switch {
	case p.book.run == nil:
	case w.running(w.At):
		return w.Progress.Probe, w.Progress.Arm
	case p.moving():
		return p.book.last.Probe, p.book.last.Arm
	}
	return -1, -1
}

// interval of n of m: that of the report where it is of the same answers.
func (p *Gates) interval(row *gatesRow, arm int, c *gatesCell) (low, high float64) {
	if c.of <= 0 {
		return math.NaN(), math.NaN()
	}
	if row.kind == gatesProbeRow {
		if r := p.index.rows[[2]int{row.probe, arm}]; r != nil && r.Of == c.of && r.Passed == c.passed {
			return r.Low, r.High
		}
	}
	return stats.Wilson(c.passed, c.of, gatesLevel)
}

// gatesLevel is the level of intervals that Analyze is asked for.
const gatesLevel = 0.95

// gatesSaid is a sentence from a report with the minus of the screen, at which no line
// is broken.
func gatesSaid(s string) string { return hyphens.ReplaceAllString(steady(s), "$1−$2") }

var hyphens = regexp.MustCompile(`(^|[ (])-(\d)`)

// gatesRange is an interval of shares in per cent: 76–99.
func gatesRange(low, high float64) string {
	if !isNumber(low) || !isNumber(high) {
		return ""
	}
	return fmt.Sprintf("%.0f–%.0f", 100*low, 100*high)
}

// gatesLow is the lower end of an interval, which is what a gate goes by: ≥76.
func gatesLow(low float64) string {
	if !isNumber(low) {
		return ""
	}
	return fmt.Sprintf("≥%.0f", math.Floor(100*max(low, 0)+1e-9))
}

// gatesBar is an interval on a track from 0 to 1 of w cells, with the share in it.
func gatesBar(th *Theme, style lipgloss.Style, share, low, high float64, w int) string {
	if w <= 0 {
		return ""
	}
	if !isNumber(low) || !isNumber(high) || !isNumber(share) {
		return th.Faint.Render(strings.Repeat("┈", w))
	}
	at := func(v float64) int { return min(max(int(math.Round(v*float64(w-1))), 0), w-1) }
	from, to, here := at(low), at(high), at(share)
	var left, right string
	if from > 0 {
		left = th.Faint.Render(strings.Repeat("┈", from))
	}
	if to < w-1 {
		right = th.Faint.Render(strings.Repeat("┈", w-1-to))
	}
	middle := []rune(strings.Repeat("━", max(to-from+1, 1)))
	if i := here - from; i >= 0 && i < len(middle) {
		middle[i] = '●'
	}
	return left + style.Render(string(middle)) + right
}
