package views

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"quantscope/analysis/lint"
	recipes "quantscope/quant/plan"
)

// auditItem is something that can be opened: a finding, a group of a recipe, or
// tensors for which something else ran.
type auditItem struct {
	severity lint.Severity // "" for what is no finding
	id       string
	place    string
	message  string

	title   string                          // of what is opened
	body    func(th *Theme, w int) []string // what is opened, without tensors
	tensors []int                           // of the session, which the map shows
	load    func() []int                    // makes tensors when they are asked for; nil where they are there
	off     string                          // why there are none
	variant int                             // to be shown with them; -1 for the one that is
}

// all are the tensors of the item.
func (i *auditItem) all() []int {
	if i.load != nil {
		i.tensors, i.load = i.load(), nil
	}
	return i.tensors
}

// severityMarks tell severities apart without colour.
var severityMarks = map[lint.Severity]string{lint.Error: "×", lint.Warning: "!", lint.Note: "·"}

// severityRank orders them, the worst first.
var severityRank = map[lint.Severity]int{lint.Error: 0, lint.Warning: 1, lint.Note: 2}

// severityText is a severity with its mark, in its colour.
func severityText(th *Theme, s lint.Severity) string {
	style := th.Dim
	switch s {
	case lint.Error:
		style = th.Bad
	case lint.Warning:
		style = th.Warn
	}
	mark := severityMarks[s]
	if mark == "" {
		mark = "–"
	}
	return style.Render(mark + " " + Clean(string(s)))
}

// leftOut is what a matrix is called that the census does not compare.
const leftOut = "not compared"

// lintItems are the findings of the audit that is shown, and the matrices that
// were not compared.
func (p *Audit) lintItems() []auditItem {
	s := p.scene.Audits.Shown()
	if s == nil || s.Audit == nil {
		return nil
	}
	var out []auditItem
	for i := range s.Audit.Findings {
		out = append(out, p.lintItem(&s.Audit.Findings[i], s))
	}
	for _, l := range s.Audit.Census.Left {
		item := auditItem{severity: lint.Note, id: leftOut, message: oneLine(l.Reason), variant: -1}
		item.place, item.tensors, item.off = p.placeOf(l.Name)
		item.title = "· " + leftOut
		name, reason := Clean(l.Name), oneLine(l.Reason)
		item.body = func(th *Theme, w int) []string {
			f := fields{th: th, w: w}
			f.name("tensor", th.Text, "", name)
			f.add("what", th.Text, reason)
			f.add("why", th.Dim, "The census compares the second-level scales of matrices that a server fuses; of this one it cannot.")
			return f.lines
		}
		out = append(out, item)
	}
	return out
}

func (p *Audit) lintItem(f *lint.Finding, s *AuditSubject) auditItem {
	item := auditItem{severity: f.Severity, id: Clean(f.ID), message: oneLine(f.Message), variant: -1}
	switch {
	case f.Tensor != "":
		item.place, item.tensors, item.off = p.placeOf(f.Tensor)
	case f.File != "":
		item.place, item.off = Clean(f.File), "the finding is about a file, "+Clean(f.File)+", not about a tensor"
	default:
		item.place, item.off = "checkpoint", "the finding is about the checkpoint as a whole, not about a tensor"
	}
	if f.Tensor == "" && f.Line > 0 {
		item.place += ":" + thousands(f.Line)
	}
	item.title = severityMarks[f.Severity] + " " + item.id
	path := Clean(s.Path)
	item.body = func(th *Theme, w int) []string {
		out := fields{th: th, w: w}
		where := Clean(f.File)
		if f.Line > 0 {
			where += ", line " + thousands(f.Line)
		}
		out.add("file", th.Text, where)
		out.name("tensor", th.Text, "", Clean(f.Tensor))
		out.add("what", th.Title, oneLine(f.Message))
		if f.More > 0 {
			out.add("more", th.Text, fmt.Sprintf("%s like it that are not listed", plural(f.More, "finding")))
		}
		out.add("why", th.Text, oneLine(f.Explanation))
		for i, e := range f.Evidence {
			label := ""
			if i == 0 {
				label = "evidence"
			}
			out.add(label, th.Text, oneLine(e.What)+": "+oneLine(e.Value))
		}
		out.add("a server", th.Warn, oneLine(f.Server))
		out.add("fix", th.Good, oneLine(f.Fix))
		if f.Mend != "" {
			out.add("mend", th.Good, fmt.Sprintf("quantscope mend %s --from SOURCE --steps %s", path, Clean(f.Mend)))
		}
		return out.lines
	}
	return item
}

// planItem is a finding of a plan.
func (p *Audit) planItem(f *recipes.Finding, variant int) auditItem {
	item := auditItem{severity: lint.Severity(f.Severity), id: Clean(f.ID), place: Clean(f.Where), message: oneLine(f.Message), variant: variant}
	item.off = "the finding is about the recipe, not about a tensor"
	if f.Tensor != "" {
		place := ""
		place, item.tensors, item.off = p.placeOf(f.Tensor)
		if item.place == "" {
			item.place = place
		}
	}
	if item.place == "" {
		item.place = "recipe"
	}
	item.title = severityMarks[item.severity] + " " + item.id
	item.body = func(th *Theme, w int) []string {
		out := fields{th: th, w: w}
		out.add("where", th.Text, Clean(f.Where))
		out.name("pattern", th.Text, "", Clean(f.Pattern))
		out.name("tensor", th.Text, "", Clean(f.Tensor))
		out.add("what", th.Title, oneLine(f.Message))
		for _, k := range recipes.Kinds() {
			if k.ID == f.ID {
				out.add("in short", th.Text, sentence(k.Help))
			}
		}
		out.add("fix", th.Good, oneLine(f.Fix))
		return out.lines
	}
	return item
}

// sentence gives a phrase a capital and a full stop.
func sentence(s string) string {
	s = oneLine(s)
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// fields sets labelled texts under each other.
type fields struct {
	th    *Theme
	w     int
	lines []string
}

// fieldLabel is the room for labels, where there is room for them.
const fieldLabel = 10

// add adds a text under its label; nothing where it is empty. "" continues the
// label above.
func (f *fields) add(label string, style lipgloss.Style, text string) {
	if text == "" {
		return
	}
	f.put(label, wrapped(style, text, f.room()))
}

// name adds what has no words to be broken between, a name or a pattern, after a
// lead that its further lines stand right of.
func (f *fields) name(label string, style lipgloss.Style, lead, text string) {
	if text == "" {
		return
	}
	room := max(f.room()-Width(lead), 1)
	var lines []string
	for text != "" {
		n, _ := prefix(text, room)
		if n == 0 {
			n, _ = next(text)
		}
		lines = append(lines, style.Render(lead+text[:n]))
		text, lead = text[n:], spaces(Width(lead))
	}
	f.put(label, lines)
}

// room is how wide texts are beside their labels.
func (f *fields) room() int {
	if f.w < 4*fieldLabel {
		return f.w
	}
	return f.w - fieldLabel
}

func (f *fields) put(label string, lines []string) {
	lead := spaces(fieldLabel)
	if f.w < 4*fieldLabel {
		lead = ""
	}
	for i, line := range lines {
		switch {
		case i > 0 || label == "":
			line = lead + line
		case lead == "":
			f.lines = append(f.lines, f.th.Dim.Render(Truncate(label, f.w)))
		default:
			line = f.th.Dim.Render(Fit(label, fieldLabel)) + line
		}
		f.lines = append(f.lines, line)
	}
}
