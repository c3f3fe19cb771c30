package views

import (
	"fmt"

	tea "github.com/charmbracelet/bubbletea"

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
