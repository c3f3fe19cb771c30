package views

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// Worst pane: the shown tensors ranked by the metric under the chosen variant,
// those that failed or are not finite first, with the figures and ranks under
// the other variants, and the distribution under each where there is room.
type worstPane struct {
	scene  *Scene
	w, h   int
	offset int // rank of the first row

	rank   ranking
	spread []distribution // by variant
	cursor int            // tensor the pane has scrolled to last
	drawn  worstKey
	text   string
}

// worstKey is all that the drawing depends on.
type worstKey struct {
	w, h, offset int
	version      uint64
	seq          int64
	theme        *Theme
	valid        bool
}

// NewWorst makes the pane.
func NewWorst(s *Scene) Pane { return &worstPane{scene: s, cursor: -1} }

// Title says what is ranked.
func (p *worstPane) Title() string {
	s := p.scene
	word := "worst by "
	switch {
	case s.Metric.Worse == 0:
		word = "largest by "
	case s.Metric.Name == metricTokens:
		word = "fewest "
	case s.Metric.Diverging:
		word = "farthest from 0 by "
	}
	title := word + s.Metric.Name
	if s.Variant >= 0 && s.Variant < len(s.State.Variants) {
		title += " · " + Clean(s.State.Variants[s.Variant].Name)
	}
	return title
}

// SetSize gives the pane its size.
func (p *worstPane) SetSize(w, h int) { p.w, p.h = max(w, 0), max(h, 0) }

// Apply takes in what is new. The ranking is made when it is drawn.
func (p *worstPane) Apply(b sessions.Batch) { p.scene.note(&b) }

// rows is the number of lines for tensors.
func (p *worstPane) rows() int {
	n := p.h - 1 // the header
	if p.h >= 14 {
		n -= p.footHeight()
	}
	return max(n, 0)
}

// footHeight is the lines for the distributions, a blank above them included.
func (p *worstPane) footHeight() int { return min(len(p.scene.State.Variants), 6) + 2 }

// View draws the pane.
func (p *worstPane) View() string {
	s := p.scene
	p.follow()
	key := worstKey{p.w, p.h, p.offset, s.Version, s.State.LastSeq, s.Theme, true}
	if p.drawn != key {
		p.text = p.draw()
		p.drawn = key
	}
	return p.text
}

// follow scrolls so that the tensor under the cursor is in sight when it has
// become another one.
func (p *worstPane) follow() {
	s := p.scene
	rows := p.rows()
	if rows == 0 {
		return
	}
	if s.Cursor != p.cursor {
		p.cursor = s.Cursor
		if at := p.rank.placeOf(s, s.Cursor); at >= 0 {
			switch {
			case at < p.offset:
				p.offset = at
			case at >= p.offset+rows:
				p.offset = at - rows + 1
			}
		}
	}
	p.rank.collect(p.scene)
	p.offset = max(min(p.offset, len(p.rank.order)-rows), 0)
}

func (p *worstPane) draw() string {
	s := p.scene
	th := s.Theme
	rows := p.rows()
	if p.w <= 0 || p.h <= 0 {
		return Block(nil, p.w, p.h)
	}
	p.rank.window(s, p.offset, p.offset+rows)
	if len(p.rank.order) == 0 {
		text := "nothing is measured yet"
		if slices.Contains(s.States(s.Variant), Absent) {
			text = Clean(s.State.Variants[s.Variant].Name) + " has no " + s.Metric.label()
			if why := s.notCalibrated(); why != "" {
				text = why
			}
		}
		if s.Filter.Text != "" || s.Projection != "" {
			text = "nothing measured passes the filter"
		}
		return Block(wrapped(th.Dim, text, p.w), p.w, p.h)
	}
	shown := p.rank.order[p.offset:min(p.offset+rows, len(p.rank.order))]
	tb := p.table(shown)
	tb.Cursor = slices.Index(shown, s.Cursor)
	p.reasons(&tb, shown)
	foot := p.h - 1 - rows
	if foot <= 0 {
		return tb.Render(th, p.w, p.h)
	}
	return tb.Render(th, p.w, p.h-foot) + "\n" + Block(append([]string{""}, p.distributions()...), p.w, foot)
}

