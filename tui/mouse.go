package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/views"
)

// doubleClick is the longest time between the two presses of a double click.
const doubleClick = 400 * time.Millisecond

// handleMouse acts on the mouse: a dialog first, then the frame, then the pane
// under it.
func (m *Model) handleMouse(e tea.MouseMsg) tea.Cmd {
	if m.layout.Small || m.first != nil {
		return nil
	}
	if m.dialog != nil {
		return m.dialogMouse(e)
	}
	press := e.Action == tea.MouseActionPress && e.Button == tea.MouseButtonLeft
	drag := e.Action == tea.MouseActionMotion && e.Button == tea.MouseButtonLeft
	if press {
		m.note = note{}
	}
	switch l := &m.layout; {
	case l.Header.Contains(e.X, e.Y):
		if press || drag {
			return m.clickBar(e.X)
		}
	case l.Tabs.Contains(e.X, e.Y):
		if press && e.Y == l.Tabs.Y {
			_, spans := m.tabLine(m.w)
			return m.clickSpan(spans, e.X)
		}
	case l.Footer.Contains(e.X, e.Y):
		if press {
			_, spans := m.footerLine(m.w)
			return m.clickSpan(spans, e.X)
		}
	default:
		if p, ok := l.Hit(e.X, e.Y); ok {
			return m.paneMouse(p, e, press)
		}
	}
	return nil
}

// paneMouse gives a pane the focus on a press, lets it act, and opens the
// tensor on a double click.
func (m *Model) paneMouse(p Placed, e tea.MouseMsg, press bool) tea.Cmd {
	if press && p.ID != m.focus && p.Title.H > 0 {
		m.focus = p.ID
		m.arrange()
	}
	if !p.Body.Contains(e.X, e.Y) {
		return nil
	}
	_, cmd := m.panes[p.ID].HandleMouse(e.X-p.Body.X, e.Y-p.Body.Y, e)
	cmd = m.guard(cmd)
	if !press {
		return cmd
	}
	if l, ok := m.panes[p.ID].(*views.Landscape); ok && !l.HasTensor(e.X-p.Body.X, e.Y-p.Body.Y) {
		m.click = lastClick{}
		return cmd // the slider is often clicked twice
	}
	now := m.o.Now()
	double := m.click.x == e.X && m.click.y == e.Y && now.Sub(m.click.at) <= doubleClick
	m.click = lastClick{e.X, e.Y, now}
	if double {
		m.click = lastClick{}
		return tea.Batch(cmd, m.press(keyOf("enter")))
	}
	return cmd
}

// clickBar seeks a replay to where its bar was clicked.
func (m *Model) clickBar(x int) tea.Cmd {
	_, bar := m.headerLine(m.w)
	if m.src.player == nil || !bar.Contains(x, 0) {
		return nil
	}
	return m.seek(int64(float64(m.pos.EndUS) * float64(x-bar.X) / float64(max(bar.W-1, 1))))
}

// clickSpan does what a word of the frame stands for.
func (m *Model) clickSpan(spans []span, x int) tea.Cmd {
	for _, s := range spans {
		if x < s.from || x >= s.to {
			continue
		}
		switch {
		case s.screen != 0:
			m.show(s.screen)
		case s.variant >= 0:
			m.showVariant(s.variant)
		case s.key != "":
			return m.press(keyOf(s.key))
		}
	}
	return nil
}
