package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// newBiasForm asks whose biases are looked at, on what.
func newBiasForm(m *Model) *askForm {
	f := &askForm{name: "Sign bias through depth", keys: "enter look · space mark · tab next · esc close", wide: 76, accept: acceptBias}
	for _, name := range m.variantSpecs() {
		f.boxes = append(f.boxes, klBox{name: name, spec: true, on: true})
	}
	texts := ""
	if m.kl.planned.known() {
		texts = strings.Join(m.kl.planned.names, ", ")
	}
	also := ""
	if len(f.boxes) == 0 {
		also = "code2, code2+sym, code2+asym, code2+mirror"
	}
	if b := m.biasRun(); b != nil { // most of it is often wanted again
		var other []string
		for i := range b.Setup.Candidates {
			known := false
			for _, x := range f.boxes {
				known = known || x.name == b.Setup.Candidates[i].Spec
			}
			if !known {
				other = append(other, b.Setup.Candidates[i].Spec)
			}
		}
		also = strings.Join(other, ", ")
	}
	f.fields = []askField{
		{"also", "candidates: code2+sym, ../out, model.gguf; with commas between them", newLineEdit(also)},
		{"corpora", "names or files: text, JSONL, token ids; with commas between them", newLineEdit(texts)},
	}
	if also != "" || len(f.boxes) == 0 {
		f.at = len(f.boxes)
	}
	return f
}

// acceptBias begins the look.
func acceptBias(m *Model, f *askForm) (tea.Cmd, string) {
	var r sessions.BiasRequest
	for _, b := range f.boxes {
		if b.on {
			r.Candidates = append(r.Candidates, b.name)
		}
	}
	r.Candidates = append(r.Candidates, commas(f.fields[0].edit.text)...)
	r.Corpora = commas(f.fields[1].edit.text)
	if len(r.Candidates) == 0 {
		return nil, "a candidate is needed: mark one, or name one"
	}
	m.showBiasPane()
	return m.startBias(r), ""
}
