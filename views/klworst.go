package views

import (
	"fmt"
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// drawWorst lists the worst positions of the selected candidate: KL, corpus, the
// text with the token that is to be predicted marked, and what each says.
func (p *KL) drawWorst(w, h int) string {
	th := p.scene.Theme
	label := Clean(p.rows.party(p.at).Label)
	title := th.Title.Render("worst positions") + th.Dim.Render(fitting(w-15, "  of "+label+": the next token is marked", "  of "+label, ""))
	if len(p.rows.worst) == 0 {
		return Block([]string{title, th.Dim.Render("no position has a figure")}, w, h)
	}
	says := 9
	if w >= 90 {
		says = 14
	}
	tb := Table{Cursor: -1, Marked: true, More: true, Dense: w < klRoomyW, Columns: []Column{
		{Title: "KL", Align: Right, Width: 6}, {Title: "corpus", Width: 6, Drop: 3}, {Title: "text", Flex: 1, Min: 16},
		{Title: "reference", Width: says, Drop: 1}, {Title: "candidate", Width: says, Drop: 1},
	}}
	for i := range p.rows.worst {
		tb.Columns[1].Width = min(max(tb.Columns[1].Width, Width(p.rows.worst[i].corpus)), 10)
	}
	const column = 2
	room := tb.columnWidth(column, w)
	n := len(p.rows.worst)
	from, to := p.worst.window(n, h-1)
	for i := from; i < to; i++ {
		k := &p.rows.worst[i]
		tb.Rows = append(tb.Rows, []string{
			klShort(k.KL), th.Dim.Render(k.corpus), k.marked(th, room), klToken(k.ref), klToken(k.cand),
		})
	}
	tb.Left = n - len(tb.Rows)
	if p.level == klPositions {
		tb.Cursor = p.worst.selected - from
	}
	return Block([]string{title}, w, 1) + "\n" + tb.Render(th, w, h-1)
}

// marked is the text in w cells with the token marked: as much of what follows
// as a third of the room holds, and of what comes before as is left.
func (k *klPlace) marked(th *Theme, w int) string {
	if w <= 0 {
		return ""
	}
	token := Truncate(klBytes(k.token), max(w-2, 1))
	rest := max(w-Width(token)-2, 0)
	const bytes = 6 // of a cell, at most, in all but the oddest texts
	before, after := steady(k.before[max(len(k.before)-bytes*w, 0):]), steady(k.after[:min(len(k.after), bytes*w)])
	behind := min(Width(after), max(rest/3, rest-Width(before)))
	front := tailOf(before, rest-behind)
	after = Truncate(after, behind)
	return spaces(rest-Width(after)-Width(front)) + th.Dim.Render(front) + th.Accent.Render("«"+token+"»") + th.Dim.Render(after)
}

// tailOf is the end of a text without styles in at most w cells.
func tailOf(s string, w int) string {
	n := Width(s)
	if n <= w {
		return s
	}
	if w <= 1 {
		return ""
	}
	if s = ansi.TruncateLeft(s, n-w+1, ""); Width(s) > w-1 { // a wide character was not cut in two
		s = ansi.TruncateLeft(s, 2, "")
	}
	return ellipsis + s
}

// drawPosition is all that is known of the selected position: its text, and what
// the reference and every candidate say there.
func (p *KL) drawPosition(w, h int) string {
	th := p.scene.Theme
	if p.worst.selected >= len(p.rows.worst) {
		return Block(nil, w, h)
	}
	k := &p.rows.worst[p.worst.selected]
	where := fmt.Sprintf("%s, chunk %s, position %s", k.corpus, thousands(k.Chunk), thousands(k.At+1))
	lines := []string{th.Title.Render("KL "+klShort(k.KL)) + th.Dim.Render(fitting(w-Width("KL "+klShort(k.KL)),
		"  "+where+fmt.Sprintf("  the %s worst of %s", klOrdinal(p.worst.selected+1), Clean(p.rows.party(p.at).Label)), "  "+where, ""))}
	table := p.whoSays(k)
	texts := max(h-len(lines)-len(table.Rows)-3, 1)
	if p.level != klFull {
		texts = min(texts, 3)
	}
	wrapped := p.rows.whole(k).wrapped(th, w, texts)
	lines = append(lines, wrapped...)
	if p.level == klFull && strings.ContainsRune(strings.Join(wrapped, ""), markStand) {
		lines = append(lines, th.Dim.Render(Truncate(string(markStand)+" is a mark that terminals set in different widths", w)))
	}
	if rest := h - len(lines) - 1; rest > 1 {
		if rest > len(table.Rows)+1 {
			lines = append(lines, "")
		} else {
			rest++
		}
		table.Cursor = -1
		if p.level == klFull {
			rest = min(rest, len(table.Rows)+1)
		}
		const wide = 84 // beyond which the figures are far from what they are of
		lines = append(lines, strings.Split(table.Render(th, min(w, wide), rest), "\n")...)
	}
	if rest := h - len(lines) - 1; p.level == klFull && rest >= klChartH {
		lines = append(append(lines, ""), p.drawAround(k, w, min(rest, 2*klChartH))...)
	}
	return Block(lines, w, h)
}

// drawAround is the selected candidate's KL in the chunk of a position: whether
// that stands alone, or the text around it is as hard.
func (p *KL) drawAround(k *klPlace, w, h int) []string {
	th := p.scene.Theme
	c := p.rows.chunk(k.Corpus, k.Chunk)
	if c == nil || len(c.Ref) < 2 || p.at >= len(c.Rows) {
		return nil
	}
	n := min(max(w-8, 2), len(c.Ref)) // columns; of what falls into one the largest is drawn
	values := make([]float64, n)
	for i := range values {
		values[i] = math.NaN()
	}
	for i, row := range c.Rows[p.at] {
		if at := min(i*n/len(c.Ref), n-1); isNumber(row.KL) && !(row.KL < values[at]) {
			values[at] = row.KL
		}
	}
	series := []Series{{Variant: p.rows.inks[p.at], Values: values}}
	label := "  of " + p.label(p.at)
	title := th.Title.Render("KL in the chunk") + th.Dim.Render(fitting(w-15, label+", by position, the largest of each column", label, ""))
	chart := klChart(th, series, w, h-1, func(cells int) []tick {
		at := func(i int) tick {
			return tick{int(math.Round(float64(i) / float64(len(c.Ref)-1) * float64(cells-1))), thousands(c.First + i + 1)}
		}
		here := at(k.At - c.First)
		here.label = "▲" + here.label
		var out []tick
		const apart = 12
		if first := at(0); here.at-first.at >= apart {
			out = append(out, first)
		}
		out = append(out, here)
		if last := at(len(c.Ref) - 1); last.at-here.at >= apart {
			out = append(out, last)
		}
		return out
	})
	return append([]string{title}, strings.Split(chart, "\n")...)
}

// klOrdinal is 1st, 2nd, 3rd, 4th.
func klOrdinal(n int) string {
	end := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			end = "st"
		case 2:
			end = "nd"
		case 3:
			end = "rd"
		}
	}
	return thousands(n) + end
}

