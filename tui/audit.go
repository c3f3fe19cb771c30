package tui

import tea "github.com/charmbracelet/bubbletea"

// fetchAudit asks for what the Audit screen shows and does not have.
func (m *Model) fetchAudit() tea.Cmd { return nil }
