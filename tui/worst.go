package tui

import (
	"math"

	tea "github.com/charmbracelet/bubbletea"
)

// badness orders tensors from good to bad by the metric that is shown; ok is
// false for those that have no finite figure or are filtered out.
func (m *Model) badness(tensor int) (bad float64, ok bool) {
	sc := m.scene
	r, known := sc.Record(sc.Variant, tensor)
	if !known || r.Failed || !sc.Shown(tensor) {
		return 0, false
	}
	v := sc.Values(sc.Variant)[tensor]
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, false
	}
	return sc.Badness(v), true
}

// walkWorst goes to the tensor that is the next better (by = −1) or worse (by =
// 1) one in the order of badness; equal ones follow each other by ID. A cursor
// that stands outside the order, or was not put where it is by this walk, goes
// to the worst of all.
func (m *Model) walkWorst(by float64) tea.Cmd {
	at, inside := m.badness(m.scene.Cursor)
	start := !inside || m.walked != m.scene.Cursor
	best, found := -1, 0.0
	for id := range m.scene.State.Tensors {
		bad, ok := m.badness(id)
		if !ok {
			continue
		}
		if !start {
			after := bad < at || bad == at && id > m.scene.Cursor
			if id == m.scene.Cursor || after != (by < 0) {
				continue
			}
		}
		switch {
		case best < 0,
			start && bad > found,
			!start && by < 0 && bad > found,
			!start && by > 0 && bad <= found:
			best, found = id, bad
		}
	}
	if best < 0 {
		m.say("there is none: this is the last one with a finite %s", m.scene.Metric.Name)
		return nil
	}
	m.walked = best
	m.scene.SetCursor(best)
	return nil
}

// toWorst puts the cursor on the worst tensor that is shown, or on the first one
// where none is measured.
func (m *Model) toWorst() {
	m.walked = -1
	m.walkWorst(-1)
	for id := range m.scene.State.Tensors {
		if m.scene.Shown(m.scene.Cursor) {
			return
		}
		if m.scene.Shown(id) {
			m.scene.SetCursor(id)
		}
	}
}

func (m *Model) offWorst() string {
	if m.scene.State.Progress.Done == 0 {
		return "nothing has been measured yet"
	}
	return ""
}

func (m *Model) nextWorst() tea.Cmd     { return m.walkWorst(-1) }
func (m *Model) previousWorst() tea.Cmd { return m.walkWorst(1) }
