package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
	"quantscope/views"
)

// klForm asks what a measurement takes in: the session's variants, of which all
// are marked at first, other candidates, corpora, and what is kept at the
// reference.
type klForm struct {
	boxes  []klBox
	fields [3]lineEdit // candidates, corpora, keep
	at     int         // boxes, then fields
	top    int
	demo   bool // there are corpora where none is named
}

// klBox can be marked.
type klBox struct {
	name, note string
	spec       bool // a candidate
	on         bool
}

var klFields = [3]string{"also       ", "corpora    ", "keep       "}

// klHints say what stands in a field.
var klHints = [3]string{
	"candidates: nvfp4+sweep, ../out, model.gguf; with commas between them",
	"names or files: text, JSONL, token ids; with commas between them",
	"a pattern: each candidate also with these tensors at the reference",
}

func newKLForm(m *Model) *klForm {
	f := &klForm{demo: m.kl.planned.known()}
	for _, name := range m.variantSpecs() {
		f.boxes = append(f.boxes, klBox{name: name, spec: true, on: true})
	}
	f.boxes = append(f.boxes, klBox{name: "attribution", note: "of each also one group of tensors alone"}, klBox{name: "output errors", note: "of each linear map, on real inputs"})
	if y := m.yard(); y != nil { // most of it is often wanted again
		r := requestOf(y.Setup)
		var other []string
		for _, c := range r.Candidates {
			known := false
			for i := range f.boxes {
				known = known || f.boxes[i].spec && f.boxes[i].name == c
			}
			if !known {
				other = append(other, c)
			}
		}
		f.fields[0], f.fields[1], f.fields[2] = newLineEdit(strings.Join(other, ", ")), newLineEdit(strings.Join(r.Corpora, ", ")), newLineEdit(r.Keep)
	} else if f.demo {
		f.fields[1] = newLineEdit(strings.Join(m.kl.planned.names, ", "))
	}
	switch r, _ := f.request(); { // what has to be named comes first
	case len(r.Candidates) == 0:
		f.at = len(f.boxes)
	case len(r.Corpora) == 0:
		f.at = len(f.boxes) + 1
	}
	return f
}

func (f *klForm) title() string { return "Measure KL to the reference" }
func (f *klForm) hint() string  { return "enter measure · space mark · tab next · esc close" }

// typing holds in fields; on a box a blank marks it.
func (f *klForm) typing() bool { return f.at >= len(f.boxes) }

func (f *klForm) size(_ *Model, _, _ int) (int, int) {
	return 76, len(f.boxes) + len(f.fields) + 3
}

func (f *klForm) lines(m *Model, w, h int) []string {
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
	out = append(out, "")
	for i := range f.fields {
		at := len(f.boxes) + i
		label, room := t.Dim.Render(klFields[i]), w-len(klFields[i])-2
		text := t.Text.Render(views.TruncateMiddle(views.Clean(f.fields[i].text), room))
		if at == f.at {
			text = f.fields[i].view(t, room)
		}
		out = append(out, pointer(at)+label+text)
	}
	hint := ""
	if f.typing() {
		hint = klHints[f.at-len(f.boxes)]
	}
	out = append(out, "", t.Dim.Render(views.Truncate(hint, w)))
	// Where there is less room, what is at the cursor stays in sight.
	row := f.row()
	f.top = max(min(f.top, row, len(out)-h), row-h+1, 0)
	return out[f.top:min(f.top+h, len(out))]
}

// row is the line of what has the cursor: a blank one stands before the fields.
func (f *klForm) row() int {
	if f.typing() {
		return f.at + 1
	}
	return f.at
}

func (f *klForm) hidden() (before, behind int) { return f.top, 0 }

func (f *klForm) scroll(by int) {
	n := len(f.boxes) + len(f.fields)
	f.at = (f.at + n + by%n) % n
}

func (f *klForm) click(_ *Model, y int) tea.Cmd {
	y += f.top
	switch {
	case y < len(f.boxes):
		f.at = y
		f.boxes[y].on = !f.boxes[y].on
	case y > len(f.boxes) && y <= len(f.boxes)+len(f.fields):
		f.at = y - 1
	}
	return nil
}

func (f *klForm) key(m *Model, k tea.KeyMsg) tea.Cmd {
	switch key := k.String(); {
	case key == "esc":
		m.closeDialog()
	case key == "enter":
		r, why := f.request()
		if why != "" {
			m.say("%s", why)
			return nil
		}
		m.closeDialog()
		if m.busyWith() != "" { // begun meanwhile
			return nil
		}
		return m.startMeasuring(r)
	case key == "up", key == "shift+tab":
		f.scroll(-1)
	case key == "down", key == "tab":
		f.scroll(1)
	case f.typing():
		m.typed(&f.fields[f.at-len(f.boxes)], k)
	case key == " ", key == "x":
		f.boxes[f.at].on = !f.boxes[f.at].on
	case key == "k":
		f.scroll(-1)
	case key == "j":
		f.scroll(1)
	}
	return nil
}

// request is what is asked for, or why that is not enough.
func (f *klForm) request() (r sessions.MeasureRequest, why string) {
	for _, b := range f.boxes {
		switch {
		case !b.on:
		case b.spec:
			r.Candidates = append(r.Candidates, b.name)
		case b.name == "attribution":
			r.Attribute = true
		default:
			r.Probe = true
		}
	}
	r.Candidates = append(r.Candidates, commas(f.fields[0].text)...)
	r.Corpora = commas(f.fields[1].text)
	r.Keep = strings.TrimSpace(f.fields[2].text)
	switch {
	case len(r.Candidates) == 0:
		return r, "a candidate is needed: mark a variant, or name one"
	case len(r.Corpora) == 0 && !f.demo:
		return r, "corpora are needed: text, JSONL or files of token ids"
	}
	return r, ""
}

// commas takes a list apart.
func commas(text string) []string {
	var out []string
	for _, s := range strings.Split(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
