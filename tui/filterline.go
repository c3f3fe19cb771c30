package tui

import (
	"context"
	"errors"
	"fmt"
	"regexp/syntax"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/views"
)

// filterLine is the filter while it is typed. What matches shows at once; esc
// brings back what was there before.
type filterLine struct {
	line   lineEdit
	before views.Filter
	of     filtered // what is filtered in place of tensors; nil for tensors
	text   string   // of its filter before
}

// filtered is a pane that has a list with a filter of its own.
type filtered interface {
	// Searching says whether the filter that is typed is that of the list.
	Searching() bool
	FilterText() string
	SetFilterText(text string) error
	// FilterCount is how many items the filter leaves, of how many, and FilterNoun
	// what one is called.
	FilterCount() (n, of int)
	FilterNoun() string
}

func (m *Model) editFilter() tea.Cmd {
	if a, ok := m.panes[m.focus].(filtered); ok && a.Searching() {
		m.editing, m.filterErr = &filterLine{line: newLineEdit(a.FilterText()), of: a, text: a.FilterText()}, ""
		return nil
	}
	m.editing = &filterLine{line: newLineEdit(m.scene.Filter.Text), before: m.scene.Filter}
	m.filterErr = ""
	return nil
}

// filterKey acts on a key while the filter is typed.
func (m *Model) filterKey(k tea.KeyMsg) tea.Cmd {
	if m.editing.of != nil {
		m.itemKey(k)
		return nil
	}
	switch k.String() {
	case "enter":
		if m.filterErr != "" {
			return nil // it stays, so that it can be mended
		}
		m.editing = nil
		m.filterTaken()
		return nil
	case "esc":
		before := m.editing.before
		m.editing, m.filterErr = nil, ""
		m.dropMatches()
		m.scene.SetFilter(before)
		return nil
	}
	if _, changed := m.typed(&m.editing.line, k); changed {
		return m.findMatches(m.editing.line.text)
	}
	return nil
}

// itemKey acts on a key while the filter of a pane's list is typed.
func (m *Model) itemKey(k tea.KeyMsg) {
	e := m.editing
	switch k.String() {
	case "enter":
		if m.filterErr == "" {
			m.editing = nil
		}
		return
	case "esc":
		m.editing, m.filterErr = nil, ""
		_ = e.of.SetFilterText(e.text) // which was taken before
		return
	}
	if _, changed := m.typed(&e.line, k); changed {
		m.filterErr = ""
		if err := e.of.SetFilterText(e.line.text); err != nil {
			m.filterErr = regexProblem(err)
		}
	}
}

// filterTaken puts the cursor on the worst tensor that is left and says how many
// there are.
func (m *Model) filterTaken() {
	f, sc := m.scene.Filter, m.scene
	if f.Text == "" {
		return
	}
	if sc.Cursor >= 0 && !sc.Shown(sc.Cursor) {
		m.toWorst()
	}
	if sc.Cursor >= 0 && f.Count > 0 && !sc.Shown(sc.Cursor) {
		m.say("p shows other projections: no match is of projection %s", views.Clean(sc.Projection))
		return
	}
	m.say("%s match %s", plural(f.Count, "tensor"), views.Clean(f.Text))
}

// findMatches makes a filter of the text, outside the loop: a checkpoint has
// tens of thousands of names. One is made at a time; of the texts that come
// meanwhile the last one counts.
func (m *Model) findMatches(text string) tea.Cmd {
	m.filterGen++
	if m.filtering {
		m.nextMatch = &text
		return nil
	}
	m.filtering, m.nextMatch = true, nil
	gen, tensors := m.filterGen, m.scene.State.Tensors
	return m.do(m.ctx, "filter", func(context.Context) tea.Msg {
		f, err := views.NewFilter(text, tensors)
		return filterMsg{gen: gen, filter: f, err: err}
	})
}

// dropMatches says that the filter under way is not wanted any more.
func (m *Model) dropMatches() {
	m.filterGen++
	m.nextMatch = nil
}

func (m *Model) clearFilter() {
	m.dropMatches()
	f, _ := views.NewFilter("", m.scene.State.Tensors)
	m.scene.SetFilter(f)
	m.say("the filter is cleared")
}

// regexProblem is what is wrong with a pattern, without what the person typed,
// which stands beside it.
func regexProblem(err error) string {
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return fmt.Sprintf("%s: %s", bad.Code, bad.Expr)
	}
	return err.Error()
}

// filterView is the message line while the filter is typed.
func (m *Model) filterView(w int) string {
	t := m.scene.Theme
	right := t.Dim.Render(fmt.Sprintf("%d of %s", m.scene.Filter.Count, plural(len(m.scene.State.Tensors), "tensor")))
	if a := m.editing.of; a != nil {
		n, of := a.FilterCount()
		right = t.Dim.Render(fmt.Sprintf("%d of %s", n, plural(of, a.FilterNoun())))
	}
	switch {
	case m.note.text != "":
		right = t.Warn.Render(views.Truncate(views.Clean(m.note.text), w/2))
	case m.filterErr != "":
		right = t.Bad.Render(views.Truncate(views.Clean(m.filterErr), w/2))
	}
	room := w - views.Width(right) - 4
	return t.Accent.Render("/ ") + m.editing.line.view(t, room) + "  " + right
}

// plural is a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
