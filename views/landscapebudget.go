package views

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/analysis/landscape"
)

// sliderLine is the line of the budget's part that the bar stands in.
const sliderLine = 1

// sliderRect is where the bar of the slider stands, empty where it is not shown.
func (p *Landscape) sliderRect(l landLayout) rect {
	r := l.parts[landBudget]
	if r.empty() || r.h <= sliderLine || !p.slider.ready() {
		return rect{}
	}
	return rect{r.x, r.y + sliderLine, r.w, 1}
}

// drawBudget is the slider, what the solver answers to it, and its controls.
func (p *Landscape) drawBudget(w, h int) string {
	th, s := p.scene.Theme, &p.slider
	if !s.ready() {
		why := p.nothing()
		if p.refusal != "" {
			why = Clean(p.refusal)
		}
		return Block(append([]string{p.partTitle(landBudget, "")}, wrapped(th.Dim, why, w)...), w, h)
	}
	more := p.sizeWords(s.bits(s.budget), s.budget)
	if p.grain > 0 {
		more += " by " + grainWords(p.grain)
	}
	if !p.Answered() && p.refusal == "" {
		more += " · solving" + ellipsis
	}
	answer := int64(0)
	if p.answer != nil {
		answer = p.answer.Assignment.Bytes
	}
	lines := []string{
		p.partTitle(landBudget, more), s.line(th, answer, w), th.Dim.Render(p.sliderEnds(w)),
	}
	if h >= 18 {
		lines = append(lines, "")
	}
	switch {
	case p.refusal != "":
		lines = append(lines, wrapped(th.Bad, Clean(p.refusal), w)...)
	case p.answer == nil:
		lines = append(lines, th.Dim.Render("solving"+ellipsis))
	default:
		lines = append(lines, p.answerLines(w, h-len(lines))...)
	}
	return Block(lines, w, h)
}

// sliderEnds names the ends of the bar, and what moves it between them.
func (p *Landscape) sliderEnds(w int) string {
	s := &p.slider
	a, b := bitsText(s.bits(s.least)), bitsText(s.bits(s.most))
	room := w - Width(a) - Width(b)
	if room < 1 {
		return Truncate(a, w)
	}
	hint := fitting(room-2, "< > move · H L coarse · w writes the recipe", "< > move · w recipe", "< >", "")
	left := max((room-Width(hint))/2, 0)
	return a + spaces(left) + hint + spaces(max(room-left-Width(hint), 0)) + b
}

// bitsText writes bits per weight.
func bitsText(v float64) string { return number("%.2f", v) }

// sizeText writes bytes as people say them: 6.29 MB.
func sizeText(bytes int64) string {
	v := float64(bytes)
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if v >= 0.9995*u.size {
			return fmt.Sprintf("%.3g %s", v/u.size, u.name)
		}
	}
	return thousands(bytes) + " B"
}

// answerLines is the answer in at most room lines: its figures, whether it beats
// its controls, the counts, the controls.
func (p *Landscape) answerLines(w, room int) []string {
	th, a := p.scene.Theme, p.answer
	x := &a.Assignment
	figures := []string{
		th.Dim.Render("mean rel2 ") + th.Text.Render(digits4(x.Error)),
		th.Dim.Render("bound ") + th.Text.Render(digits4(x.Bound)),
		th.Dim.Render("gap ") + th.Text.Render(gapText(x)),
	}
	if size := p.sizeWords(x.Bits, x.Bytes); !p.Answered() || size != p.sizeWords(p.slider.bits(p.slider.budget), p.slider.budget) {
		figures = append([]string{th.Text.Render(size)}, figures...) // else the title says it
	}
	lines := flow(figures, w, 2)
	if a.Verdict != "" {
		style := th.Warn
		if a.Beats {
			style = th.Good
		}
		lines = append(lines, wrappedTo(style, Clean(a.Verdict), w, max(room/3, 2))...)
	}
	controls, counts := p.controlLines(w, true), p.countLines(w)
	var notes []string
	for _, note := range x.Notes {
		notes = append(notes, wrapped(th.Dim, Clean(note), w)...)
	}
	switch need := len(lines) + len(counts) + len(controls) + len(notes); {
	case room > need:
		lines = append(lines, "")
	case room < need:
		controls = p.controlLines(w, false)
	}
	lines = slices.Concat(lines, counts, controls, notes)
	if room = max(room, 0); len(lines) > room {
		hidden := len(lines) - room
		lines = lines[:room]
		if room > 0 {
			lines[room-1] = th.Dim.Render(Truncate(fmt.Sprintf("%s %s more lines", ellipsis, thousands(hidden+1)), w))
		}
	}
	return lines
}

// sizeWords is a size as bits per weight and as bytes.
func (p *Landscape) sizeWords(bits float64, bytes int64) string {
	return bitsText(bits) + " bits/weight, " + sizeText(bytes)
}

// gapText is how far the answer can be from the optimum.
func gapText(a *landscape.Assignment) string {
	switch {
	case a.Exact || a.Gap == 0:
		return "0: the optimum"
	case !isNumber(a.Gap):
		return "not known"
	case a.Gap < 1e-4:
		return minus(fmt.Sprintf("%.0e", a.Gap))
	}
	return percent(a.Gap) + " %"
}

// countLines is how many matrices have each arm, with a bar of their share.
func (p *Landscape) countLines(w int) []string {
	th, a := p.scene.Theme, p.answer
	total, name, number := 0, 0, 0
	for i, n := range a.Assignment.Counts {
		total += n
		number = max(number, Width(thousands(n)))
		if i < len(a.Arms) {
			name = max(name, min(Width(Clean(a.Arms[i])), 24))
		}
	}
	var out []string
	for i, n := range a.Assignment.Counts {
		if i >= len(a.Arms) {
			break
		}
		style, mark := th.VariantStyle(i), th.VariantMark(i)
		if i == len(a.Arms)-1 {
			style, mark = th.Text, "·"
		}
		head := style.Render(mark+" "+Fit(TruncateMiddle(Clean(a.Arms[i]), name), name)) + " " + FitRight(thousands(n), number) + " "
		bar := 0
		if room := w - Width(head); total > 0 && room > 0 {
			if bar = int(math.Round(float64(n) / float64(total) * float64(room))); n > 0 {
				bar = max(bar, 1)
			}
		}
		out = append(out, head+style.Render(strings.Repeat("▆", bar)))
	}
	return out
}

// controlLines is what assignments of the same size lose that do not know the
// errors, with the spread of the random ones or in brief.
func (p *Landscape) controlLines(w int, full bool) []string {
	th, a := p.scene.Theme, p.answer
	var words []string
	for _, c := range a.Controls {
		pt, ok := controlPoint(c)
		if !ok {
			continue
		}
		text := "(" + Clean(c.Name) + ") " + digits4(pt.MeanRel2)
		if pt.High > pt.Low && full {
			text += " [" + digits4(pt.Low) + ", " + digits4(pt.High) + "]"
		}
		words = append(words, text)
	}
	if len(words) == 0 {
		return nil
	}
	if full { // in brief the brackets say that these are controls, as beside the curves
		words = append([]string{"controls:"}, words...)
	}
	lines := flow(words, w, 4)
	for i := range lines {
		lines[i] = th.Dim.Render(lines[i])
	}
	return lines
}

// controlPoint is the one point of a control of an answer.
func controlPoint(c landscape.Curve) (landscape.Point, bool) {
	if len(c.Points) == 0 {
		return landscape.Point{}, false
	}
	return c.Points[len(c.Points)-1], true
}
