package tui

import (
	"path/filepath"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/views"
)

// auditForm asks for a checkpoint to audit, and for the master that a proof
// compares it with.
type auditForm struct {
	fields [2]lineEdit // checkpoint, master
	at     int
	own    string // the session's checkpoint
}

var auditFields = [2]string{"checkpoint  ", "master      "}

func newAuditForm(own string) *auditForm { return &auditForm{own: own} }

func (f *auditForm) title() string { return "Audit a checkpoint" }
func (f *auditForm) hint() string  { return "enter audit · tab other field · esc close" }
func (f *auditForm) typing() bool  { return true }

func (f *auditForm) size(_ *Model, _, _ int) (int, int) {
	w := 72
	for i := range f.fields {
		w = max(w, views.Width(auditFields[i])+views.Width(f.fields[i].text)+2)
	}
	return w, 4
}

func (f *auditForm) lines(m *Model, w, _ int) []string {
	t := m.scene.Theme
	var out []string
	for i := range f.fields {
		label, room := t.Dim.Render(auditFields[i]), w-len(auditFields[i])-2
		switch {
		case i == f.at:
			out = append(out, t.Accent.Render("❯ ")+label+f.fields[i].view(t, room))
		default:
			out = append(out, "  "+label+t.Text.Render(views.TruncateMiddle(views.Clean(f.fields[i].text), room)))
		}
	}
	note := "a folder, a file or demo; without a master the proof is against "
	own := views.TruncateMiddle(views.Clean(filepath.Base(f.own)), w-views.Width(note))
	return append(out, "", t.Dim.Render(views.Truncate(note+own, w)))
}

func (f *auditForm) scroll(by int) { f.at = (f.at + len(f.fields) + by%len(f.fields)) % len(f.fields) }

func (f *auditForm) click(_ *Model, y int) tea.Cmd {
	if y < len(f.fields) {
		f.at = y
	}
	return nil
}

func (f *auditForm) key(m *Model, k tea.KeyMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.closeDialog()
	case "enter":
		dir, master := strings.TrimSpace(f.fields[0].text), strings.TrimSpace(f.fields[1].text)
		if dir == "" {
			m.say("a checkpoint is needed: a folder, a file, or demo")
			return nil
		}
		m.closeDialog()
		m.auditFolder(dir, master)
	case "up", "shift+tab":
		f.scroll(-1)
	case "down", "tab":
		f.scroll(1)
	default:
		m.typed(&f.fields[f.at], k)
	}
	return nil
}
