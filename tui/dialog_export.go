package tui

import (
	tea "github.com/charmbracelet/bubbletea"

	"quantscope/views"
)

// exportKinds are what the records can be written as, and what each is for.
var exportKinds = []struct{ name, help string }{
	{"JSONL", "one tap record a line, histograms included"},
	{"CSV", "one tap record a row, without histograms"},
	{"Parquet", "one tap record a row, with typed columns"},
}

// exportForm asks what to write, and where.
type exportForm struct {
	session string
	kind    int
	file    lineEdit
	refusal string // why the last try came to nothing
	edited  bool   // the file name is the person's own: another kind leaves it alone
}

func newExportForm(session string) *exportForm {
	f := &exportForm{session: session}
	f.choose(0)
	return f
}

// refusedExport asks anew, with the reason why an export came to nothing.
func refusedExport(session string, e exportedMsg) *exportForm {
	f := &exportForm{session: session, edited: true, file: newLineEdit(e.path), refusal: e.err.Error()}
	for i, k := range exportKinds {
		if k.name == e.kind {
			f.kind = i
		}
	}
	return f
}

// choose takes another kind; the proposed file name follows.
func (f *exportForm) choose(kind int) {
	f.kind = (kind + len(exportKinds)) % len(exportKinds)
	if !f.edited {
		f.file = newLineEdit(exportPath(f.session, exportKinds[f.kind].name))
	}
}

func (f *exportForm) title() string { return "Export the records" }
func (f *exportForm) hint() string  { return "enter export · ↑↓ kind · esc close" }
func (f *exportForm) typing() bool  { return true }

func (f *exportForm) size(_ *Model, w, _ int) (int, int) {
	want := max(60, views.Width(f.file.text)+8)
	lines := len(exportKinds) + 2
	if f.refusal != "" {
		lines += 1 + len(wrap(views.Clean(f.refusal), min(want, w-6)-2))
	}
	return want, lines
}

func (f *exportForm) lines(m *Model, w, _ int) []string {
	t := m.scene.Theme
	var out []string
	for i, k := range exportKinds {
		pointer, name := "  ", t.Text
		if i == f.kind {
			pointer, name = t.Accent.Render("❯ "), t.Title
		}
		out = append(out, views.Truncate(pointer+name.Render(views.Fit(k.name, 9))+t.Dim.Render(k.help), w))
	}
	out = append(out, "", t.Dim.Render("file  ")+f.file.view(t, w-6))
	if f.refusal != "" {
		out = append(out, "")
		for i, line := range wrap(views.Clean(f.refusal), w-2) {
			mark := "  "
			if i == 0 {
				mark = "✗ "
			}
			out = append(out, t.Bad.Render(mark+views.TruncateMiddle(line, w-2)))
		}
	}
	return out
}

func (f *exportForm) scroll(by int) { f.choose(f.kind + by) }

func (f *exportForm) click(_ *Model, y int) tea.Cmd {
	if y < len(exportKinds) {
		f.choose(y)
	}
	return nil
}

func (f *exportForm) key(m *Model, k tea.KeyMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.closeDialog()
	case "enter":
		if f.file.text == "" {
			m.say("a file name is needed")
			return nil
		}
		m.closeDialog()
		return m.export(exportKinds[f.kind].name, f.file.text, false)
	case "up", "shift+tab":
		f.choose(f.kind - 1)
	case "down", "tab":
		f.choose(f.kind + 1)
	default:
		if _, changed := m.typed(&f.file, k); changed {
			f.edited, f.refusal = true, ""
		}
	}
	return nil
}
