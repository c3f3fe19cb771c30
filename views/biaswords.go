package views

import (
	"fmt"
	"math"

	"quantscope/sessions"
)

// biasText writes a figure with three digits.
func biasText(v float64) string {
	switch a := math.Abs(v); {
	case !isNumber(v):
		return "–"
	case a == 0:
		return "0"
	case a < 1e-4:
		return number("%.0e", v)
	}
	return number("%.3g", v)
}

// biasFixed is a figure of a column, with as many places as the column has.
func biasFixed(v float64, places int) string {
	if !isNumber(v) {
		return "–"
	}
	if math.Abs(v) < 0.5*math.Pow10(-places) {
		v = 0 // without a sign
	}
	return number(fmt.Sprintf("%%.%df", places), v)
}

// biasFixedSigned is biasFixed with its sign.
func biasFixedSigned(v float64, places int) string {
	if text := biasFixed(v, places); isNumber(v) && v >= 0.5*math.Pow10(-places) {
		return "+" + text
	}
	return biasFixed(v, places)
}

// Places of the columns: errors, gains and shifts have four, what leans has five.
const (
	errorPlaces = 4
	leanPlaces  = 5
)

// biasSigned is a figure with its sign.
func biasSigned(v float64) string {
	if isNumber(v) && v > 0 {
		return "+" + biasText(v)
	}
	return biasText(v)
}

// head says how far the look is, why it failed, and what is to be seen.
func (p *Bias) head(lines int) []string {
	th := p.scene.Theme
	var out []string
	if line := p.running(); line != "" {
		out = append(out, line)
	}
	if p.scene.Bias.Err != "" {
		out = append(out, th.Bad.Render(TruncateMiddle("✗ "+Clean(p.scene.Bias.Err), p.w)))
	}
	if room := lines - len(out); room > 0 {
		out = append(out, wrappedTo(th.Text, p.sentence(p.w*room), p.w, room)...)
	}
	return out
}

// running is the line of what is under way, "" where all is found.
func (p *Bias) running() string {
	th, w, run := p.scene.Theme, &p.scene.Bias, p.run()
	mine := w.running(w.At)
	switch {
	case run == nil || run.End != nil && run.End.State == string(sessions.RunFinished) && !mine:
		return ""
	case mine && w.Paused:
		return Truncate(th.Warn.Render("‖ paused: "+BiasStage(w.Progress.Stage)+p.place())+th.Dim.Render("  space goes on, X ends it"), p.w)
	case mine:
		line := th.Accent.Render("▶ ") + th.Text.Render(BiasStage(w.Progress.Stage)+p.place()+"  ")
		if g := &w.Progress; g.Of > 0 {
			share := min(float64(g.Done)/float64(g.Of), 1)
			line += progressBar(th, share, 16) + th.Text.Render(fmt.Sprintf(" %.0f %%", 100*share))
		}
		return Truncate(line+th.Dim.Render(fitting(p.w-Width(line), "  space pauses, X ends it", "")), p.w)
	case run.End != nil:
		text := "■ " + Clean(run.End.State)
		if run.End.Reason != "" {
			text += ": " + Clean(run.End.Reason)
		}
		return th.Warn.Render(Truncate(text+"; figures are of what was found before", p.w))
	case p.scene.Mode == sessions.Saved:
		return th.Warn.Render(Truncate("■ never ended: figures are of what was found", p.w))
	}
	return th.Accent.Render("▶ ") + th.Text.Render(Truncate("being looked at by another", max(p.w-2, 0)))
}

// place is the layer that is at work.
func (p *Bias) place() string {
	if g := &p.scene.Bias.Progress; g.Layer >= 0 && (g.Stage == "weights" || g.Stage == "passing") {
		return ", layer " + thousands(g.Layer)
	}
	return ""
}

