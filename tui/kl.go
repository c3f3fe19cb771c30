package tui

import tea "github.com/charmbracelet/bubbletea"

// measuring is what the KL screen knows of a source and what is under way for it.
type measuring struct {
	src *source
}

// fetchKL finds the measurements of the source, does what the person asked for
// on the screen, and computes the report of what was scored where there is none.
func (m *Model) fetchKL() tea.Cmd {
	m.kl.src = m.src
	return nil
}
