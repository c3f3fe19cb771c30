package views

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"quantscope/sessions"
)

// View is the visible part of the log, and the selected event in full below.
func (p *Log) View() string {
	key := logKey{p.version, p.scene.Version, p.scene.Theme, len(p.scene.State.Log), len(p.scene.State.Variants), p.w, p.h}
	if p.drawn != key || p.cached == "" {
		p.settle()
		p.cached, p.drawn = p.draw(), key
	}
	return p.cached
}

func (p *Log) draw() string {
	th, state := p.scene.Theme, p.scene.State
	rows, detail := p.rows()
	lines := make([]string, 0, max(p.h, 0))
	if p.w <= 0 || rows <= 0 {
		return Block(nil, p.w, p.h)
	}
	if len(p.lines.shown) == 0 {
		text := "nothing has happened yet"
		if p.lines.scanned > 0 {
			text = fmt.Sprintf("no %s among %s; f shows other kinds", logFilters[p.filter].name, plural(p.lines.scanned, "event"))
		}
		return Block([]string{th.Dim.Render(Truncate(text, p.w))}, p.w, p.h)
	}
	cols := p.columns()
	for i := p.top; i < len(p.lines.shown) && i < p.top+rows; i++ {
		lines = append(lines, p.row(cols, state.Log[p.lines.shown[i]], i == p.selected))
	}
	for len(lines) < rows {
		lines = append(lines, "")
	}
	if e, ok := p.event(); ok && detail > 0 {
		lines = append(lines, p.detail(e, detail)...)
	}
	return Block(lines, p.w, p.h)
}

// logColumns are the widths of the columns; 0 where one is left out.
type logColumns struct{ time, variant, tensor, message int }

func (p *Log) columns() logColumns {
	c := logColumns{time: 8}
	for _, i := range []int{p.top, len(p.lines.shown) - 1} {
		if i < len(p.lines.shown) {
			c.time = max(c.time, Width(sinceStart(p.scene.State.Log[p.lines.shown[i]].AtUS)))
		}
	}
	if p.w >= 60 {
		for _, v := range p.scene.State.Variants {
			c.variant = min(max(c.variant, Width(Clean(v.Name))), 24)
		}
	}
	rest := p.w - 2 - c.time - 2 - logKindWidth - 2
	if c.variant > 0 {
		rest -= c.variant + 2
	}
	switch {
	case p.w >= 140:
		c.tensor = min(rest*2/5, 48)
	case p.w >= 60:
		c.tensor = min(rest*2/5, 18)
	}
	if c.tensor > 0 {
		rest -= c.tensor + 2
	}
	c.message = max(rest, 0)
	return c
}

// logKindWidth holds the longest glyph and word.
const logKindWidth = 11

func (p *Log) row(c logColumns, e sessions.Event, selected bool) string {
	th := p.scene.Theme
	style, glyph := logLook(th, e.Kind)
	parts := []string{
		FitRight(sinceStart(e.AtUS), c.time),
		Fit(glyph+" "+logKind(e.Kind), logKindWidth),
	}
	if c.variant > 0 {
		parts = append(parts, Fit(p.variantName(e.Variant), c.variant))
	}
	message := c.message
	switch t := p.tensorOf(e); {
	case c.tensor == 0:
	case t < 0: // the message may have the room
		message += c.tensor + 2
	case p.w >= 140:
		parts = append(parts, Fit(TruncateMiddle(p.tensorName(e), c.tensor), c.tensor))
	default:
		parts = append(parts, Fit(TruncateMiddle(ShortName(&p.scene.State.Tensors[t]), c.tensor), c.tensor))
	}
	parts = append(parts, Fit(oneLine(e.Message), message))
	if selected {
		return th.Cursor.Render(Fit("› "+strings.Join(parts, "  "), p.w))
	}
	parts[0], parts[1] = th.Dim.Render(parts[0]), style.Render(parts[1])
	for i := 2; i < len(parts); i++ {
		switch {
		case i == 2 && c.variant > 0 && e.Variant >= 0:
			parts[i] = th.VariantStyle(e.Variant).Render(parts[i])
		default:
			parts[i] = th.Text.Render(parts[i])
		}
	}
	return "  " + strings.Join(parts, "  ")
}

// detail is the selected event in h lines: a rule, its head, its message in
// full.
func (p *Log) detail(e sessions.Event, h int) []string {
	th := p.scene.Theme
	style, glyph := logLook(th, e.Kind)
	head := fmt.Sprintf("event %s of %s", thousands(p.selected+1), thousands(len(p.lines.shown)))
	if p.following {
		head += ", following"
	}
	lines := []string{th.Faint.Render(strings.Repeat("─", max(p.w-Width(head)-1, 0))) + " " + th.Dim.Render(head)}
	where := style.Render(glyph+" "+logKind(e.Kind)) + th.Dim.Render("  at "+sinceStart(e.AtUS)+fmt.Sprintf("  seq %d", e.Seq))
	if name := p.variantName(e.Variant); name != "" {
		where += "  " + th.VariantStyle(e.Variant).Render(name)
	}
	lines = append(lines, where)
	text := oneLine(e.Message)
	if name := p.tensorName(e); name != "" {
		if text != "" {
			name += ": "
		}
		text = name + text
	}
	for _, line := range strings.Split(ansi.Wrap(text, max(p.w, 1), "./_"), "\n") {
		if len(lines) == h {
			lines[h-1] = Truncate(ansi.Strip(lines[h-1]), p.w-1) + ellipsis
			break
		}
		lines = append(lines, th.Text.Render(line))
	}
	return lines
}

func (p *Log) variantName(id int) string {
	if id < 0 || id >= len(p.scene.State.Variants) {
		return ""
	}
	return Clean(p.scene.State.Variants[id].Name)
}

func (p *Log) tensorName(e sessions.Event) string {
	if t := p.tensorOf(e); t >= 0 {
		return Clean(p.scene.State.Tensors[t].Name)
	}
	return ""
}

// oneLine is a message with its line breaks as spaces.
func oneLine(s string) string { return Clean(strings.Join(strings.Fields(s), " ")) }

// logKind is what a kind of event is called.
func logKind(kind sessions.EventKind) string {
	switch kind {
	case sessions.EventYard:
		return "measure"
	case sessions.EventYardEnd:
		return "measured"
	case sessions.EventCalib:
		return "calibrate"
	case sessions.EventUnit:
		return "layer"
	case sessions.EventCalibEnd:
		return "calib end"
	}
	return Clean(string(kind))
}

// logLook is how a kind of event is marked: by shape first, colour second.
func logLook(th *Theme, kind sessions.EventKind) (lipgloss.Style, string) {
	switch kind {
	case sessions.EventFailed, sessions.EventStopped:
		return th.Bad, "×"
	case sessions.EventFinding:
		return th.Warn, "!"
	case sessions.EventFallback:
		return th.Warn, "↓"
	case sessions.EventFinished:
		return th.Good, "✓"
	case sessions.EventCreated, sessions.EventVariant, sessions.EventPlan:
		return th.Dim, "+"
	case sessions.EventStarted, sessions.EventResumed, sessions.EventYard, sessions.EventCalib:
		return th.Accent, "▶"
	case sessions.EventPaused:
		return th.Dim, "‖"
	case sessions.EventCancelled:
		return th.Warn, "■"
	case sessions.EventYardEnd, sessions.EventCalibEnd: // its message says how
		return th.Text, "■"
	}
	return th.Text, "·"
}
