package tui

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"

	"quantscope/sessions"
	"quantscope/views"
)

// View implements tea.Model. The frame is composed anew only after a message.
func (m *Model) View() string {
	if m.stale {
		m.frame = m.draw()
		m.stale = false
	}
	return m.frame
}

// draw composes the frame. A panic in a pane shows as text until the loop, told
// by watch, ends the program.
func (m *Model) draw() (out string) {
	defer func() {
		if r := recover(); r != nil {
			select {
			case m.crash <- fmt.Errorf("view: internal error: %v", r):
			default:
			}
			out = ""
		}
	}()
	switch {
	case m.w <= 0 || m.h <= 0:
		return ""
	case m.first != nil:
		return m.drawOpening()
	case m.layout.Small && m.dialog != nil:
		return strings.Join(m.bareDialog(), "\n")
	case m.layout.Small:
		return strings.Join(m.smallLines(), "\n")
	}
	lines := make([]string, 0, m.h)
	header, _ := m.headerLine(m.w)
	tabs, _ := m.tabLine(m.w)
	lines = append(lines, header, tabs)
	for range m.layout.Tabs.H - 1 {
		lines = append(lines, "")
	}
	lines = append(lines, m.bodyLines()...)
	footer, _ := m.footerLine(m.w)
	message := m.messageLine(m.w)
	lines = append(lines, message, footer)
	if m.dialog != nil {
		lines = m.overlay(lines)
		in := m.dialogRect()
		if row := m.layout.Message.Y; m.note.text != "" && row > in.Y+in.H {
			lines[row] = message
		}
	}
	return strings.Join(lines, "\n")
}

// bodyLines sets the panes beside and below each other.
func (m *Model) bodyLines() []string {
	top := m.layout.Tabs.Y + m.layout.Tabs.H
	height := m.layout.Message.Y - top
	rows := make([]strings.Builder, height)
	rule := " "
	if len(m.layout.Rules) > 0 {
		rule = m.scene.Theme.Faint.Render("│")
	}
	for i, p := range m.layout.Panes {
		var block []string
		if p.Title.H > 0 {
			block = append(block, m.paneTitle(p))
		}
		pointer := " "
		if p.Title.H > 0 && p.ID == m.focus && len(m.screen.Panes()) > 1 {
			pointer = m.scene.Theme.Accent.Render("▸")
		}
		block = append(block, strings.Split(m.panes[p.ID].View(), "\n")...)
		right := p.X+p.W == m.layout.W
		for y := range p.H {
			row := &rows[p.Y-top+y]
			if p.X > 0 && i > 0 {
				row.WriteString(rule)
			}
			line := ""
			if y < len(block) {
				line = block[y]
			}
			if y == 0 {
				row.WriteString(pointer)
			} else {
				row.WriteByte(' ')
			}
			if right {
				row.WriteString(views.Truncate(line, p.Body.W))
			} else {
				row.WriteString(views.Fit(line, p.Body.W))
				row.WriteByte(' ')
			}
		}
	}
	out := make([]string, height)
	for y := range rows {
		out[y] = rows[y].String()
	}
	return out
}

// paneTitle is the line above a pane; that of the focused one is bright.
func (m *Model) paneTitle(p Placed) string {
	style := m.scene.Theme.Dim
	if p.ID == m.focus {
		style = m.scene.Theme.Title
	}
	return style.Render(views.Truncate(m.panes[p.ID].Title(), p.Title.W))
}

// smallLines is what a screen shows that is too small for panes: that it is,
// and how far the run is.
func (m *Model) smallLines() []string {
	text := fmt.Sprintf("quantscope needs %d×%d, this is %d×%d: %s", MinWidth, MinHeight, m.w, m.h, m.progressWords())
	lines := wrap(text, m.w)
	if len(lines) > m.h {
		lines = lines[:m.h]
	}
	for i := range lines {
		lines[i] = views.Truncate(lines[i], m.w)
	}
	return lines
}

