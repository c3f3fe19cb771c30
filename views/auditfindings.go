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
	count := map[lint.Severity]int{}
	for i := range a.Findings {
		count[a.Findings[i].Severity]++
	}
	var parts []string
	for _, of := range []lint.Severity{lint.Error, lint.Warning, lint.Note} {
		if n := count[of]; n > 0 {
			parts = append(parts, plural(n, string(of)))
		}
	}
	if n := len(a.Census.Left); n > 0 {
		parts = append(parts, thousands(n)+" not compared")
	}
	return strings.Join(parts, " · ")
}

// findingLine is one finding, or one matrix that was not compared.
type findingLine struct {
	mark, word       string
	text, brief, fix string        // brief is the text without the places that it names
	severity         lint.Severity // "" for what was not compared
}

// findingList is all of them.
func (p *Audit) findingList() []findingLine {
	s := p.scene.Audits.Shown()
	if s == nil || s.Audit == nil {
		return nil
	}
	var out []findingLine
	for _, f := range s.Audit.Findings {
		line := findingLine{mark: severityMarks[f.Severity], word: Clean(string(f.Severity)), fix: oneLine(f.Fix), severity: f.Severity}
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
	switch f.severity {
	case lint.Error:
		style = th.Bad
	case lint.Note:
		style = th.Dim
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

// drawFindings lists them below the census: in full where there is room for all of
// it, else a line each.
func (p *Audit) drawFindings(r rect) string {
	th, lines := p.scene.Theme, p.findingLines(r.w)
	title := th.Title.Render("findings") + th.Dim.Render("  "+findingsTitle(p.scene.Audits.Shown().Audit))
	more := "%s %s more; f shows all"
	if len(lines) != r.h-1 {
		lines = p.findingHeads(r.w)
		title += th.Dim.Render(fitting(r.w-Width(title), "  f lists them, and opens each", ""))
	}
	room := max(r.h-1, 0)
	out := append([]string{title}, lines...)
	if hidden := len(lines) - room; hidden > 0 && room > 0 {
		out = append(out[:room], th.Dim.Render(fmt.Sprintf(more, ellipsis, thousands(hidden+1))))
	}
	return Block(out, r.w, r.h)
}
