package views

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"quantscope/analysis/yardstick"
)

// Columns of the table before those of the corpora.
const (
	klColumnName = iota
	klColumnState
	klColumnChunks
	klColumnBits
	klColumnKL
	klColumnGain
	klColumnP99
	klColumnMax
	klColumnTop1
	klColumnPPL
	klColumnChange
	klColumnCorpora
)

// klTable is the table of candidates, with all its rows, for w cells. Columns in
// which nothing stands are left out.
func (p *KL) klTable(w int) Table {
	r := p.rows.report
	tb := Table{Cursor: -1, Marked: true, More: true}
	tb.Columns = []Column{
		{Title: "candidate", Align: Middle}, {Drop: 1}, {Title: "chunks", Align: Right, Drop: 5}, {Title: "b/w", Align: Right, Drop: 6},
		{Title: "KL mean ± se"}, {Title: "ΔKL to baseline, 95 %"}, {Title: "p99", Align: Right, Drop: 3}, {Title: "max", Align: Right, Drop: 4}, {Title: "top-1", Align: Right, Drop: 2},
		{Title: "PPL", Align: Right, Drop: 7}, {Title: "Δ PPL", Align: Right, Drop: 7},
	}
	tb.Rows = p.tableRows()
	total, shown, floor := tb.lead(w), 0, -1
	for i, c := range p.rows.order {
		if p.rows.party(c).Floor {
			floor = i
		}
	}
	for i := range tb.Columns {
		c := &tb.Columns[i]
		for j, row := range tb.Rows {
			if i != klColumnName || j != floor {
				c.Width = max(c.Width, Width(row[i]))
			}
		}
		if c.Width == 0 {
			continue
		}
		if i == klColumnName {
			c.Width = max(min(c.Width, max(w/3, 12)), Width(klFloorName))
		}
		c.Width = max(c.Width, Width(c.Title))
		total += c.Width
		shown++
	}
	if floor >= 0 && Width(tb.Rows[floor][klColumnName]) > tb.Columns[klColumnName].Width {
		tb.Rows[floor][klColumnName] = p.scene.Theme.Dim.Render(klFloorName)
	}
	n := len(r.Setup.Corpora)
	if n < 2 || total+shown+n-1+n*klCellW > w { // one says what the means say, and some would not say that there are others
		n = 0
	}
	tb.Dense = total+columnGap*(shown+n-1)+n*klCellW > w
	total += tb.gap() * shown
	// The corpora share what is left: a bar and a figure each, all bars of one scale.
	if n > 0 {
		each := (w-total+tb.gap())/n - tb.gap()
		bar := min(max(each-klFigureW-1, 1), 24)
		for i := range r.Setup.Corpora {
			tb.Columns = append(tb.Columns, Column{Title: klCorpusName(r.Setup, i), Width: klWidth(bar), Drop: klCorpusDrop})
		}
		for row, c := range p.rows.order {
			for i := range r.Results[c].Corpora {
				tb.Rows[row] = append(tb.Rows[row], p.corpusCell(&r.Results[c].Corpora[i], bar, c))
			}
		}
	}
	for i := klColumnCorpora - 1; i > 0; i-- {
		if tb.Columns[i].Width == 0 {
			tb.Columns = slices.Delete(tb.Columns, i, i+1)
			for row := range tb.Rows {
				tb.Rows[row] = slices.Delete(tb.Rows[row], i, i+1)
			}
		}
	}
	return tb
}

// klFloorName is the ruler's floor where its own label has no room.
const klFloorName = "ruler's floor"

// klFigureW is the width of a figure beside a bar, klCellW that of a figure
// without its leading 0 beside a bar of one cell.
const (
	klFigureW = 6
	klCellW   = 7
)

// klWidth is the width of a corpus' column.
func klWidth(bar int) int {
	if bar <= 1 {
		return klCellW
	}
	return klFigureW + 1 + bar
}