// wrap sets a text in lines of at most w cells, or of one word where that is
// wider. There is always one.
func wrap(text string, w int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case views.Width(line)+1+views.Width(word) <= w:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// progressWords is the state of what runs, or of the run, without marks.
func (m *Model) progressWords() string {
	switch {
	case m.scene.KL.Running:
		return ansi.Strip(m.klStatus(math.MaxInt16))
	case m.scene.Gates.Running:
		return ansi.Strip(m.gatesStatus(math.MaxInt16))
	case m.scene.Tier.Running:
		return ansi.Strip(m.tierStatus(math.MaxInt16))
	case m.scene.Bias.Running:
		return ansi.Strip(m.biasStatus(math.MaxInt16))
	}
	p := m.scene.State.Progress
	text := fmt.Sprintf("%s %d/%d", p.State, p.Done, p.Total)
	if c := m.calibrationStep(); c != nil {
		text += ", " + c.variant + " " + strings.Join(c.parts(), ", ")
	}
	return text
}

// headerLine says what is open at the left and what runs at the right. The
// second result is where the bar of a replay stands.
func (m *Model) headerLine(w int) (string, Rect) {
	t := m.scene.Theme
	meta := m.scene.State.Meta
	status, bar := m.statusLine(m.statusRoom(w))
	statusWidth := views.Width(status)
	room := max(w-2-statusWidth-2, 0)
	left := t.Title.Render("quantscope")
	if name := openName(meta); name != "" {
		left += "  " + t.Accent.Render(views.TruncateMiddle(views.Clean(name), room-views.Width(left)-2))
	}
	if summary := summaryOf(meta, room-views.Width(left)-2); summary != "" {
		left += "  " + t.Dim.Render(summary)
	}
	bar.X += 1 + room + 2
	return " " + views.Fit(left, room) + "  " + status, bar
}

// summaryOf is what the checkpoint is and how large, as many whole items of it
// as w cells hold.
func summaryOf(meta sessions.Meta, w int) string {
	const between = " · "
	if meta.Summary == "" {
		return ""
	}
	text := views.Clean(meta.Summary)
	if meta.SourceBytes > 0 {
		text += between + size(float64(meta.SourceBytes))
	}
	items := strings.Split(text, between)
	for len(items) > 0 && views.Width(strings.Join(items, between)) > w {
		items = items[:len(items)-1]
	}
	return strings.Join(items, between)
}

// openName is a short name of the checkpoint.
func openName(meta sessions.Meta) string {
	if meta.SourcePath == "" {
		return ""
	}
	return filepath.Base(meta.SourcePath)
}

// statusLine says what runs, in at most w cells; what matters less goes first
// where there is no room. The bar's rectangle is relative to the line's start.
func (m *Model) statusLine(w int) (string, Rect) {
	if m.src.player != nil {
		return m.replayStatus(w)
	}
	switch {
	case m.gatesOwnPause():
		return m.gatesStatus(w), Rect{}
	case m.ownsPause():
		return m.klStatus(w), Rect{}
	case m.tierOwnsPause():
		return m.tierStatus(w), Rect{}
	case m.biasOwnsPause():
		return m.biasStatus(w), Rect{}
	}
	if len(m.scene.State.Variants) == 0 {
		if y := m.yard(); y != nil && y.End != nil && m.screen != ScreenGates {
			return m.klEnded(y, w), Rect{}
		}
		if g := m.gateRun(); g != nil && g.End != nil {
			return m.gatesEnded(g, w), Rect{}
		}
		if r := m.scene.TierRun(); r != nil && r.End != nil {
			return m.tierEnded(r, w), Rect{}
		}
		if b := m.biasRun(); b != nil && b.End != nil {
			return m.biasEnded(b, w), Rect{}
		}
	}
	t := m.scene.Theme
	p := m.scene.State.Progress
	parts := []string{fmt.Sprintf("%d/%d", p.Done, p.Total)}
	calibration := m.calibrationStep()
	var mark string
	var style lipgloss.Style
	switch p.State {
	case sessions.RunRunning:
		mark, style = "▶", t.Accent
		if v := m.scene.State.Variants; p.Variant >= 0 && p.Variant < len(v) {
			mark += " " + views.Clean(v[p.Variant].Name)
		}
		if calibration != nil {
			mark = "▶ " + calibration.variant
		}
		if m.paused() {
			mark, style = "‖ pausing", t.Warn
		}
		eta := ""
		if p.ETASeconds > 0 {
			eta = "ETA " + minutes(int64(p.ETASeconds))
		}
		fast := ""
		switch {
		case calibration != nil:
			if r := p.Calibrating.TokensPerSec; r > 0 {
				fast = tokenRate(r)
			}
			parts = calibration.fitted(w-views.Width(mark)-2, fast, eta)
		case p.BytesPerSec > 0:
			fast = rate(p.BytesPerSec)
			fallthrough
		default:
			parts = said(parts[0], fast, eta)
		}
	case sessions.RunPaused:
		mark, style = "‖ paused", t.Warn
		if calibration != nil {
			parts = calibration.fitted(w-views.Width(mark)-2, "", parts[0])
		}
	case sessions.RunFinished:
		mark, style = "✓ finished", t.Good
	case sessions.RunCancelled:
		mark, style = "■ cancelled", t.Warn
	case sessions.RunStopped:
		mark, style = "✗ stopped", t.Bad
	case sessions.RunInterrupted:
		mark, style = "◌ interrupted", t.Warn
	default:
		mark, style = "· "+string(p.State), t.Dim
	}
	if p.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", p.Failed))
	}
	for len(parts) > 1 && views.Width(mark)+2+views.Width(strings.Join(parts, "  ")) > w {
		parts = parts[:len(parts)-1]
	}
	return views.Truncate(style.Render(mark)+"  "+t.Text.Render(strings.Join(parts, "  ")), w), Rect{}
}

