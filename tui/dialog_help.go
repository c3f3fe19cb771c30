package tui

import (
	tea "github.com/charmbracelet/bubbletea"

	"quantscope/views"
)

// helpText lists the keys that work here, made of the same tables as their
// dispatch. It scrolls.
type helpText struct {
	sections []KeySection
	top      int
	page     int
	total    int
}

func (m *Model) openHelp() tea.Cmd {
	m.open(&helpText{sections: keySections(m, m.focus)})
	return nil
}

func (h *helpText) title() string { return "Help" }
func (h *helpText) hint() string  { return "↑↓ scroll · esc close" }
func (h *helpText) typing() bool  { return false }

// helpWidth holds the longest label, help text and reason.
const helpWidth = 84

func (h *helpText) size(_ *Model, _, screen int) (int, int) {
	return helpWidth, min(h.count(), screen)
}

// count is the number of lines: a heading and a blank line a section.
func (h *helpText) count() int {
	n := 0
	for _, s := range h.sections {
		n += len(s.Keys) + 2
	}
	return n - 1
}

func (h *helpText) lines(m *Model, w, height int) []string {
	t := m.scene.Theme
	var all []string
	for i, s := range h.sections {
		if i > 0 {
			all = append(all, "")
		}
		all = append(all, t.Title.Render(s.Title))
		for _, k := range s.Keys {
			label, text := t.Accent, t.Text
			if k.Disabled != "" {
				label, text = t.Faint, t.Faint
			}
			line := "  " + label.Render(views.Fit(k.Label, 10)) + " " + text.Render(k.Help)
			if k.Disabled != "" {
				line += t.Faint.Render(" (" + k.Disabled + ")")
			}
			all = append(all, views.Truncate(line, w))
		}
	}
	h.total, h.page = len(all), max(height, 1)
	h.scroll(0)
	return all[h.top:min(h.top+height, len(all))]
}

func (h *helpText) scroll(by int) {
	h.top = max(min(h.top+by, h.total-h.page), 0)
}

func (h *helpText) click(*Model, int) tea.Cmd { return nil }

func (h *helpText) key(m *Model, k tea.KeyMsg) tea.Cmd {
	switch k.String() {
	case "esc", "q", "?", "enter":
		m.closeDialog()
	case "up", "k":
		h.scroll(-1)
	case "down", "j":
		h.scroll(1)
	case "pgup", "ctrl+b":
		h.scroll(-h.page)
	case "pgdown", "ctrl+f", " ":
		h.scroll(h.page)
	case "home":
		h.scroll(-h.total)
	case "end":
		h.scroll(h.total)
	}
	return nil
}
