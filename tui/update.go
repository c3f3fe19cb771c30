package tui

import (
	"fmt"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
	"quantscope/views"
)

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (_ tea.Model, cmd tea.Cmd) {
	defer func() {
		if r := recover(); r != nil {
			m.err = fmt.Errorf("update: internal error: %v", r)
			cmd = tea.Quit
		}
	}()
	stale, said := m.stale, m.note
	m.stale, m.ignored = true, false
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.KeyMsg:
		cmd = m.handleKey(msg)
		if m.ignored && m.note == said { // many such keys may wait
			m.stale = stale
			return m, cmd
		}
	case tea.MouseMsg:
		cmd = m.handleMouse(msg)
	case batchMsg:
		cmd = m.handleBatch(msg)
	case answer:
		cmd = msg.apply(m)
	}
	return m, tea.Batch(cmd, m.settle())
}

// handleBatch takes in news of a source and asks for more. News of the source
// that waits behind a replay bring its state up to date.
func (m *Model) handleBatch(msg batchMsg) tea.Cmd {
	s := msg.src
	if s != m.src && s != m.home {
		return nil
	}
	if msg.batch.Closed {
		s.closed = true
	}
	s.state.Apply(msg.batch)
	m.reviseQuit()
	if s == m.src {
		m.takeUp(msg.batch)
		m.readClock()
	}
	return tea.Batch(m.pump(s), m.tick())
}

// takeUp shows the panes what the state has taken in and keeps the scene
// within what there is.
func (m *Model) takeUp(b sessions.Batch) {
	sc := m.scene
	st := sc.State
	switch st.Progress.State {
	case sessions.RunPaused, sessions.RunRunning:
		if st.Progress.State == m.wish {
			m.wish = ""
		}
	default:
		m.wish = ""
	}
	if b.Reset != nil {
		sc.Filter = refit(sc.Filter, st.Tensors)
		m.projections = projectionsOf(st.Tensors)
		if len(m.projections) > 0 && !slices.Contains(m.projections, sc.Projection) {
			sc.Projection = ""
		}
		m.recallPlace()
	}
	m.recallVariants()
	sc.Touch()
	for _, p := range m.panes {
		p.Apply(b)
	}
}

// refit makes a filter anew for other tensors.
func refit(f views.Filter, tensors []sessions.Tensor) views.Filter {
	fresh, err := views.NewFilter(f.Text, tensors)
	if err != nil {
		fresh, _ = views.NewFilter("", tensors)
	}
	return fresh
}

// readClock takes the position of a replay.
func (m *Model) readClock() {
	if m.src.player != nil {
		m.pos = m.src.player.Position()
	}
}

// settle notes where the person looks now and asks for what the scene needs and
// does not have: whoever moved the cursor, its tensor's records follow.
func (m *Model) settle() tea.Cmd {
	m.remember()
	return tea.Batch(m.fetchDetail(), m.fetchRows(), m.fetchLandscape(), m.fetchAudit(), m.fetchKL(), m.fetchGates(), m.fetchTier(), m.fetchBias())
}
