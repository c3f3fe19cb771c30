package tui

import (
	"strings"

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
const helpWidth = 92

func (h *helpText) size(m *Model, w, screen int) (int, int) {
	return helpWidth, min(len(h.text(m, min(helpWidth, w-6))), screen)
}

// text is all of the help in lines of at most w cells: a heading and the keys
// of each section, with a blank line between sections.
func (h *helpText) text(m *Model, w int) []string {
	t := m.scene.Theme
	column := 0
	for _, s := range h.sections {
		for _, k := range s.Keys {
			column = max(column, views.Width(keyLabel(k.Keys)))
		}
	}
	column = min(column, max(w/3, 1))
	indent := 2 + column + 2
	var all []string
	for i, s := range h.sections {
		if i > 0 {
			all = append(all, "")
		}
		all = append(all, views.Truncate(t.Title.Render(s.Title), w))
		for _, k := range s.Keys {
			label, text, words := t.Accent, t.Text, k.Help
			if k.Disabled != "" {
				label, text = t.Faint, t.Faint
				screen := strings.TrimSuffix(k.Help, " screen") // which its reason begins with
				words += " (" + strings.TrimPrefix(k.Disabled, screen+": ") + ")"
			}
			left := label.Render(views.Fit(keyLabel(k.Keys), column))
			for _, line := range wrap(words, w-indent) {
				all = append(all, views.Truncate("  "+left+"  "+text.Render(line), w))
				left = views.Fit("", column)
			}
		}
	}
	return all
}

func (h *helpText) lines(m *Model, w, height int) []string {
	all := h.text(m, w)
	h.total, h.page = len(all), max(height, 1)
	h.scroll(0)
	return all[h.top:min(h.top+height, len(all))]
}

func (h *helpText) hidden() (before, behind int) {
	return h.top, max(h.total-h.top-h.page, 0)
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
