package views

import (
	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// tiered is a pane of the map's screen that shows something else while the map shows a
// hot tier.
type tiered struct {
	scene      *Scene
	plain, hot Pane
}

// WithTier are the three panes of the map's screen, each with what takes its place while
// the map shows a hot tier.
func WithTier(s *Scene, heat, detail, worst Pane) (Pane, Pane, Pane) {
	m := newTierMap(s)
	more := &tierMore{scene: s, of: m}
	return &tiered{s, heat, m}, &tiered{s, detail, &tierDetail{scene: s, of: m, more: more}}, &tiered{s, worst, more}
}

// shown is the pane that is seen.
func (t *tiered) shown() Pane {
	if t.scene.Tier.On {
		return t.hot
	}
	return t.plain
}

// Title is that of the pane that is seen.
func (t *tiered) Title() string { return t.shown().Title() }

// SetSize gives both their size.
func (t *tiered) SetSize(w, h int) {
	t.plain.SetSize(w, h)
	t.hot.SetSize(w, h)
}

// Apply tells both what is new.
func (t *tiered) Apply(b sessions.Batch) {
	t.plain.Apply(b)
	t.hot.Apply(b)
}

// HandleKey is for the pane that is seen.
func (t *tiered) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) { return t.shown().HandleKey(k) }

// HandleMouse is for the pane that is seen.
func (t *tiered) HandleMouse(x, y int, m tea.MouseMsg) (bool, tea.Cmd) {
	return t.shown().HandleMouse(x, y, m)
}

// View is that of the pane that is seen.
func (t *tiered) View() string { return t.shown().View() }

// Keys are those of the pane that is seen.
func (t *tiered) Keys() []Key { return t.shown().Keys() }

// OtherKeys are the keys of a pane while it shows what it does not show now; nil where
// that is nothing.
func OtherKeys(p Pane) []Key {
	t, ok := p.(*tiered)
	switch {
	case !ok:
		return nil
	case t.scene.Tier.On:
		return t.plain.Keys()
	}
	return t.hot.Keys()
}
