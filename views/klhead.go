package views

import (
	"fmt"

	"quantscope/sessions"
)

// head says what the figures mean, and how far they are of the whole.
func (p *KL) head() []string {
	th, r := p.scene.Theme, p.rows.report
	if r == nil {
		return nil
	}
	lines := 1
	switch {
	case p.w >= klRoomyW && p.h >= klRoomyH:
		lines = 2
	case p.h >= 16:
		lines = 2
	}
	var out []string // always as many lines, so that the table stays where it is
	if line := p.running(); line != "" {
		out = append(out, line)
	}
	if p.scene.KL.Err != "" {
		out = append(out, th.Bad.Render(TruncateMiddle("✗ "+Clean(p.scene.KL.Err), p.w)))
	}
	if room := lines - len(out); room > 0 {
		out = append(out, wrappedTo(th.Text, p.sentence(), p.w, room)...)
	}
	if len(out) < lines {
		text := p.floorSentence()
		if on := p.calibratedOn(); on != "" {
			text = on
		}
		out = append(out, th.Dim.Render(fitting(p.w, text, Truncate(text, p.w))))
	}
	return out
}

// floorSentence says what the ruler itself can tell apart, "" where that was not
// measured.
func (p *KL) floorSentence() string {
	for c := range p.rows.report.Results {
		if v := p.rows.report.Results[c].All.KL; p.rows.party(c).Floor && isNumber(v) {
			return "The ruler's floor is " + klFigure(v) + ": what is not well above it says nothing."
		}
	}
	return ""
}

// running is the line of what is under way, "" where all is scored.
func (p *KL) running() string {
	th, w, y := p.scene.Theme, &p.scene.KL, p.yard()
	if y == nil || p.rows.report == nil {
		return ""
	}
	all, done := 0, len(y.Chunks)
	for i := range y.Setup.Corpora {
		all += len(y.Setup.Corpora[i].IDs)
	}
	of := fmt.Sprintf("%d of %s scored", done, plural(all, "chunk"))
	mine := w.running(w.At)
	switch {
	case y.End != nil && y.End.State == sessions.RunFinished && done >= all && !mine:
		return ""
	case y.End != nil && !mine, done < all && !mine && p.scene.Mode == sessions.Saved: // nobody goes on with it
		text := "■ interrupted: " + of
		if y.End != nil {
			text = fmt.Sprintf("■ %s: %s", y.End.State, of)
			if y.End.Reason != "" {
				text += ": " + Clean(y.End.Reason)
			}
		}
		figures := "; figures are of those"
		if goes := figures + ", R goes on"; w.measureOff() == "" && Width(text+goes) <= p.w {
			figures = goes
		}
		return th.Warn.Render(Truncate(text, p.w)) + th.Dim.Render(fitting(p.w-Width(text), figures, ""))
	case mine && w.Paused:
		return th.Warn.Render("‖ paused: "+of) + th.Dim.Render("  space goes on, X ends it")
	case done < all:
		line := th.Accent.Render("▶ ") + th.Text.Render(of+"  ") + progressBar(th, float64(done)/float64(max(all, 1)), 16)
		figures := "  figures are of those"
		if w.Stale && len(p.rows.report.Results) > 0 {
			figures = fmt.Sprintf("  figures are of the first %d", p.rows.report.Results[0].All.Chunks)
		}
		keys := ""
		if mine {
			keys = "; space pauses, X ends it"
		}
		return Truncate(line+th.Dim.Render(fitting(p.w-Width(line), figures+keys, figures, "")), p.w)
	case mine:
		return th.Accent.Render("▶ ") + th.Text.Render(of+", "+KLStage(w.Progress.Stage))
	}
	return ""
}

// klStages are what a measurement does, in words.
var klStages = map[string]string{
	"opening": "opening checkpoints", "reference": "computing the reference", "candidates": "computing candidates", "scoring": "scoring",
	"probing": "measuring output errors", "bootstrap": "computing intervals",
}

// KLStage says what a measurement does.
func KLStage(s string) string {
	if text := klStages[s]; text != "" {
		return text
	}
	if s == "" {
		return "beginning"
	}
	return Clean(s)
}

