package tui

import (
	tea "github.com/charmbracelet/bubbletea"

	"quantscope/views"
)

// askForm asks for what a run takes in: boxes to mark, then fields to fill in, each with
// a hint. What is taken is said by accept.
type askForm struct {
	name, keys string
	boxes      []klBox
	fields     []askField
	wide       int
	at         int // boxes, then fields
	top        int
	// accept begins what was asked for; it is not done, and why says what is missing,
	// where that is not "".
	accept func(m *Model, f *askForm) (cmd tea.Cmd, why string)
}

// askField is one line of text.
type askField struct {
	label, hint string
	edit        lineEdit
}

func (f *askForm) title() string { return f.name }
func (f *askForm) hint() string  { return f.keys }

// typing holds in fields; on a box a blank marks it.
func (f *askForm) typing() bool { return f.at >= len(f.boxes) }

func (f *askForm) size(_ *Model, _, _ int) (int, int) {
	return f.wide, len(f.boxes) + len(f.fields) + f.gap() + 2
}

// gap is the blank line between boxes and fields.
func (f *askForm) gap() int { return min(len(f.boxes), 1) }

func (f *askForm) lines(m *Model, w, h int) []string {
	t := m.scene.Theme
	var out []string
	pointer := func(at int) string {
		if at == f.at {
			return t.Accent.Render("❯ ")
		}
		return "  "
	}
	for i, b := range f.boxes {
		mark := t.Dim.Render("[ ] ")
		if b.on {
			mark = t.Accent.Render("[x] ")
		}
		line := pointer(i) + mark + t.Text.Render(views.Clean(b.name))
		if b.note != "" {
			line += t.Dim.Render("  " + b.note)
		}
		out = append(out, views.Truncate(line, w))
	}
	for range f.gap() {
		out = append(out, "")
	}
	labels := 0
	for i := range f.fields {
		labels = max(labels, views.Width(f.fields[i].label)+2)
	}
	for i := range f.fields {
		at := len(f.boxes) + i
		label, room := t.Dim.Render(views.Fit(f.fields[i].label, labels)), w-labels-2
		text := t.Text.Render(views.TruncateMiddle(views.Clean(f.fields[i].edit.text), room))
		if at == f.at {
			text = f.fields[i].edit.view(t, room)
		}
		out = append(out, pointer(at)+label+text)
	}
	hint := ""
	if f.typing() {
		hint = f.fields[f.at-len(f.boxes)].hint
	}
	out = append(out, "", t.Dim.Render(views.Truncate(hint, w)))
	// Where there is less room, what is at the cursor stays in sight.
	row := f.at
	if f.typing() {
		row += f.gap()
	}
	f.top = max(min(f.top, row, len(out)-h), row-h+1, 0)
	return out[f.top:min(f.top+h, len(out))]
}

func (f *askForm) hidden() (before, behind int) { return f.top, 0 }

func (f *askForm) scroll(by int) {
	n := len(f.boxes) + len(f.fields)
	f.at = (f.at + n + by%n) % n
}

func (f *askForm) click(_ *Model, y int) tea.Cmd {
	y += f.top
	first := len(f.boxes) + f.gap()
	switch {
	case y < len(f.boxes):
		f.at = y
		f.boxes[y].on = !f.boxes[y].on
	case y >= first && y < first+len(f.fields):
		f.at = y - f.gap()
	}
	return nil
}

func (f *askForm) key(m *Model, k tea.KeyMsg) tea.Cmd {
	switch key := k.String(); {
	case key == "esc":
		m.closeDialog()
	case key == "enter":
		if why := m.busyWith(); why != "" { // begun meanwhile
			m.closeDialog()
			m.say("%s", why)
			return nil
		}
		cmd, why := f.accept(m, f)
		if why != "" {
			m.say("%s", why)
			return nil
		}
		m.closeDialog()
		return cmd
	case key == "up", key == "shift+tab":
		f.scroll(-1)
	case key == "down", key == "tab":
		f.scroll(1)
	case f.typing():
		m.typed(&f.fields[f.at-len(f.boxes)].edit, k)
	case key == " ", key == "x":
		f.boxes[f.at].on = !f.boxes[f.at].on
	case key == "k":
		f.scroll(-1)
	case key == "j":
		f.scroll(1)
	}
	return nil
}
