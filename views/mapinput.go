package views

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"
)

// HandleKey moves the cursor.
func (m *Map) HandleKey(k tea.KeyMsg) (handled bool, cmd tea.Cmd) {
	m.sync()
	far := len(m.heat.grid.place) + 1
	to := m.scene.Cursor
	switch k.String() {
	case "left", "h":
		to = m.heat.Move(-1, 0)
	case "right", "l":
		to = m.heat.Move(1, 0)
	case "up", "k":
		to = m.heat.Move(0, -1)
	case "down", "j":
		to = m.heat.Move(0, 1)
	case "home":
		to = m.heat.Move(-far, 0)
	case "end":
		to = m.heat.Move(far, 0)
	case "pgup":
		to = m.heat.Move(0, -far)
	case "pgdown":
		to = m.heat.Move(0, far)
	case "g":
		to = m.nextWorst(1)
		m.hunt = to
	case "G":
		to = m.nextWorst(-1)
		m.hunt = to
	case "x":
		m.clips, m.stale = !m.clips, true
	default:
		return false, nil
	}
	m.scene.SetCursor(to)
	return true, nil
}

// nextWorst is the tensor that follows (or precedes) the cursor in rank where g
// put the cursor there, else the worst one.
func (m *Map) nextWorst(step int) int {
	s := m.scene
	at := -1
	if m.hunt == s.Cursor {
		at = s.Cursor
	}
	if t := neighbourInRank(s, s.Variant, at, step); t >= 0 {
		return t
	}
	return s.Cursor
}

// HandleMouse puts the cursor under the pointer.
func (m *Map) HandleMouse(x, y int, msg tea.MouseMsg) (handled bool, cmd tea.Cmd) {
	m.sync()
	switch {
	case msg.Action == tea.MouseActionMotion, msg.Action == tea.MouseActionPress && msg.Button == tea.MouseButtonLeft:
		if t, ok := m.heat.At(x, y); ok {
			m.scene.SetCursor(t)
			return true, nil
		}
	case msg.Button == tea.MouseButtonWheelUp:
		m.scene.SetCursor(m.heat.Move(0, -1))
		return true, nil
	case msg.Button == tea.MouseButtonWheelDown:
		m.scene.SetCursor(m.heat.Move(0, 1))
		return true, nil
	}
	return false, nil
}

// Keys lists the keys of the map.
func (m *Map) Keys() []Key {
	worst := ""
	if !slices.ContainsFunc(m.scene.States(m.scene.Variant), CellState.HasValue) {
		worst = "nothing is measured yet"
	}
	return []Key{
		{Keys: []string{"left", "h", "right", "l"}, Label: "←→ hl", Help: "next cell of the layer"},
		{Keys: []string{"up", "k", "down", "j"}, Label: "↑↓ jk", Help: "next layer"},
		{Keys: []string{"home", "end", "pgup", "pgdown"}, Label: "home end pgup pgdn", Help: "to the edges"},
		{Keys: []string{"g"}, Label: "g", Help: "next worst tensor", Disabled: worst},
		{Keys: []string{"G"}, Label: "G", Help: "back to the one before", Disabled: worst},
		{Keys: []string{"x"}, Label: "x", Help: "clip marks"},
	}
}
