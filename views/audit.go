package views

import (
	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// Audit shows the census of a checkpoint.
type Audit struct {
	scene *Scene
	w, h  int
}

// NewAudit makes the pane.
func NewAudit(s *Scene) *Audit { return &Audit{scene: s} }

// Title names the pane.
func (p *Audit) Title() string { return "audit" }

// SetSize sets the inner size.
func (p *Audit) SetSize(w, h int) { p.w, p.h = w, h }

// Apply takes in what is new.
func (p *Audit) Apply(sessions.Batch) {}

// HandleKey acts on the keys that Keys lists.
func (p *Audit) HandleKey(tea.KeyMsg) (bool, tea.Cmd) { return false, nil }

// HandleMouse acts on the mouse.
func (p *Audit) HandleMouse(int, int, tea.MouseMsg) (bool, tea.Cmd) { return false, nil }

// Keys lists the keys of the pane.
func (p *Audit) Keys() []Key { return nil }

// View draws the screen.
func (p *Audit) View() string { return Block(nil, p.w, p.h) }
