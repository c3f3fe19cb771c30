package views

import (
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"quantscope/sessions"
)

// Log lists the events of a session in order. It follows the tail until the
// person moves up, and draws visible rows only.
type Log struct {
	scene *Scene
	state *sessions.State // whose log lines holds
	w, h  int

	filter    int // of logFilters
	lines     logLines
	top       int // of lines.shown
	selected  int // of lines.shown
	following bool

	version uint64 // of what the person did here
	drawn   logKey
	cached  string
}

// logKey is all that a picture depends on.
type logKey struct {
	version, scene uint64
	theme          *Theme
	events         int
	variants       int
	w, h           int
}

// NewLog makes the log of a scene's session.
func NewLog(s *Scene) Pane { return newLog(s) }

func newLog(s *Scene) *Log {
	p := &Log{scene: s, following: true}
	p.settle()
	return p
}

// Title names the filter and counts what a person should look at.
func (p *Log) Title() string {
	p.settle()
	title := "Log · " + p.lines.summary()
	if p.filter != 0 {
		title += fmt.Sprintf(" · %s only: %s of %s", logFilters[p.filter].name, thousands(len(p.lines.shown)), plural(p.lines.scanned, "event"))
	}
	return title
}

// SetSize sets the inner size.
func (p *Log) SetSize(w, h int) {
	if w == p.w && h == p.h {
		return
	}
	p.w, p.h = w, h
	p.settle()
}

// Apply takes in new events.
func (p *Log) Apply(b sessions.Batch) {
	if b.Reset != nil {
		p.state = nil
	}
	p.settle()
}

func (p *Log) touch() { p.version++ }

// rows is how many lines of the log are visible, detail how many lines below
// them show the selected one in full.
func (p *Log) rows() (rows, detail int) {
	if p.h < 8 {
		return p.h, 0
	}
	detail = min(2+p.h/8, 7)
	return p.h - detail, detail
}

// settle takes in what is new and keeps the selection inside the log and
// inside the window.
func (p *Log) settle() {
	if p.state != p.scene.State { // another session, or a replay that went backwards
		p.state, p.following = p.scene.State, true
		p.lines.reset(logFilters[p.filter])
		p.touch()
	}
	p.lines.scan(p.scene.State.Log)
	last := len(p.lines.shown) - 1
	if p.following {
		p.selected = last
	}
	p.selected = max(min(p.selected, last), 0)
	rows, _ := p.rows()
	p.top = min(p.top, p.selected)
	p.top = max(p.top, p.selected-rows+1)
	p.top = max(min(p.top, last-rows+1), 0)
}

// moveTo selects a line. The tail is followed while the last one is selected.
func (p *Log) moveTo(line int) {
	last := len(p.lines.shown) - 1
	line = max(min(line, last), 0)
	following := line == last
	if line == p.selected && following == p.following {
		return
	}
	p.selected, p.following = line, following
	p.touch()
	p.settle()
}

// setFilter shows other kinds of events. The selected event stays selected
// where it is still shown, else the next one after it is.
func (p *Log) setFilter(f int) {
	if f == p.filter {
		return
	}
	at := int32(0)
	if p.selected < len(p.lines.shown) {
		at = p.lines.shown[p.selected]
	}
	p.filter = f
	p.lines.reset(logFilters[f])
	p.lines.scan(p.scene.State.Log)
	p.selected = 0
	for p.selected < len(p.lines.shown)-1 && p.lines.shown[p.selected] < at {
		p.selected++
	}
	p.touch()
	p.settle()
}

// event is the selected event.
func (p *Log) event() (sessions.Event, bool) {
	if p.selected >= len(p.lines.shown) {
		return sessions.Event{}, false
	}
	return p.scene.State.Log[p.lines.shown[p.selected]], true
}

// Keys lists the keys of the log.
func (p *Log) Keys() []Key {
	jump := Key{Keys: []string{"enter"}, Label: "enter", Help: "go to the tensor of the event"}
	if e, ok := p.event(); !ok || p.tensorOf(e) < 0 {
		jump.Disabled = "the event is about no tensor"
	}
	return []Key{
		{Keys: []string{"up", "k"}, Label: "↑ k", Help: "event before"},
		{Keys: []string{"down", "j"}, Label: "↓ j", Help: "event after"},
		{Keys: []string{"pgup", "ctrl+b"}, Label: "pgup", Help: "a page up"},
		{Keys: []string{"pgdown", "ctrl+f"}, Label: "pgdn", Help: "a page down"},
		{Keys: []string{"home"}, Label: "home", Help: "first event"},
		{Keys: []string{"end", "G"}, Label: "end G", Help: "last event, and follow"},
		{Keys: []string{"f"}, Label: "f", Help: "kinds shown: " + logFilters[p.filter].name},
		{Keys: []string{"F"}, Label: "F", Help: "kinds shown, back"},
		jump,
	}
}

// HandleKey acts on the keys that Keys lists.
func (p *Log) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) {
	p.settle()
	rows, _ := p.rows()
	page := max(rows-1, 1)
	switch k.String() {
	case "up", "k":
		p.moveTo(p.selected - 1)
	case "down", "j":
		p.moveTo(p.selected + 1)
	case "pgup", "ctrl+b":
		p.moveTo(p.selected - page)
	case "pgdown", "ctrl+f":
		p.moveTo(p.selected + page)
	case "home":
		p.moveTo(0)
	case "end", "G":
		p.moveTo(len(p.lines.shown) - 1)
	case "f":
		p.setFilter((p.filter + 1) % len(logFilters))
	case "F":
		p.setFilter((p.filter + len(logFilters) - 1) % len(logFilters))
	case "enter":
		e, ok := p.event()
		if !ok || p.tensorOf(e) < 0 {
			return false, nil
		}
		p.scene.SetCursor(e.Tensor)
		p.scene.SetVariant(e.Variant)
	default:
		return false, nil
	}
	return true, nil
}

// HandleMouse selects by click and scrolls by wheel.
func (p *Log) HandleMouse(_, y int, m tea.MouseMsg) (bool, tea.Cmd) {
	p.settle()
	rows, _ := p.rows()
	switch {
	case m.Button == tea.MouseButtonWheelUp:
		p.moveTo(p.selected - 3)
	case m.Button == tea.MouseButtonWheelDown:
		p.moveTo(p.selected + 3)
	case m.Action == tea.MouseActionPress && m.Button == tea.MouseButtonLeft && y >= 0 && y < rows && p.top+y < len(p.lines.shown):
		p.moveTo(p.top + y)
	default:
		return false, nil
	}
	return true, nil
}

// tensorOf is the tensor of an event, -1 where there is none.
func (p *Log) tensorOf(e sessions.Event) int {
	if e.Tensor < 0 || e.Tensor >= len(p.scene.State.Tensors) {
		return -1
	}
	return e.Tensor
}

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
		Fit(glyph+" "+Clean(string(e.Kind)), logKindWidth),
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
	where := style.Render(glyph+" "+Clean(string(e.Kind))) + th.Dim.Render("  at "+sinceStart(e.AtUS)+fmt.Sprintf("  seq %d", e.Seq))
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
	case sessions.EventCreated, sessions.EventVariant:
		return th.Dim, "+"
	case sessions.EventStarted, sessions.EventResumed:
		return th.Accent, "▶"
	case sessions.EventPaused:
		return th.Dim, "‖"
	case sessions.EventCancelled:
		return th.Warn, "■"
	}
	return th.Text, "·"
}
