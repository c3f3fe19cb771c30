package views

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"quantscope/analysis/yardstick"
)

// drawPairs lists the pairs with their intervals, those of the selected candidate
// in full sentences below.
func (p *KL) drawPairs(w, h int) string {
	th, r := p.scene.Theme, p.rows.report
	title := th.Title.Render("pairs") + th.Dim.Render(fitting(w-5, "  B − A with 95 % intervals over chunks, paired", "  B − A, 95 % over chunks", ""))
	tb := Table{Cursor: -1, More: true, Columns: []Column{
		{Title: "A", Align: Middle, Flex: 1, Min: 12}, {Title: "B", Align: Middle, Flex: 1, Min: 12}, {Title: "Δ KL"}, {Title: "95 %", Drop: 3}, {Title: "B is", Drop: 1}, {Title: "chunks", Align: Right, Drop: 4},
	}}
	tb.Dense = w < klRoomyW
	var changes []string
	for i := range r.Pairs {
		changes = append(changes, klChange(r.Pairs[i].DKL))
	}
	changes = AlignDecimal(changes)
	// What is left for a name beside the verdict and, where there is room, the interval.
	const least, figures, interval = 13, 25, 32
	name := max(least, (w-figures)/2)
	if w >= 2*least+figures+interval {
		name = max(least, (w-figures-interval)/2)
	}
	var said []string
	for i := range r.Pairs {
		pair := &r.Pairs[i]
		verdict := pair.Verdict()
		style, loud := map[yardstick.Verdict]lipgloss.Style{yardstick.Better: th.Good, yardstick.Worse: th.Warn, yardstick.Equal: th.Bad}[verdict]
		if !loud {
			style = th.Dim
		}
		chunks := ""
		if pair.Chunks > 0 {
			chunks = fmt.Sprintf("%d/%d", pair.Wins, pair.Chunks)
		}
		tb.Rows = append(tb.Rows, []string{
			shortenVariant(p.label(pair.A), name), shortenVariant(p.label(pair.B), name), changes[i], klInterval(pair.Low, pair.High), style.Render(string(verdict)), chunks,
		})
		if pair.A == p.at || pair.B == p.at {
			said = append(said, klSentence(r.Setup, pair))
		}
	}
	lines := []string{title}
	table := min(len(tb.Rows)+1, max(h-1, 0))
	var below []string
	for _, text := range said {
		more := wrapped(th.Text, text, w)
		if 1+table+1+len(below)+len(more) > h {
			break
		}
		below = append(below, more...)
	}
	lines = append(lines, strings.Split(tb.Render(th, w, table), "\n")...)
	if len(below) > 0 {
		lines = append(append(lines, ""), below...)
	}
	return Block(lines, w, h)
}

// label is how a party is called, "?" where there is none.
func (p *KL) label(c int) string {
	if c < 0 || c >= len(p.rows.report.Setup.Candidates) {
		return "?"
	}
	return Clean(p.rows.report.Setup.Candidates[c].Label)
}

// gates are the lines of the checks: those that failed first, and what each says;
// in short, of those that passed how many there are of a name.
func (p *KL) gates(w int, short bool) []string {
	th, r := p.scene.Theme, p.rows.report
	var lines []string
	passes := map[string]int{}
	for i := range r.Gates {
		if r.Gates[i].Passed {
			passes[r.Gates[i].Name]++
		}
	}
	for _, passed := range []bool{false, true} {
		for i := range r.Gates {
			g := &r.Gates[i]
			if g.Passed != passed {
				continue
			}
			mark, style := "✓ ", th.Good
			if !passed {
				mark, style = "✗ ", th.Bad
			}
			text, message := Clean(g.Name), Clean(g.Message)
			if g.Of >= 0 && !strings.HasPrefix(message, p.label(g.Of)) {
				text += " " + p.label(g.Of)
			}
			if n := passes[g.Name]; passed && short && n > 1 {
				text, message = Clean(g.Name), plural(n, "candidate")
				passes[g.Name] = 0
			} else if passed && short && n == 0 {
				continue
			}
			if passed { // what holds is said in a line
				line := style.Render(mark) + th.Text.Render(text) + th.Dim.Render("  "+message)
				lines = append(lines, Truncate(line, w))
				continue
			}
			for j, line := range wrapped(th.Text, text+": "+message, w-2) {
				if j == 0 {
					lines = append(lines, style.Render(mark)+line)
				} else {
					lines = append(lines, "  "+line)
				}
			}
		}
	}
	if s := r.Sane; s != nil && s.Message != "" {
		lines = append(lines, wrapped(th.Dim, Clean(s.Message), w)...)
	}
	return lines
}

