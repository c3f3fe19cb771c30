package views

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/suite"
)

// gatesDoc is what is said of one answer, laid out once.
type gatesDoc struct {
	of    gatesDocOf
	lines []string
}

type gatesDocOf struct {
	r, base *gates.Result
	cased   gatesCaseID
	pass    int
	arm     int
	w       int
	full    bool
	theme   *Theme
	setup   *gates.Setup
}

const (
	gatesBesideW = 50 // from which the baseline's output stands beside
	gatesAsksIn  = 3  // lines of a prompt, where the case does not fill the screen
	gatesToolsIn = 6  // tools that are named
)

// caseLines is what was asked and answered in the selected case, in lines of w cells.
func (p *Gates) caseLines(w int) []string {
	if p.cased.probe < 0 || w < 4 {
		return nil
	}
	s := p.book.run.Setup
	key := gates.Key{Arm: p.arm, Probe: p.cased.probe, Case: p.cased.of, Pass: p.pass}
	r := p.book.result(key)
	var base *gates.Result
	if p.arm != s.Baseline() {
		key.Arm = s.Baseline()
		base = p.book.result(key)
	}
	of := gatesDocOf{r, base, p.cased, p.pass, p.arm, w, p.full, p.scene.Theme, s}
	if p.doc.of != of || p.doc.lines == nil {
		p.doc = gatesDoc{of, p.makeDoc(&s.Probes[p.cased.probe], r, base, w)}
	}
	return p.doc.lines
}

func (p *Gates) makeDoc(probe *suite.Probe, r, base *gates.Result, w int) []string {
	th := p.scene.Theme
	c := &probe.Cases[p.cased.of]
	title := "case " + steady(c.ID)
	if p.full {
		title = steady(probe.ID) + ", " + title
	}
	if probe.Passes > 1 {
		title += fmt.Sprintf(", pass %d of %d", p.pass+1, probe.Passes)
	}
	if p.full {
		title += "  of " + Clean(p.book.run.Setup.Arms[p.arm].Label)
	}
	lines := []string{th.Title.Render(Truncate(title, w))}
	if r == nil {
		lines = append(lines, th.Dim.Render(Truncate("not asked yet", w)))
		return append(lines, p.question(c, 0, w)...)
	}
	lines = append(lines, p.verdict(r, w)...)
	if text := replyWords(r); text != "" {
		lines = append(lines, wrapped(th.Dim, text, w)...)
	}
	lines = append(lines, p.caseDrafts(r, w)...)
	if p.full {
		if probe.Set.System != "" {
			lines = append(lines, p.labelled("system", probe.Set.System, w, 0)...)
		}
		if len(c.Tools) > 0 {
			lines = append(lines, wrapped(th.Dim, "tools: "+toolNames(c.Tools), w)...)
		}
		if r.Nonce != "" {
			lines = append(lines, th.Dim.Render(Truncate("nonce before the text: "+steady(r.Nonce), w)))
		}
	}
	turns := max(len(c.Turns), 1)
	for t := range turns {
		if turns > 1 {
			lines = append(lines, "", th.Title.Render(fmt.Sprintf("turn %d of %d", t+1, turns)))
		} else if p.full {
			lines = append(lines, "")
		}
		lines = append(lines, p.question(c, t, w)...)
		lines = append(lines, p.answered(r, base, t, w)...)
		if t >= len(r.Answer.Replies)-1 && t+1 < turns && (base == nil || t >= len(base.Answer.Replies)-1) {
			lines = append(lines, th.Dim.Render(Truncate(fmt.Sprintf("the other %d turns were not asked", turns-t-1), w)))
			break
		}
	}
	if p.full && strings.ContainsRune(strings.Join(lines, ""), markStand) {
		lines = append(lines, "", th.Dim.Render(Truncate(string(markStand)+" is a mark that terminals set in different widths", w)))
	}
	return lines
}

