package tui

import (
	tea "github.com/charmbracelet/bubbletea"

	"quantscope/views"
)

// confirm asks one question; only the key that it names says yes.
type confirm struct {
	question string
	text     []string
	verb     string
	yes      func(*Model) tea.Cmd
	// over says that what is asked about has ended by itself; nil: it cannot.
	over func(*Model) bool
}

func newConfirm(question string, text []string, verb string, yes func(*Model) tea.Cmd) *confirm {
	return &confirm{question: question, text: text, verb: verb, yes: yes}
}

func (c *confirm) title() string { return c.question }
func (c *confirm) hint() string  { return "enter " + c.verb + " · esc stay" }
func (c *confirm) typing() bool  { return false }
func (c *confirm) scroll(int)    {}

func (c *confirm) size(*Model, int, int) (int, int) {
	w := 0
	for _, line := range c.text {
		w = max(w, views.Width(line))
	}
	return w, len(c.text)
}

func (c *confirm) lines(m *Model, w, h int) []string {
	var out []string
	for _, line := range c.text {
		out = append(out, m.scene.Theme.Text.Render(views.TruncateMiddle(views.Clean(line), w)))
	}
	return out
}

func (c *confirm) click(*Model, int) tea.Cmd { return nil }

func (c *confirm) key(m *Model, k tea.KeyMsg) tea.Cmd {
	switch k.String() {
	case "enter", "y":
		m.closeDialog()
		return c.yes(m)
	case "q":
		if c.verb == "quit" { // asked for twice
			m.closeDialog()
			return c.yes(m)
		}
		m.closeDialog()
	case "esc", "n":
		m.closeDialog()
	}
	return nil
}