// sentence is what holds between the selected candidate and one of about equal weight
// error, else what was found of it, in about so many cells.
func (p *Bias) sentence(room int) string {
	r := p.known.report
	q := p.partner()
	if q == nil {
		return p.alone()
	}
	a, b := p.name(q.A), p.name(q.B)
	larger, short := "", ""
	if n, more := max(q.BiasA, q.BiasB), a; n > 0 {
		if q.BiasB > q.BiasA {
			more = b
		}
		larger = fmt.Sprintf(", larger under %s in %d of %d", more, n, q.Layers)
		short = larger + " layers"
	}
	kl := ""
	if da, db := r.DivergenceOf(q.A), r.DivergenceOf(q.B); da != nil && db != nil {
		kl = fmt.Sprintf("KL %s and %s", klFigure(da.KL), klFigure(db.KL))
		if q.Chunks > 1 && !q.Apart() {
			kl += ", not told apart"
		}
	}
	last := fmt.Sprintf("%s and %s", biasSigned(q.LastA.Bias), biasSigned(q.LastB.Bias))
	ends := func(text string) string {
		if kl != "" {
			text += "; " + kl
		}
		return text + "."
	}
	if q.Layers == 0 {
		return ends(fmt.Sprintf("%s and %s have about equal weight error (%s, %s)", a, b, biasText(q.RelA), biasText(q.RelB)))
	}
	return fitting(room-room/10,
		ends(fmt.Sprintf("%s and %s have about equal weight error (%s, %s) and a bias of %s and %s a matrix; after the layers their streams have %s%s",
			a, b, biasText(q.RelA), biasText(q.RelB), biasText(q.AbsA), biasText(q.AbsB), last, larger)),
		ends(fmt.Sprintf("%s and %s: equal error (%s, %s), bias of the stream %s%s", a, b, biasText(q.RelA), biasText(q.RelB), last, short)),
		ends(fmt.Sprintf("%s and %s: equal error, bias of the stream %s", a, b, last)))
}

// alone is what was found of a candidate that nobody's error is equal to.
func (p *Bias) alone() string {
	r := p.known.report
	text := p.name(p.at)
	switch w := r.Total(p.at); {
	case w == nil:
		text += ": its matrices are being compared"
	case w.Tensors == 0:
		text += ": the reference's weights"
	default:
		text += fmt.Sprintf(": weights off by %s with a bias of %s", biasText(w.RelL2), biasSigned(w.Bias))
	}
	if row := p.newest(p.at); row != nil && row.Layer >= 0 {
		text += fmt.Sprintf("; the stream after layer %d off by %s, bias %s, gain %s", row.Layer, biasText(row.Rel), biasSigned(row.Bias), biasSigned(row.Gain))
	}
	if d := r.DivergenceOf(p.at); d != nil {
		text += "; KL " + klMean(d.KL, d.StdErr)
	}
	return text + "."
}

// without is the pane before there is anything: what a look is, what it would take in,
// and the key that begins it; or what runs, or why nothing can be looked at.
func (p *Bias) without() []string {
	th, w := p.scene.Theme, &p.scene.Bias
	lines := []string{""}
	if p.h >= 12 {
		lines = append(lines, wrapped(th.Text, "Rounding errors can lean to one side. A look compares the weights of every candidate with the reference's, takes text through all of them at once, and holds what each layer adds against the reference's: how large errors are, whether they have a sign, and whether that grows with depth.", p.w)...)
		lines = append(lines, "")
	}
	if w.Running {
		mark, keys := th.Accent.Render("▶ "), "space pauses, X ends it"
		if w.Paused {
			mark, keys = th.Warn.Render("‖ paused: "), "space goes on, X ends it"
		}
		return append(append(lines, mark+th.Text.Render(BiasStage(w.Progress.Stage)+" "+ellipsis)), wrapped(th.Dim, keys, p.w)...)
	}
	if w.Err != "" {
		lines = append(lines, wrapped(th.Bad, "✗ "+Clean(w.Err), p.w)...)
	}
	if off := w.runOff(); off != "" {
		return append(lines, wrapped(th.Warn, off, p.w)...)
	}
	for _, text := range w.Plan {
		lines = append(lines, wrapped(th.Text, Clean(text), p.w)...)
	}
	return append(append(lines, ""), wrapped(th.Accent, "R looks; c chooses candidates and corpora first", p.w)...)
}