func (p *KL) drawGates(w, h int) string {
	th, r := p.scene.Theme, p.rows.report
	failed := 0
	for i := range r.Gates {
		if !r.Gates[i].Passed {
			failed++
		}
	}
	title := th.Title.Render("gates") + th.Dim.Render(fmt.Sprintf("  %d of %d passed", len(r.Gates)-failed, len(r.Gates)))
	lines := p.gates(w, false)
	if len(lines) > h-1 {
		lines = p.gates(w, true)
	}
	return klListed(th, title, lines, w, h)
}

// klListed is a title and as many lines as there is room for; the last one says
// how many are not shown.
func klListed(th *Theme, title string, lines []string, w, h int) string {
	if room := h - 1; len(lines) > room && room > 0 {
		lines = append(slices.Clone(lines[:room-1]), th.Dim.Render(moreText(len(lines)-room+1)))
	}
	return Block(append([]string{title}, lines...), w, h)
}

// attribution are the lines of how rows derived from candidates add up.
func (p *KL) attribution(w int) []string {
	th, r := p.scene.Theme, p.rows.report
	var lines []string
	for i := range r.Attributed {
		a := &r.Attributed[i]
		row := func(style lipgloss.Style, label string, v float64) {
			text := klFigure(v)
			share := ""
			if a.Whole > 0 && isNumber(v) {
				share = FitRight(fmt.Sprintf("%.0f %%", 100*v/a.Whole), 7)
			}
			lines = append(lines, style.Render(Fit(Truncate(label, w-Width(text)-Width(share)-1), w-Width(text)-Width(share)))+text+share)
		}
		row(th.Title, p.label(a.Of), a.Whole)
		for _, c := range a.Rows {
			if c >= 0 && c < len(r.Results) {
				row(th.Text, "  "+p.partLabel(c), r.Results[c].All.KL)
			}
		}
		row(th.Text, "  sum", a.Sum)
		if text := Clean(a.Message); text != "" {
			lines = append(lines, wrapped(th.Dim, text, w)...)
		}
	}
	return lines
}

func (p *KL) drawAttribution(w, h int) string {
	th := p.scene.Theme
	title := th.Title.Render("attribution") + th.Dim.Render("  KL of parts alone")
	return klListed(th, title, p.attribution(w), w, h)
}

// probes are those of the selected candidate, the largest output error first.
func (p *KL) probes() []yardstick.Probe {
	var out []yardstick.Probe
	for _, b := range p.rows.report.Probes {
		if b.Candidate == p.at {
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(a, b yardstick.Probe) int {
		switch {
		case a.Output > b.Output:
			return -1
		case a.Output < b.Output:
			return 1
		}
		return 0
	})
	return out
}

// drawProbes is the error of each map's output on real inputs beside the error
// of its weights.
func (p *KL) drawProbes(w, h int) string {
	th := p.scene.Theme
	title := th.Title.Render("output errors") + th.Dim.Render(fitting(w-13, "  ‖(Ŵ−W)x‖/‖Wx‖ on real inputs, and of the weights", "  on real inputs", ""))
	tb := Table{Cursor: -1, More: true, Columns: []Column{
		{Title: p.of(), Align: Middle, Flex: 1, Min: 10}, {Title: "output", Align: Right, Width: 7}, {Title: "weights", Align: Right, Width: 7}, {Title: "ratio", Align: Right, Width: 6, Drop: 1},
	}}
	for _, b := range p.probes() {
		tb.Rows = append(tb.Rows, []string{Clean(b.Name), klFigure(b.Output), klFigure(b.Weight), number("%.2f", b.Output/b.Weight)})
	}
	if len(tb.Rows) == 0 {
		return Block([]string{title, th.Dim.Render(Truncate("none was measured of "+p.label(p.at), w))}, w, h)
	}
	return Block([]string{title}, w, 1) + "\n" + tb.Render(th, w, h-1)
}