// wrapped sets the text around the token in at most so many lines of w cells,
// so that the token is in the last third of them.
func (k *klPlace) wrapped(th *Theme, w, most int) []string {
	if w < 4 || most < 1 {
		return nil
	}
	token := "«" + Truncate(klBytes(k.token), max(w-2, 1)) + "»"
	after := steady(k.after)
	room := most*w - Width(token)
	before := steady(k.before)
	behind := min(Width(after), max(room/4, room-Width(before)-most, 0))
	front := tailOf(before, max(room-behind-most, 0))
	// Plain lines of w cells are cut first and coloured afterwards: the token may
	// stand over the end of one.
	type piece struct {
		text string
		mark bool
	}
	lines := []string{""}
	used := 0
	for _, part := range []piece{{front, false}, {token, true}, {after, false}} {
		text := part.text
		for text != "" {
			n, cells := prefix(text, w-used)
			if n == 0 {
				if used == 0 || len(lines) == most {
					break
				}
				lines, used = append(lines, ""), 0
				continue
			}
			style := th.Text
			if part.mark {
				style = th.Accent
			}
			lines[len(lines)-1] += style.Render(text[:n])
			used += cells
			text = text[n:]
		}
	}
	return lines
}

// who names a candidate in a few cells.
func (p *KL) who(c int) string {
	th, party := p.scene.Theme, p.rows.party(c)
	if party.Floor {
		return "floor"
	}
	label := shortenVariant(Clean(party.Label), 20)
	if p.derived(c) && p.order == 0 {
		label = "└ " + TruncateMiddle(p.partLabel(c), 18)
	}
	return th.VariantStyle(p.rows.inks[c]).Render(label + " " + th.VariantMark(p.rows.inks[c]))
}

// whoSays is what the reference and the candidates say at a position: the first
// choice, what the next token of the text gets, and KL.
func (p *KL) whoSays(k *klPlace) Table {
	th, r := p.scene.Theme, p.rows.report
	tb := Table{More: true, Columns: []Column{
		{Title: ""}, {Title: "first choice", Flex: 1, Min: 12}, {Title: "its p", Align: Right, Drop: 2}, {Title: "p(text)", Align: Right, Drop: 1}, {Title: "KL", Align: Right, Width: 6},
	}}
	c := p.rows.chunk(k.Corpus, k.Chunk)
	i := -1
	if c != nil {
		i = k.At - c.First
	}
	if c == nil || i < 0 || i >= len(c.Ref) {
		tb.Rows = [][]string{
			{"reference", klToken(k.ref), klPercent(k.MaxP), "", ""},
			{p.who(p.at), klToken(k.cand), "", "", klShort(k.KL)},
		}
		return tb
	}
	tb.Rows = append(tb.Rows, []string{th.Title.Render("reference"), klToken(k.ref), klPercent(float64(c.Ref[i].MaxP)), klPercent(math.Exp(-c.Ref[i].NLL)), ""})
	for _, cand := range p.rows.order {
		if cand >= len(c.Rows) || i >= len(c.Rows[cand]) {
			continue
		}
		row := c.Rows[cand][i]
		choice := klToken(p.rows.text(c, row.Top))
		if math.IsNaN(row.KL) {
			choice = "× not a number"
		} else if row.Top == c.Ref[i].Top {
			choice = th.Dim.Render(choice)
		}
		cells := []string{p.who(cand), choice, "", klPercent(math.Exp(-row.NLL)), klShort(row.KL)}
		if r.Setup.Candidates[cand].Floor {
			cells = quiet(th.Dim, cells)
		}
		tb.Rows = append(tb.Rows, cells)
	}
	return tb
}
