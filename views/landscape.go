package views

import (
	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// Landscape explains the landscape of a variant.
type Landscape struct {
	scene *Scene
	w, h  int
}

// NewLandscape makes the pane.
func NewLandscape(s *Scene) *Landscape { return &Landscape{scene: s} }

// Title names the pane.
func (p *Landscape) Title() string { return "landscape" }

// SetSize sets the inner size.
func (p *Landscape) SetSize(w, h int) { p.w, p.h = w, h }

// Apply takes in what is new.
func (p *Landscape) Apply(sessions.Batch) {}

// HandleKey acts on the keys that Keys lists.
func (p *Landscape) HandleKey(tea.KeyMsg) (bool, tea.Cmd) { return false, nil }

// HandleMouse acts on the mouse.
func (p *Landscape) HandleMouse(int, int, tea.MouseMsg) (bool, tea.Cmd) { return false, nil }

// Keys lists the keys of the pane.
func (p *Landscape) Keys() []Key { return nil }

// View draws the screen.
func (p *Landscape) View() string { return Block(nil, p.w, p.h) }