// verdict is the grader's, with its sign.
func (p *Gates) verdict(r *gates.Result, w int) []string {
	th := p.scene.Theme
	mark, style, text := "✓ ", th.Good, steady(r.Verdict.Reason)
	if !r.Verdict.Passed {
		mark, style = gatesGlyph(r)+" ", th.Bad
		if f := string(r.Verdict.Fault); f != "" {
			text = Clean(f) + ": " + text
		}
	}
	if r.Answer.Error != "" && !strings.Contains(text, steady(r.Answer.Error)) {
		text += "; " + steady(r.Answer.Error)
	}
	var out []string
	for i, line := range wrapped(th.Text, text, w-2) {
		if i == 0 {
			out = append(out, style.Render(mark)+line)
		} else {
			out = append(out, "  "+line)
		}
	}
	return out
}

// replyWords are the figures of an answer: tokens, time, how it ended.
func replyWords(r *gates.Result) string {
	var parts []string
	tokens, retries := 0, 0
	var total, first time.Duration
	finish := ""
	for i := range r.Answer.Replies {
		q := &r.Answer.Replies[i]
		tokens += max(q.CompletionTokens, 0)
		retries += q.Retries
		total += q.Total
		if i == 0 {
			first = q.First
		}
		finish = q.Finish
	}
	if tokens > 0 {
		parts = append(parts, plural(tokens, "token"))
	}
	if total > 0 {
		parts = append(parts, gatesTime(total))
	}
	if first > 0 {
		parts = append(parts, "first after "+gatesTime(first))
	}
	if finish != "" {
		parts = append(parts, "ended by "+steady(finish))
	}
	parts = append(parts, fmt.Sprintf("seed %d", r.Seed))
	for _, f := range []struct{ key, noun string }{{"replacement", "U+FFFD or broken character"}, {"control", "control character"}} {
		if n := int(r.Verdict.Figures[f.key]); n > 0 {
			parts = append(parts, plural(n, f.noun))
		}
	}
	if retries > 0 {
		parts = append(parts, plural(retries, "retry"))
	}
	return strings.Join(parts, " · ")
}

