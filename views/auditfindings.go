package views

import (
	"fmt"
	"strings"

	"quantscope/analysis/lint"
	"quantscope/sessions"
)

// findingsCount is how many findings and left out matrices there are.
func (p *Audit) findingsCount() int {
	s := p.scene.Audits.Shown()
	if s == nil || s.Audit == nil {
		return 0
	}
	return len(s.Audit.Findings) + len(s.Audit.Census.Left)
}

// findingsTitle counts them by severity.
func findingsTitle(a *sessions.Audit) string {
	errors := 0
	for i := range a.Findings {
		if a.Findings[i].Severity == lint.Error {
			errors++
		}
	}
	var parts []string
	if errors > 0 {
		parts = append(parts, plural(errors, "error"))
	}
	if n := len(a.Findings) - errors; n > 0 {
		parts = append(parts, plural(n, "warning"))
	}
	if n := len(a.Census.Left); n > 0 {
		parts = append(parts, thousands(n)+" not compared")
	}
	return strings.Join(parts, " · ")
}

// findingLine is one finding, or one matrix that was not compared.
type findingLine struct {
	mark, word       string
	text, brief, fix string // brief is the text without the places that it names
	bad              bool
}

// findingList is all of them.
func (p *Audit) findingList() []findingLine {
	s := p.scene.Audits.Shown()
	if s == nil || s.Audit == nil {
		return nil
	}
	var out []findingLine
	for _, f := range s.Audit.Findings {
		line := findingLine{mark: "!", word: Clean(string(f.Severity)), fix: oneLine(f.Fix)}
		if f.Severity == lint.Error {
			line.mark, line.bad = "×", true
		}
		where := strings.Join(strings.Fields(strings.Join([]string{f.ID, f.File, f.Tensor}, " ")), "  ")
		line.text, line.brief = Clean(where)+": "+oneLine(f.Message), Clean(f.ID)+": "+oneLine(f.Message)
		out = append(out, line)
	}
	for _, l := range s.Audit.Census.Left {
		text := Clean(l.Name) + ": " + oneLine(l.Reason)
		out = append(out, findingLine{mark: "–", word: "left out", text: text, brief: text})
	}
	return out
}

// findingLead is the room for the mark and the severity.
const findingLead = 11

// lead is the mark and the severity of a finding.
func (f *findingLine) lead(th *Theme) string {
	style := th.Warn
	if f.bad {
		style = th.Bad
	}
	return style.Render(Fit(f.mark+" "+f.word, findingLead))
}

// findingHeads are the findings in a line each.
func (p *Audit) findingHeads(w int) []string {
	var out []string
	for _, f := range p.findingList() {
		out = append(out, f.lead(p.scene.Theme)+p.scene.Theme.Text.Render(Truncate(f.brief, w-findingLead)))
	}
	return out
}

// findingLines are the findings in full, in lines of w cells, with what to do.
func (p *Audit) findingLines(w int) []string {
	th := p.scene.Theme
	if w <= findingLead {
		return nil
	}
	var out []string
	for _, f := range p.findingList() {
		for i, line := range wrapped(th.Text, f.text, w-findingLead) {
			lead := spaces(findingLead)
			if i == 0 {
				lead = f.lead(th)
			}
			out = append(out, lead+line)
		}
		if f.fix != "" {
			for _, line := range wrapped(th.Dim, "→ "+f.fix, w-findingLead) {
				out = append(out, spaces(findingLead)+line)
			}
		}
	}
	return out
}

// drawFindings lists them: a line each below the census, in full and from where
// the person scrolled to where they fill the screen.
func (p *Audit) drawFindings(r rect) string {
	th, lines := p.scene.Theme, p.findingLines(r.w)
	title := th.Title.Render("findings") + th.Dim.Render("  "+findingsTitle(p.scene.Audits.Shown().Audit))
	more := "%s %s more; f shows all"
	switch {
	case p.findings:
		more = "%s %s more lines"
		lines = lines[min(p.findingTop, max(len(lines)-r.h+1, 0)):]
	case len(lines) == r.h-1: // there is room for all of it
	default:
		lines = p.findingHeads(r.w)
		title += th.Dim.Render(fitting(r.w-Width(title), "  f shows them in full", ""))
	}
	room := max(r.h-1, 0)
	out := append([]string{title}, lines...)
	if hidden := len(lines) - room; hidden > 0 && room > 0 {
		out = append(out[:room], th.Dim.Render(fmt.Sprintf(more, ellipsis, thousands(hidden+1))))
	}
	return Block(out, r.w, r.h)
}