// span is a part of a line that a click acts on.
type span struct {
	from, to int
	screen   Screen
	key      string // of the action, "" where there is none
	variant  int    // -1 where there is none
}

// tabLine lists the screens and says where the data come from. Screens that
// this version lacks are quiet, and only their digits are left where room is
// scarce; then the longest names are cut, and where that is not enough for the
// source itself, what cannot be opened goes, and then all names but the present.
func (m *Model) tabLine(w int) (string, []span) {
	const least = 30 // what the source and a file name that can be told need
	line, spans := m.tabs(0)
	for shorter := 1; shorter <= 2 && views.Width(line)+least > w; shorter++ {
		line, spans = m.tabs(shorter)
	}
	for shorter := 3; shorter <= 4 && views.Width(line)+views.Width(m.sourceLine(0))+1 > w; shorter++ {
		line, spans = m.tabs(shorter)
	}
	source := m.sourceLine(w - views.Width(line) - 3)
	return views.Fit(line, w-views.Width(source)-1) + source + " ", spans
}

// shortNames are the screens' where room is scarcest.
var shortNames = map[Screen]string{ScreenClipping: "Clip", ScreenLandscape: "Land", ScreenCompare: "Comp"}

// tabs is the line in one of five lengths, 0 the longest.
func (m *Model) tabs(shorter int) (string, []span) {
	short := shorter > 0
	t := m.scene.Theme
	present := m.screen
	if len(m.back) > 0 {
		present = m.back[0].screen
	}
	var b strings.Builder
	var spans []span
	x := 0
	for _, info := range screenTable {
		if info.screen == ScreenTensor || shorter > 2 && info.absent != "" {
			continue
		}
		text := fmt.Sprintf("%d %s", info.screen, info.name)
		if name := shortNames[info.screen]; name != "" && shorter > 1 && info.screen != present {
			text = fmt.Sprintf("%d %s", info.screen, name)
		}
		if shorter > 3 && info.screen != present {
			text = fmt.Sprintf("%d", info.screen)
		}
		style := t.Dim
		switch {
		case info.absent != "":
			style = t.Faint
			if short {
				text = fmt.Sprintf("%d", info.screen)
			}
		case info.screen == present:
			style = t.Accent.Bold(true).Underline(true)
		}
		left, right := " ", " "
		if t.Profile == termenv.Ascii { // without styles, brackets tell them apart
			switch {
			case info.absent != "" && !short:
				left, right = "(", ")"
			case info.screen == present:
				left, right = "[", "]"
			}
		}
		b.WriteString(left + style.Render(text) + right)
		n := views.Width(text) + 2
		spans = append(spans, span{from: x, to: x + n, screen: info.screen, variant: -1})
		x += n
	}
	return b.String(), spans
}

// sourceLine is the source of truth and its file, in at most w cells.
func (m *Model) sourceLine(w int) string {
	t := m.scene.Theme
	mark, style := "● live", t.Good
	switch m.scene.Mode {
	case sessions.Follow:
		mark, style = "● following", t.Good
	case sessions.Saved:
		mark, style = "○ saved", t.Dim
	case sessions.Replay:
		mark, style = "» replay", t.Accent
	}
	file := "in memory"
	if path := m.scene.State.Meta.Path; path != "" {
		file = filepath.Base(path)
	}
	file = views.Clean(file)
	room := max(w-views.Width(mark)-2, 0)
	if room < min(views.Width(file), 5) { // what is left of it would tell nothing
		return style.Render(mark)
	}
	file = views.TruncateMiddle(file, room)
	return style.Render(mark) + "  " + t.Dim.Render(file)
}