// gatesTime writes how long something took.
func gatesTime(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func toolNames(tools []chat.Tool) string {
	var names []string
	for i := range tools {
		if i == gatesToolsIn {
			names = append(names, moreText(len(tools)-i))
			break
		}
		names = append(names, steady(tools[i].Name))
	}
	return strings.Join(names, ", ")
}

// labelled is a text under a quiet label in front of its first line, in at most so
// many lines; 0 is all.
func (p *Gates) labelled(label, text string, w, most int) []string {
	th := p.scene.Theme
	lead := label + "  "
	lines := gatesText(th, th.Text, text, nil, w-Width(lead))
	if len(lines) == 0 {
		lines = []string{th.Dim.Render("(nothing)")}
	}
	if most > 0 && len(lines) > most {
		rest := len(lines) - most + 1
		lines = append(slices.Clone(lines[:most-1]), th.Dim.Render(Truncate(moreText(rest)+" lines: enter shows all", w-Width(lead))))
	}
	for i := range lines {
		if i == 0 {
			lines[i] = th.Dim.Render(lead) + lines[i]
		} else {
			lines[i] = spaces(Width(lead)) + lines[i]
		}
	}
	return lines
}

// question is what was asked in a turn.
func (p *Gates) question(c *suite.Case, turn, w int) []string {
	most := gatesAsksIn
	if p.full {
		most = 0
	}
	switch {
	case turn < len(c.Turns):
		return p.labelled("asked", c.Turns[turn].User, w, most)
	case len(c.Turns) == 0:
		return p.labelled("goes on", c.Prompt, w, most)
	}
	return nil
}

// answered is what came back in a turn, with the baseline's beside it or below.
func (p *Gates) answered(r, base *gates.Result, turn, w int) []string {
	th := p.scene.Theme
	if base == nil {
		head := p.outputHead(p.arm, r, turn, w)
		return append([]string{head}, p.output(r, turn, w)...)
	}
	at := p.book.run.Setup.Baseline()
	said := p.sameWords(r, base, turn)
	if w < gatesBesideW {
		lines := append([]string{p.outputHead(p.arm, r, turn, w)}, p.output(r, turn, w)...)
		lines = append(lines, p.outputHead(at, base, turn, w))
		if said == gatesSame {
			return append(lines, th.Dim.Render(Truncate(said, w)))
		}
		return append(lines, p.output(base, turn, w)...)
	}
	half := (w - 3) / 2
	a := append([]string{p.outputHead(p.arm, r, turn, half)}, p.output(r, turn, half)...)
	b := append([]string{p.outputHead(at, base, turn, half)}, p.output(base, turn, half)...)
	if said != "" {
		b[0] = Fit(b[0]+th.Dim.Render("  "+said), half)
	}
	return besideRule(th, a, b, half)
}

const gatesSame = "the same text"

// sameWords says whether the baseline's output is the same, or where they part.
func (p *Gates) sameWords(r, base *gates.Result, turn int) string {
	if turn >= len(r.Answer.Replies) || turn >= len(base.Answer.Replies) {
		return ""
	}
	a, b := &r.Answer.Replies[turn], &base.Answer.Replies[turn]
	if a.Text == b.Text && slices.Equal(a.ToolCalls, b.ToolCalls) {
		return gatesSame
	}
	if a.Text == b.Text {
		return "other calls"
	}
	n := 0
	for n < len(a.Text) && n < len(b.Text) && a.Text[n] == b.Text[n] {
		n++
	}
	return "differs from byte " + thousands(n) + " on"
}

// outputHead names whose output stands below.
func (p *Gates) outputHead(arm int, r *gates.Result, turn, w int) string {
	sign, style := gatesGlyph(r), p.scene.Theme.Good
	if !r.Verdict.Passed {
		style = p.scene.Theme.Bad
	}
	return Truncate(style.Render(sign)+" "+p.armName(arm, max(min(w-2, 28), 1)), w)
}

// output is what came back in a turn: the text with what its verdict speaks of marked,
// calls, and what was thought before.
func (p *Gates) output(r *gates.Result, turn, w int) []string {
	th := p.scene.Theme
	if turn >= len(r.Answer.Replies) {
		text := "no answer"
		if r.Answer.Error != "" {
			text += ": " + steady(r.Answer.Error)
		}
		return wrapped(th.Bad, text, w)
	}
	q := &r.Answer.Replies[turn]
	var lines []string
	if q.Reasoning != "" {
		lines = append(lines, th.Dim.Render(Truncate("thought before:", w)))
		lines = append(lines, gatesText(th, th.Dim, q.Reasoning, nil, w)...)
	}
	var marks [][2]int
	for _, m := range r.Verdict.Marks {
		if m.Turn == turn && m.At[0] >= 0 && m.At[1] > m.At[0] && m.At[0] < len(q.Text) {
			marks = append(marks, m.At)
		}
	}
	text := gatesText(th, th.Text, q.Text, marks, w)
	if len(text) == 0 && len(q.ToolCalls) == 0 {
		text = []string{th.Bad.Render(Truncate("(empty)", w))}
	}
	lines = append(lines, text...)
	for i := range q.ToolCalls {
		c := &q.ToolCalls[i]
		lines = append(lines, gatesText(th, th.Accent, "call "+c.Name+" "+c.Arguments, nil, w)...)
	}
	if len(r.Answer.Replies)-1 == turn && r.Answer.Error != "" {
		lines = append(lines, wrapped(th.Bad, "then: "+steady(r.Answer.Error), w)...)
	}
	return lines
}

// drawText is the selected case below the list.
func (p *Gates) drawText(w, h int) string {
	lines := p.caseLines(w)
	return Block(p.scrolled(lines, 0, w, h), w, h)
}

// fullLines is what fills the screen.
func (p *Gates) fullLines() []string {
	if !p.shown() {
		return nil
	}
	if p.focus == gatesChecks {
		return p.checkFull(p.w)
	}
	return p.caseLines(p.w)
}
