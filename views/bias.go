package views

import (
	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// Bias is the other side of screen 5: whether errors have a sign, and what becomes
// of it on its way through the layers. Two candidates of equal error can differ in it.
// The work is the root's; the pane asks for it through the scene.
type Bias struct {
	scene *Scene
	w, h  int

	version uint64
}

var _ Pane = (*Bias)(nil)

// NewBias makes the pane.
func NewBias(s *Scene) *Bias { return &Bias{scene: s} }

// Title says what is looked at.
func (p *Bias) Title() string { return "sign bias through depth" }

// SetSize sets the inner size.
func (p *Bias) SetSize(w, h int) { p.w, p.h = w, h }

// Apply takes in what is new.
func (p *Bias) Apply(b sessions.Batch) {
	if b.Reset != nil || len(b.BiasesBegun) > 0 || len(b.BiasesFound) > 0 || len(b.BiasesEnded) > 0 {
		p.version++
	}
}

// Keys lists the keys of the pane.
func (p *Bias) Keys() []Key {
	off := p.scene.Bias.runOff()
	return []Key{
		{Keys: []string{"R"}, Label: "R", Help: "look", Disabled: off},
		{Keys: []string{"c"}, Label: "c", Help: "choose candidates and corpora, and look", Disabled: off},
	}
}

// HandleKey acts on the keys that Keys lists.
func (p *Bias) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) {
	if key := k.String(); (key == "R" || key == "c") && p.scene.Bias.runOff() == "" {
		if key == "R" {
			p.scene.askBias(BiasRun)
		} else {
			p.scene.askBias(BiasDialog)
		}
		return true, nil
	}
	return false, nil
}

// HandleMouse does nothing yet.
func (p *Bias) HandleMouse(int, int, tea.MouseMsg) (bool, tea.Cmd) { return false, nil }

// View is exactly h lines of w cells.
func (p *Bias) View() string { return Block(nil, p.w, p.h) }
