package tui

import (
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"quantscope/views"
)

// dialog is what stands over the screen and takes all keys until it closes.
type dialog interface {
	// title stands in the frame, hint in its lower edge.
	title() string
	hint() string
	// size is what the dialog would like to have inside its frame on a screen
	// of w×h; it gets less where that is more than there is.
	size(m *Model, w, h int) (int, int)
	// lines draws at most h lines of at most w cells.
	lines(m *Model, w, h int) []string
	key(m *Model, k tea.KeyMsg) tea.Cmd
	// click acts on a click at line y inside; scroll on the wheel.
	click(m *Model, y int) tea.Cmd
	scroll(by int)
	// typing says whether keys are text.
	typing() bool
}

func (m *Model) open(d dialog) {
	m.dialog = d
	m.stale = true
}

func (m *Model) closeDialog() {
	m.dialog = nil
	m.stale = true
}

// dialogRect is where the dialog's inside stands, centred; its frame is one
// cell wider at every side and has a blank column within.
func (m *Model) dialogRect() Rect {
	const frameW, frameH = 4, 2
	w, h := m.dialog.size(m, m.w, m.h)
	const marks = 14 // of moreMarks, beside title and hint
	w = max(w, views.Width(m.dialog.title())+marks, views.Width(m.dialog.hint())+marks)
	w = max(min(w, m.w-frameW-2), 0)
	h = max(min(h, m.h-frameH-4), 0) // the message line is left free
	return Rect{(m.w - w) / 2, (m.h - h) / 2, w, h}
}

// scrolled is a dialog that may hold more lines than it shows. hidden counts
// those before and behind what lines drew last.
type scrolled interface{ hidden() (before, behind int) }

// moreMarks say how many lines of a dialog are not shown.
func moreMarks(d dialog) (above, below string) {
	s, ok := d.(scrolled)
	if !ok {
		return "", ""
	}
	before, behind := s.hidden()
	if before > 0 {
		above = fmt.Sprintf(" ↑ %d more ", before)
	}
	if behind > 0 {
		below = fmt.Sprintf(" ↓ %d more ", behind)
	}
	return above, below
}

// overlay draws the dialog over the lines of a screen, which it dims.
func (m *Model) overlay(screen []string) []string {
	t, d, in := m.scene.Theme, m.dialog, m.dialogRect()
	content := d.lines(m, in.W, in.H)
	outer := in.W + 4
	above, below := moreMarks(d)
	edge := func(left, right, text, more string, styled func(...string) string) string {
		if text != "" {
			text = " " + views.Truncate(text, outer-7-views.Width(more)) + " "
		}
		fill := strings.Repeat("─", max(outer-4-views.Width(text)-views.Width(more), 0))
		return t.Dim.Render(left+"─") + styled(text) + t.Dim.Render(fill) + t.Accent.Render(more) + t.Dim.Render("─"+right)
	}
	box := []string{edge("╭", "╮", d.title(), above, t.Title.Render)}
	side := t.Dim.Render("│")
	for y := range in.H {
		line := ""
		if y < len(content) {
			line = content[y]
		}
		box = append(box, side+" "+views.Fit(line, in.W)+" "+side)
	}
	box = append(box, edge("╰", "╯", d.hint(), below, t.Dim.Render))

	// Blanks are left without a style: one that runs over the end of a line shows
	// where text is copied.
	dim := func(s string, w int) string {
		return views.Fit(t.Faint.Render(strings.TrimRight(s, " ")), w)
	}
	out := make([]string, len(screen))
	left, top := in.X-2, in.Y-1
	for y, line := range screen {
		plain := views.Fit(ansi.Strip(line), m.w)
		if y < top || y >= top+len(box) {
			out[y] = dim(plain, m.w)
			continue
		}
		right := m.w - left - outer
		out[y] = dim(ansi.Truncate(plain, left, ""), left) + box[y-top] + dim(views.FitRight(ansi.TruncateLeft(plain, left+outer, ""), right), right)
	}
	return out
}

// bareDialog draws a dialog on a screen that is too small for a frame.
func (m *Model) bareDialog() []string {
	d := m.dialog
	lines := []string{d.title()}
	if m.h > 2 {
		lines = append(lines, d.lines(m, m.w, m.h-2)...)
	}
	lines = lines[:min(len(lines), max(m.h-1, 1))]
	if m.h > 1 {
		lines = append(lines, d.hint())
	}
	for i := range lines {
		lines[i] = views.Truncate(lines[i], m.w)
	}
	return lines
}

// dialogMouse acts on the mouse while a dialog is open: a click beside it
// closes it.
func (m *Model) dialogMouse(e tea.MouseMsg) tea.Cmd {
	switch {
	case e.Button == tea.MouseButtonWheelUp:
		m.dialog.scroll(-1)
	case e.Button == tea.MouseButtonWheelDown:
		m.dialog.scroll(1)
	case e.Action == tea.MouseActionPress && e.Button == tea.MouseButtonLeft:
		in := m.dialogRect()
		if in.Contains(e.X, e.Y) {
			return m.dialog.click(m, e.Y-in.Y)
		}
		if frame := (Rect{in.X - 2, in.Y - 1, in.W + 4, in.H + 2}); !frame.Contains(e.X, e.Y) {
			m.closeDialog()
		}
	}
	return nil
}