// sentence is the verdict on the selected candidate: against its baseline where
// it has one, else against whatever it is paired with, else its figures.
func (p *KL) sentence() string {
	r := p.rows.report
	best := -1
	for i := range r.Pairs {
		pair := &r.Pairs[i]
		if pair.B != p.at && pair.A != p.at {
			continue
		}
		if other := pair.A + pair.B - p.at; p.derived(other) && !p.derived(p.at) { // a part of it is better, of course
			continue
		}
		if best < 0 || pair.B == p.at && pair.A == p.rows.party(p.at).Baseline {
			best = i
		}
	}
	if best >= 0 {
		return klSentence(r.Setup, &r.Pairs[best])
	}
	s := &r.Results[p.at].All
	text := fmt.Sprintf("%s: KL %s nats a token over %s", p.label(p.at), klMean(s.KL, s.KLErr), plural(int(s.Positions), "position"))
	if s.Why != "" {
		text += "; " + Clean(s.Why)
	}
	return text + "."
}

// without is the screen before there is a report: what a measurement is, what it
// would take in, and the key that begins it; or what runs, or why nothing can be
// measured.
func (p *KL) without() []string {
	th, w, y := p.scene.Theme, &p.scene.KL, p.yard()
	lines := []string{""}
	if p.h >= 12 {
		lines = append(lines, wrapped(th.Text, "KL divergence says how far predictions are from the reference's. A measurement takes texts through the reference and through every candidate and compares token by token, over the whole vocabulary: how far each is, where it is worst, and what the ruler itself can tell apart (its floor).", p.w)...)
		lines = append(lines, "")
	}
	switch {
	case w.running(w.At):
		mark, keys := th.Accent.Render("▶ "), "space pauses, X ends it"
		if w.Paused {
			mark, keys = th.Warn.Render("‖ paused: "), "space goes on, X ends it"
		}
		lines = append(lines, mark+th.Text.Render(KLStage(w.Progress.Stage)+" "+ellipsis)+p.share())
		if y != nil {
			lines = append(lines, wrapped(th.Dim, "Figures come with the first chunk. "+klMeasured(y), p.w)...)
		}
		return append(lines, wrapped(th.Dim, keys, p.w)...)
	case y != nil && len(y.Chunks) > 0:
		return append(lines, wrapped(th.Text, "the report is being computed "+ellipsis, p.w)...)
	}
	if w.Err != "" {
		lines = append(lines, wrapped(th.Bad, "✗ "+Clean(w.Err), p.w)...)
	}
	if y != nil {
		lines = append(lines, wrapped(th.Text, "No chunk was scored yet. "+klMeasured(y), p.w)...)
	}
	if off := w.measureOff(); off != "" {
		return append(lines, wrapped(th.Warn, off, p.w)...)
	}
	for _, text := range w.Plan {
		lines = append(lines, wrapped(th.Text, Clean(text), p.w)...)
	}
	keys := "R measures; c chooses candidates and corpora first"
	if y != nil {
		keys = "R goes on; c chooses candidates and corpora of another"
	}
	return append(append(lines, ""), wrapped(th.Accent, keys, p.w)...)
}

// share is how far what runs is, in per cent with a bar.
func (p *KL) share() string {
	th, g := p.scene.Theme, &p.scene.KL.Progress
	if g.Total <= 0 {
		return ""
	}
	share := min(float64(g.Done)/float64(g.Total), 1)
	return th.Text.Render(fmt.Sprintf("  %3.0f %%  ", 100*share)) + progressBar(th, share, min(24, max(p.w-60, 0)))
}

// klMeasured names what a measurement takes in.
func klMeasured(y *sessions.Yard) string {
	text := ""
	for i := range y.Setup.Candidates {
		if i > 0 {
			text += ", "
		}
		text += Clean(y.Setup.Candidates[i].Label)
	}
	text += " on "
	for i := range y.Setup.Corpora {
		if i > 0 {
			text += ", "
		}
		text += Clean(y.Setup.Corpora[i].Name)
	}
	return text + "."
}