// table sets the rows of the given tensors. Variants stand in their own order;
// the one that ranks is marked. Those without room are counted.
func (p *worstPane) table(shown []int) Table {
	s := p.scene
	th := s.Theme
	names := shortVariants(s.State.Variants)
	whole := p.nameWidth(shown) + 8 // names of variants, each with its mark and a gap
	for _, n := range names {
		whole += Width(n) + 4
	}
	if whole > p.w {
		for v, n := range names {
			names[v] = shortenVariant(n, 9)
		}
	}
	tb := Table{Cursor: -1, Marked: true, Columns: []Column{
		{Title: "#", Align: Right},
		{Title: "tensor", Align: Middle, Min: p.nameWidth(shown), Flex: 1},
	}}
	wide := p.w >= 30+16*(len(names)-1)
	rows := make([][]string, len(shown))
	for y, t := range shown {
		rows[y] = []string{strconv.Itoa(p.offset + y + 1), ShortName(&s.State.Tensors[t])}
		if st := s.States(s.Variant)[t]; !st.HasValue() {
			rows[y][0] = th.stateGlyph(st)
		}
	}
	others := 0
	var figures []int // columns of figures
	for v := range names {
		numbers := p.numbers(v, shown)
		title := names[v] + " " + th.VariantMark(v)
		figures = append(figures, len(tb.Columns))
		if v == s.Variant {
			tb.Columns = append(tb.Columns, Column{Title: title, Align: Right})
			for y := range rows {
				rows[y] = append(rows[y], numbers[y])
			}
			continue
		}
		others++
		tb.Columns = append(tb.Columns, Column{Title: title, Align: Right, Drop: others})
		if wide {
			tb.Columns = append(tb.Columns, Column{Title: "#", Align: Right, Drop: others})
		}
		var ranked []int
		if wide {
			ranked, _ = ranks(s, v, shown)
		}
		for y := range rows {
			rows[y] = append(rows[y], th.Dim.Render(numbers[y]))
			if wide {
				r := "–"
				if ranked[y] > 0 {
					r = strconv.Itoa(ranked[y])
				}
				rows[y] = append(rows[y], th.Faint.Render(r))
			}
		}
	}
	tb.Rows = rows
	hidden := func() (n int) {
		widths := tb.widths(p.w - tb.lead(p.w))
		for _, i := range figures {
			if widths[i] < 0 {
				n++
			}
		}
		return n
	}
	// Figures matter more than room round the mark.
	name, mark := names[s.Variant], th.VariantMark(s.Variant)
	at := figures[s.Variant]
	tb.Columns[at].Title = name + " " + mark
	least := hidden()
	for _, title := range []string{rankMark + " " + name + " " + mark, rankMark + name + " " + mark, name + rankMark + mark} {
		if tb.Columns[at].Title = title; hidden() == least {
			break
		}
	}
	if least > 0 {
		tb.Columns[1].Title = fitting(tb.columnWidth(1, p.w), "tensor · "+plural(least, "variant")+" not shown", "tensor · "+notShown(least), notShown(least), "tensor")
	}
	return tb
}

// rankMark stands at the head of the variant by which tensors are ranked.
const rankMark = "▾"

// reasons puts the reason behind the name of what failed or fell back, as much of
// it as fits.
func (p *worstPane) reasons(tb *Table, shown []int) {
	s := p.scene
	states := s.States(s.Variant)
	for y, t := range shown {
		reason := ""
		switch tr := s.Trade(s.Variant, t); {
		case states[t] == Failed:
			reason = s.Reason(s.Variant, t)
		case tr != nil && fellBack(tr):
			reason = stateGlyphs[FellBack] + " " + instead(&s.State.Variants[s.Variant], tr)
		}
		if reason != "" {
			row := tb.Rows[y]
			row[1] = Truncate(row[1]+"  "+reason, max(tb.columnWidth(1, p.w), 0))
		}
	}
}

// nameWidth is the room that the names of tensors ask for.
func (p *worstPane) nameWidth(shown []int) int {
	const least, most = 8, 24
	w := least
	for _, t := range shown {
		w = max(w, min(Width(ShortName(&p.scene.State.Tensors[t])), most))
	}
	return w
}

// numbers are the metric of tensors under a variant, aligned.
func (p *worstPane) numbers(variant int, shown []int) []string {
	s := p.scene
	values, states := s.Values(variant), s.States(variant)
	out := make([]string, len(shown))
	var measured []int
	var figures []string
	for i, t := range shown {
		switch {
		case states[t].HasValue():
			measured, figures = append(measured, i), append(figures, s.Metric.text(values[t]))
		case states[t].listed():
			out[i] = stateWords[states[t]]
		case states[t] == Absent:
			out[i] = "–"
		default:
			out[i] = stateGlyphs[NotYet]
		}
	}
	for i, text := range AlignDecimal(figures) {
		out[measured[i]] = text
	}
	return out
}

