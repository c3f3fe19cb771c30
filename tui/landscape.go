package tui

import tea "github.com/charmbracelet/bubbletea"

// fetchLandscape asks for what the Landscape screen shows and does not have.
func (m *Model) fetchLandscape() tea.Cmd { return nil }