// tableRows are the candidates in the order of the table, without corpora.
func (p *KL) tableRows() [][]string {
	th, r := p.scene.Theme, p.rows.report
	var rows [][]string
	n := len(p.rows.order)
	means, p99, most := make([]string, n), make([]string, n), make([]string, n)
	for i, c := range p.rows.order {
		s := &r.Results[c].All
		means[i], p99[i], most[i] = klMean(s.KL, s.KLErr), klShort(s.P99), klShort(s.Max)
	}
	gains := p.gains()
	means, p99, most = AlignDecimal(means), AlignDecimal(p99), AlignDecimal(most)
	for i, c := range p.rows.order {
		party, s := p.rows.party(c), &r.Results[c].All
		row := []string{
			p.candidate(c), p.state(c), "", klBits(party.BitsPerWeight), means[i],
			gains[i], p99[i], most[i], klShare(s.Top1), klPPL(s.PPL), signed("%+.2f", s.PPL-s.RefPPL),
		}
		if p.rows.running() {
			row[klColumnChunks] = p.chunks(s)
		}
		if party.Floor {
			row = quiet(th.Dim, row)
		}
		rows = append(rows, row)
	}
	return rows
}

// klBits writes bits per weight.
func klBits(v float64) string {
	if !(v > 0) || !isNumber(v) {
		return "–"
	}
	return fmt.Sprintf("%.2f", v)
}

// candidate is the name of a row: with the mark and the stroke of its curves,
// rows of attribution under what they are derived from.
func (p *KL) candidate(c int) string {
	th, party := p.scene.Theme, p.rows.party(c)
	label := Clean(party.Label)
	if p.derived(c) && p.order == 0 { // it stands below what it is derived from
		label = "└ " + p.partLabel(c)
	}
	if party.Floor {
		if !strings.Contains(label, "floor") {
			label += " (ruler floor)"
		}
		return label
	}
	ink := p.rows.inks[c]
	return th.VariantStyle(ink).Render(label + " " + th.VariantMark(ink) + strokes[ink%len(strokes)].Horizontal)
}

// derived says that a row is of a part of another candidate, or of one with
// something exchanged.
func (p *KL) derived(c int) bool { return c >= 0 && p.rows.party(c).Of >= 0 }

// partLabel is the label of a derived row without that of its candidate.
func (p *KL) partLabel(c int) string {
	of := p.label(p.rows.party(c).Of) + " "
	if rest := strings.TrimPrefix(p.label(c), of); rest != "" {
		return rest
	}
	return p.label(c)
}

// chunks is how many of all chunks a candidate has scored.
func (p *KL) chunks(s *yardstick.Summary) string {
	all := 0
	for i := range p.rows.report.Setup.Corpora {
		all += len(p.rows.report.Setup.Corpora[i].IDs)
	}
	return fmt.Sprintf("%d/%d", s.Chunks, all)
}

// state is what is wrong with a candidate, with a glyph and a word.
func (p *KL) state(c int) string {
	th, s := p.scene.Theme, &p.rows.report.Results[c].All
	switch {
	case s.NaN > 0:
		return th.Bad.Render("× " + thousands(s.NaN) + " NaN")
	case s.Infinite > 0:
		return th.Bad.Render("× " + thousands(s.Infinite) + " ∞")
	}
	for i := range p.rows.report.Gates {
		if g := &p.rows.report.Gates[i]; g.Of == c && !g.Passed {
			return th.Bad.Render("✗ " + Clean(g.Name))
		}
	}
	if p.rows.party(c).Added {
		return th.Dim.Render("added")
	}
	if n := len(p.rows.party(c).Fallbacks); n > 0 {
		return th.Warn.Render(stateGlyphs[FellBack] + " " + thousands(n) + " fell back")
	}
	return ""
}

// corpusCell is a bar of the width of all bars and the figure, – where nothing of
// the corpus is scored yet.
func (p *KL) corpusCell(s *yardstick.Summary, bar, c int) string {
	v := s.KL
	text := FitRight(klShort(v), klFigureW)
	switch {
	case s.Positions == 0 && s.NaN == 0 && bar <= 1:
		text = FitRight("–", klCellW-2)
	case s.Positions == 0 && s.NaN == 0:
		text = FitRight("–", klFigureW)
	case bar <= 1:
		text = FitRight(strings.TrimPrefix(klShort(v), "0"), klCellW-2)
		if v == 0 {
			text = FitRight("0", klCellW-2)
		}
	}
	share := 0.0
	if p.rows.limit > 0 && isNumber(v) {
		share = v / p.rows.limit
	}
	style := p.scene.Theme.VariantStyle(p.rows.inks[c])
	if p.rows.party(c).Floor {
		style, text = p.scene.Theme.Dim, p.scene.Theme.Dim.Render(text)
	}
	if bar <= 1 {
		return style.Render(klColumn(share)) + " " + text
	}
	return style.Render(Bar(share, bar)) + " " + text
}