// distributions draws one sparkline a variant over one range of values.
func (p *worstPane) distributions() []string {
	s := p.scene
	th := s.Theme
	lo, hi := math.Inf(1), math.Inf(-1)
	names := shortVariants(s.State.Variants)
	nameW := 0
	for len(p.spread) < len(names) {
		p.spread = append(p.spread, distribution{})
	}
	shown := make([]int, len(names))
	for v := range names {
		shown[v] = v
		d := &p.spread[v]
		d.span(s, v)
		if d.lo <= d.hi {
			lo, hi = min(lo, d.lo), max(hi, d.hi)
		}
		nameW = max(nameW, Width(names[v])+2)
	}
	if lo > hi {
		return nil
	}
	for len(shown) > p.footHeight()-2 {
		shown = s.shed(shown)
	}
	head := fmt.Sprintf("%s from %s to %s", s.Metric.Name, compact(lo), compact(hi))
	if n := len(names) - len(shown); n > 0 {
		head += "; " + notShown(n)
	}
	lines := []string{th.Dim.Render(head)}
	bins := max(min(p.w-nameW-2, 60), 1)
	for _, v := range shown {
		d := &p.spread[v]
		d.count(s, v, bins, lo, hi)
		name := Fit(names[v]+" "+th.VariantMark(v), nameW)
		lines = append(lines, th.VariantStyle(v).Render(name+"  "+Sparkline(d.counts, bins)))
	}
	return lines
}

// HandleKey moves the cursor through the ranking.
func (p *worstPane) HandleKey(k tea.KeyMsg) (handled bool, cmd tea.Cmd) {
	page := max(p.rows()-1, 1)
	switch k.String() {
	case "up", "k":
		p.step(-1)
	case "down", "j":
		p.step(1)
	case "pgup":
		p.step(-page)
	case "pgdown":
		p.step(page)
	case "home":
		p.step(-len(p.scene.State.Tensors))
	case "end":
		p.step(len(p.scene.State.Tensors))
	case "g":
		p.step(1)
	case "G":
		p.step(-1)
	default:
		return false, nil
	}
	return true, nil
}

// step selects the tensor n places further down.
func (p *worstPane) step(n int) {
	s := p.scene
	at := p.rank.placeOf(s, s.Cursor)
	if len(p.rank.order) == 0 {
		return
	}
	switch {
	case at < 0:
		at = p.offset
	default:
		at += n
	}
	at = min(max(at, 0), len(p.rank.order)-1)
	p.rank.window(p.scene, at, at+1)
	s.SetCursor(p.rank.order[at])
}

// HandleMouse selects the row under the pointer; the wheel scrolls.
func (p *worstPane) HandleMouse(x, y int, msg tea.MouseMsg) (handled bool, cmd tea.Cmd) {
	const lines = 3
	switch {
	case msg.Button == tea.MouseButtonWheelUp:
		p.offset = max(p.offset-lines, 0)
		return true, nil
	case msg.Button == tea.MouseButtonWheelDown:
		p.rank.collect(p.scene)
		p.offset = max(min(p.offset+lines, len(p.rank.order)-p.rows()), 0)
		return true, nil
	case msg.Action == tea.MouseActionPress && msg.Button == tea.MouseButtonLeft:
		if at := p.offset + y - 1; y >= 1 && y <= p.rows() && at < len(p.rank.order) {
			p.rank.window(p.scene, at, at+1)
			p.scene.SetCursor(p.rank.order[at])
			p.cursor = p.scene.Cursor
			return true, nil
		}
	}
	return false, nil
}

// Keys lists the keys of the ranking.
func (p *worstPane) Keys() []Key {
	return []Key{
		{Keys: []string{"up", "k", "down", "j"}, Label: "↑↓ jk", Help: "next in rank"},
		{Keys: []string{"pgup", "pgdown"}, Label: "pgup pgdn", Help: "a page"},
		{Keys: []string{"home", "end"}, Label: "home end", Help: "the worst and the best"},
		{Keys: []string{"g", "G"}, Label: "g G", Help: "next worst, and back"},
	}
}
