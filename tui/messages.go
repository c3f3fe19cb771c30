package tui

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
	"quantscope/views"
)

// answer is a message with the result of something that this program asked
// for. apply runs in the loop.
type answer interface {
	apply(m *Model) tea.Cmd
}

// batchMsg is news of a source.
type batchMsg struct {
	src   *source
	batch sessions.Batch
}

// feedErrMsg says that a source can tell nothing more.
type feedErrMsg struct {
	src *source
	err error
}

func (e feedErrMsg) apply(m *Model) tea.Cmd {
	e.src.closed = true
	if e.src == m.src {
		m.fail(e.err)
	}
	return nil
}

// orderDoneMsg ends an order to an engine or player.
type orderDoneMsg struct {
	what string
	err  error
}

func (d orderDoneMsg) apply(m *Model) tea.Cmd {
	m.lane.busy = false
	if d.err != nil {
		m.fail(fmt.Errorf("%s: %w", d.what, d.err))
	}
	m.readClock()
	return tea.Batch(m.advance(), m.tick())
}

// tickMsg asks to read the clock of a replay.
type tickMsg struct{}

func (tickMsg) apply(m *Model) tea.Cmd {
	m.ticking = false
	m.readClock()
	return m.tick()
}

// detailMsg is what a source has of one tensor.
type detailMsg struct {
	gen    uint64
	detail *views.Detail
}

func (d detailMsg) apply(m *Model) tea.Cmd { return m.gotDetail(d) }

// rowsMsg is the relative error of each row of one tensor.
type rowsMsg struct {
	gen    uint64
	tensor int
	rows   map[int][]float64 // by variant
	err    error
}

func (r rowsMsg) apply(m *Model) tea.Cmd { return m.gotRows(r) }

// filterMsg is a filter that was asked for.
type filterMsg struct {
	gen    uint64
	filter views.Filter
	err    error
}

func (f filterMsg) apply(m *Model) tea.Cmd {
	m.filtering = false
	if next := m.nextMatch; next != nil {
		return m.findMatches(*next)
	}
	if f.gen != m.filterGen {
		return nil
	}
	if f.err != nil {
		m.filterErr = regexProblem(f.err)
		return nil
	}
	m.filterErr = ""
	m.scene.SetFilter(f.filter)
	if m.editing == nil { // it was taken before it was made
		m.filterTaken()
	}
	return nil
}

// openedMsg is a feed that was opened from within the program.
type openedMsg struct {
	gen  uint64
	src  *source
	err  error
	home bool // it takes the place of what was open, which is closed
}

func (o openedMsg) apply(m *Model) tea.Cmd { return m.opened(o) }

// exportedMsg ends an export.
type exportedMsg struct {
	kind, path string
	overwrite  bool
	err        error
}

func (e exportedMsg) apply(m *Model) tea.Cmd {
	m.exporting--
	m.reviseQuit()
	switch {
	case m.busy() && e.err != nil && !errors.Is(e.err, context.Canceled):
		m.fail(fmt.Errorf("export: %w", e.err)) // the person is at something else
	case errors.Is(e.err, fs.ErrExist) && !e.overwrite:
		m.note = note{}
		m.open(newConfirm("Overwrite?", []string{e.path + " is there already."},
			"overwrite", func(m *Model) tea.Cmd { return m.export(e.kind, e.path, true) }))
	case errors.Is(e.err, context.Canceled):
	case e.err != nil:
		m.note = note{}
		m.open(refusedExport(m.scene.State.Meta.Path, e))
	default:
		m.say("exported %s to %s", e.kind, e.path)
	}
	return nil
}

// busy says whether the person is asked something or types.
func (m *Model) busy() bool { return m.dialog != nil || m.editing != nil }

// closedMsg ends the closing of a source.
type closedMsg struct{ err error }

func (c closedMsg) apply(m *Model) tea.Cmd {
	if c.err != nil {
		m.fail(c.err)
	}
	return nil
}

// backgroundMsg says what the terminal's background is.
type backgroundMsg struct{ dark bool }

func (b backgroundMsg) apply(m *Model) tea.Cmd {
	if b.dark != m.dark {
		m.dark = b.dark
		m.setTheme(m.scene.Theme.Name)
	}
	return nil
}

// fatalMsg ends the program with an error.
type fatalMsg struct{ err error }

func (f fatalMsg) apply(m *Model) tea.Cmd {
	m.err = f.err
	return tea.Quit
}
