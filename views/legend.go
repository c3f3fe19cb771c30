package views

import (
	"fmt"
	"strings"
)

// glyphStates are the states that a legend explains, in its order.
var glyphStates = [...]CellState{NotYet, Clipped, BelowRank, Inactive, FellBack, NotFinite, Failed, Filtered, Absent}

// special says that a state's glyph is explained only where it stands.
func (s CellState) special() bool {
	return s == Absent || s == BelowRank || s == Inactive || s == FellBack
}

// ScaleLegend is one line of exactly w cells: the lower limit, the colours in
// order, the upper limit, which percentiles the limits are, and then as much of
// what the glyphs mean as there is room for. The format is of fmt, for one
// value.
func (t *Theme) ScaleLegend(s Scale, format string, w int) string {
	return t.legend(s, func(v float64) string { return number(format, v) }, w, [cellStates]bool{})
}

// Legend is the ScaleLegend of the map, in which the glyphs that stand on it are
// explained before those that do not, and before everything else.
func (h *Heat) Legend(text func(float64) string, w int) string {
	h.refresh()
	var occur [cellStates]bool
	for i := range h.cells {
		if c := &h.cells[i]; c.count > 0 {
			occur[c.state] = true
		}
	}
	return h.theme.legend(h.scale, text, w, occur)
}

func (t *Theme) legend(s Scale, text func(float64) string, w int, occur [cellStates]bool) string {
	lo, hi := text(s.Lo), text(s.Hi)
	if s.Count == 0 {
		lo, hi = "–", "–"
	}
	room := w - Width(lo) - Width(hi) - 2
	if room < 3 {
		return Fit(t.Dim.Render(lo+" … "+hi), w)
	}
	bar := t.Text.Render(lo) + " " + t.rampBar(s, min(room, rampSteps, max(8, w/5))) + " " + t.Text.Render(hi)
	room = w - Width(bar)
	var parts []string
	add := func(part string) bool {
		n := 3 + Width(part)
		if n > room {
			return false
		}
		parts = append(parts, part)
		room -= n
		return true
	}
	for _, st := range glyphStates {
		if occur[st] && !(s.Diverging && st == Clipped) {
			t.explain(st, add)
		}
	}
	limits := "1–99 %"
	if s.Diverging {
		limits = "±99 %"
	}
	if s.log() {
		limits += ", log"
	}
	if s.Count > 0 && 1+Width(limits) <= room {
		bar += " " + t.Faint.Render(limits)
		room -= 1 + Width(limits)
	}
	for _, st := range glyphStates {
		if !occur[st] && !st.special() && !(s.Diverging && st == Clipped) && !t.explain(st, add) {
			break
		}
	}
	if n := s.Under + s.Over; n > 0 {
		add(t.Faint.Render(fmt.Sprintf("%d beyond", n)))
	}
	return Fit(strings.Join(append([]string{bar}, parts...), "   "), w)
}

// explain adds what a state's glyph means, in the longest wording that add takes.
func (t *Theme) explain(st CellState, add func(part string) bool) bool {
	switch st {
	case NotYet:
		return add(t.stateGlyph(st) + " " + t.Dim.Render("not yet"))
	case NotFinite:
		return add(t.stateGlyph(st) + " " + t.Dim.Render("not finite"))
	case Filtered:
		return add(t.stateGlyph(st) + " " + t.Dim.Render("filtered"))
	case Absent:
		return add(t.stateGlyph(st) + " " + t.Dim.Render("has none"))
	case BelowRank:
		return add(t.stateGlyph(st) + " " + t.Dim.Render("below rank"))
	case Inactive:
		return add(t.stateGlyph(st) + " " + t.Dim.Render("inactive"))
	case FellBack:
		return add(t.stateGlyph(st) + " " + t.Dim.Render("fell back"))
	case Clipped:
		if !t.solid && add(t.clippedSample()+" "+t.Dim.Render("deep clips, by width")) {
			return true
		}
		return add(t.clippedSample() + " " + t.Dim.Render("deep clips"))
	}
	return add(t.stateGlyph(st) + " " + t.Dim.Render("failed"))
}

// rampBar draws the colours of a scale, the lower limit first, in n cells.
func (t *Theme) rampBar(s Scale, n int) string {
	cells := t.cells(s)
	var b strings.Builder
	for i := range n {
		k := i * len(cells) / n
		if 1 < n && n < len(cells) { // both ends are shown
			k = i * (len(cells) - 1) / (n - 1)
		}
		if s.Flip {
			k = len(cells) - 1 - k
		}
		c := cells[k]
		switch {
		case t.solid:
			b.WriteString(t.open(c.fg))
			b.WriteString("█")
		case c.fg != "":
			b.WriteString(t.open(c.fg))
			b.WriteString(c.glyph)
		default:
			b.WriteString(c.glyph)
		}
	}
	if cells[0].fg != "" {
		b.WriteString(reset)
	}
	return b.String()
}

// clippedSample shows how a clipped cell looks: hatched, or without solid colours
// a bar that grows to the right with the value as other cells' bars grow upwards.
func (t *Theme) clippedSample() string {
	if t.solid {
		c := t.ramp[len(t.ramp)*2/3]
		return t.paint("╱", c.bg, c.hatch)
	}
	var b strings.Builder
	for _, i := range []int{0, len(t.ramp) / 2, len(t.ramp) - 1} {
		b.WriteString(t.paint(t.ramp[i].clipped, t.ramp[i].fg))
	}
	return b.String()
}

// seriesLegend names series with their marks in w cells: in full, else by as much
// of each name as there is room for, else as many as there is room for and the
// number of the others.
func (t *Theme) seriesLegend(series []Series, w int) string {
	names, ids := make([]string, len(series)), make([]int, len(series))
	for i, s := range series {
		names[i], ids[i] = s.Name, s.Variant
	}
	return t.variantLegend(names, ids, w)
}

// variantLegend is seriesLegend by names and variants.
func (t *Theme) variantLegend(names []string, ids []int, w int) string {
	const least = 9 // cells of a name that still says something
	longest := 0
	for _, n := range names {
		longest = max(longest, Width(n))
	}
	tags := func(n, width int) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = t.VariantTag(shortenVariant(Clean(names[i]), width), ids[i])
		}
		return strings.Join(parts, "  ")
	}
	for width := longest; width >= min(least, longest); width-- {
		if line := tags(len(names), width); Width(line) <= w {
			return line
		}
	}
	for n := len(names) - 1; n > 0; n-- {
		rest := fmt.Sprintf("  +%d", len(names)-n)
		if line := tags(n, least); Width(line)+Width(rest) <= w {
			return line + t.Dim.Render(rest)
		}
	}
	return Truncate(tags(min(1, len(names)), least), w)
}
