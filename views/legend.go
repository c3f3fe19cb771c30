package views

import (
	"fmt"
	"strings"
)

// ScaleLegend is one line of exactly w cells: the lower limit, the colours in
// order, the upper limit, which percentiles the limits are, and then as much of
// what the glyphs mean as there is room for. The format is of fmt, for one
// value.
func (t *Theme) ScaleLegend(s Scale, format string, w int) string {
	lo, hi := number(format, s.Lo), number(format, s.Hi)
	if s.Count == 0 {
		lo, hi = "–", "–"
	}
	room := w - Width(lo) - Width(hi) - 2
	if room < 3 {
		return Fit(t.Dim.Render(lo+" … "+hi), w)
	}
	parts := []string{t.Text.Render(lo) + " " + t.rampBar(s, min(room, rampSteps, max(8, w/5))) + " " + t.Text.Render(hi)}
	used, full := Width(parts[0]), false
	add := func(glyph, word string) {
		n := 3 + Width(glyph) + 1 + Width(word)
		if full = full || used+n > w; !full {
			parts = append(parts, glyph+" "+t.Dim.Render(word))
			used += n
		}
	}
	limits := "1–99 %"
	if s.Diverging {
		limits = "±99 %"
	}
	if s.Count > 0 && used+1+Width(limits) <= w {
		parts[0] += " " + t.Faint.Render(limits)
		used += 1 + Width(limits)
	}
	add(t.stateGlyph(NotYet), "not yet")
	if !s.Diverging {
		add(t.clippedSample(), "deep clips")
	}
	add(t.stateGlyph(NotFinite), "not finite")
	add(t.stateGlyph(Failed), "failed")
	add(t.stateGlyph(Filtered), "filtered")
	if n := s.Under + s.Over; n > 0 {
		if text := fmt.Sprintf("%d beyond", n); !full && used+3+Width(text) <= w {
			parts = append(parts, t.Faint.Render(text))
		}
	}
	return Fit(strings.Join(parts, "   "), w)
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

// clippedSample shows how a clipped cell looks.
func (t *Theme) clippedSample() string {
	c := t.ramp[len(t.ramp)*2/3]
	if t.solid {
		return t.paint("╱", c.bg, c.hatch)
	}
	return t.paint(c.clipped, c.fg)
}