// klColumn is a share as one rising bar.
func klColumn(share float64) string {
	if !(share > 0) {
		return " "
	}
	return bars[min(int(share*float64(len(bars))), len(bars)-1)]
}

// drawTable draws the candidates, the selected one in sight.
func (p *KL) drawTable(r rect) string {
	tb := p.arranged().table
	n := len(tb.Rows)
	from, to := p.table.window(n, r.h)
	tb.Rows, tb.Left = tb.Rows[from:to], n-(to-from)
	th, at := p.scene.Theme, p.table.selected-from+1
	lines := strings.Split(tb.Render(th, r.w, r.h), "\n")
	if at >= len(lines) || !strings.HasPrefix(lines[at], "  ") {
		return strings.Join(lines, "\n")
	}
	line := lines[at][2:]
	if p.level == klCandidates { // in reverse as far as there are no bars, which would be holes
		width := barsFrom(tb, r.w) - 2
		line = th.reverse(ansi.Truncate(line, width, "")) + ansi.TruncateLeft(line, width, "")
	}
	lines[at] = th.Accent.Render("▸") + " " + line
	return strings.Join(lines, "\n")
}

// barsFrom is the cell at which the corpora of a table begin, its width where
// there are none.
func barsFrom(tb Table, w int) int {
	if !klFits(tb) {
		return w
	}
	at := tb.lead(w)
	for i, n := range tb.widths(w - tb.lead(w)) {
		if n >= 0 && tb.Columns[i].Drop != klCorpusDrop {
			at += n + tb.gap()
		}
	}
	return min(at-tb.gap(), w)
}

// klCorpusDrop marks the columns of corpora.
const klCorpusDrop = 9

// klFits says whether the table has the corpora.
func klFits(tb Table) bool {
	return slices.ContainsFunc(tb.Columns, func(c Column) bool { return c.Drop == klCorpusDrop })
}

// window scrolls a list of n rows so that its selection is seen in a table of h
// lines, and returns the rows to show.
func (l *klList) window(n, h int) (from, to int) {
	room := Table{More: true, Rows: make([][]string, n)}.room(h)
	l.top = max(min(l.top, l.selected, n-room), 0)
	l.top = max(l.top, l.selected-room+1)
	return l.top, min(l.top+room, n)
}

// drawCorpora is the candidates by corpus, for screens whose table has no room
// for that.
func (p *KL) drawCorpora(w, h int) string {
	r := p.rows.report
	name := 0
	for _, c := range p.rows.order {
		name = max(name, Width(p.candidate(c)))
	}
	name = min(name, w/3)
	n := max(len(r.Setup.Corpora), 1)
	tb := Table{Cursor: -1, More: true, Columns: []Column{{Title: "KL by corpus", Align: Middle, Width: name}}}
	bar := min(max((w-name)/n-columnGap-klFigureW-1, 1), 24)
	for i := range r.Setup.Corpora {
		tb.Columns = append(tb.Columns, Column{Title: klCorpusName(r.Setup, i), Width: klWidth(bar), Drop: 1})
	}
	for _, c := range p.rows.order {
		row := []string{p.candidate(c)}
		for i := range r.Results[c].Corpora {
			row = append(row, p.corpusCell(&r.Results[c].Corpora[i], bar, c))
		}
		tb.Rows = append(tb.Rows, row)
	}
	return tb.Render(p.scene.Theme, w, h)
}

// quiet is a row in one style.
func quiet(style lipgloss.Style, row []string) []string {
	for i := range row {
		row[i] = style.Render(row[i])
	}
	return row
}
