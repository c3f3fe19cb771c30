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
	edited  bool // the file name is the person's own: another kind leaves it alone
}

func newExportForm(session string) *exportForm {
	f := &exportForm{session: session}
	f.choose(0)
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

func (f *exportForm) size(*Model, int, int) (int, int) {
	return max(60, views.Width(f.file.text)+8), len(exportKinds) + 2
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
	return append(out, "", t.Dim.Render("file  ")+f.file.view(t, w-6))
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
		before := f.file.text
		f.file.key(k)
		f.edited = f.edited || f.file.text != before
	}
	return nil
}
