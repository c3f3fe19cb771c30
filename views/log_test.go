package views

import (
	"fmt"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// hit sends a key by its name.
func hit(p Pane, name string) bool {
	handled, _ := p.HandleKey(keyNamed(name))
	return handled
}

var namedKeys = map[string]tea.KeyType{
	"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "enter": tea.KeyEnter, "esc": tea.KeyEsc,
	"home": tea.KeyHome, "end": tea.KeyEnd, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "ctrl+b": tea.KeyCtrlB, "ctrl+f": tea.KeyCtrlF,
}

func keyNamed(name string) tea.KeyMsg {
	if kind, ok := namedKeys[name]; ok {
		return tea.KeyMsg{Type: kind}
	}
	return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(name)}
}

// paneSizes are what is left of common screens.
var paneSizes = []struct {
	name string
	w, h int
}{{"80x24", 80, 19}, {"120x40", 120, 35}, {"200x60", 200, 55}, {"20x5", 20, 5}}

func TestLogGolden(t *testing.T) {
	for _, size := range paneSizes {
		t.Run(size.name, func(t *testing.T) {
			p := NewLog(sceneOf(t, withLog(viewstest.Demo())))
			p.SetSize(size.w, size.h)
			for range 14 {
				hit(p, "up")
			}
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
	t.Run("colour", func(t *testing.T) {
		p := NewLog(sceneIn(t, withLog(viewstest.Demo()), termenv.TrueColor))
		p.SetSize(80, 12)
		hit(p, "f")
		checkGolden(t, p.Title()+"\n"+p.View())
	})
}

func TestLogFollowsUntilThePersonMoves(t *testing.T) {
	s := sceneOf(t, withLog(viewstest.Demo()))
	p := newLog(s)
	p.SetSize(80, 19)
	grow := func(n int) {
		for range n {
			e := sessions.Event{Seq: int64(len(s.State.Log)), Kind: sessions.EventFinding, Variant: -1, Tensor: -1}
			b := sessions.Batch{Events: []sessions.Event{e}}
			s.State.Apply(b)
			p.Apply(b)
		}
	}
	grow(30)
	if last := len(s.State.Log) - 1; p.selected != last {
		t.Errorf("selected %d, want the last, %d", p.selected, last)
	}
	hit(p, "up")
	at := p.selected
	grow(5)
	if p.selected != at || p.following {
		t.Errorf("selected %d after news, want %d", p.selected, at)
	}
	hit(p, "end")
	grow(1)
	if last := len(s.State.Log) - 1; p.selected != last || !p.following {
		t.Errorf("selected %d after end, want %d", p.selected, last)
	}
}

func TestLogEnterGoesToTheTensor(t *testing.T) {
	s := sceneOf(t, withLog(viewstest.Demo()))
	p := newLog(s)
	p.SetSize(100, 20)
	if hit(p, "enter") {
		t.Error("enter on an event without a tensor did something")
	}
	hit(p, "f") // problems: the failure is the second one
	hit(p, "home")
	hit(p, "down")
	e, _ := p.event()
	if e.Kind != sessions.EventFailed || !hit(p, "enter") || s.Cursor != e.Tensor || s.Variant != e.Variant {
		t.Errorf("%s: cursor %d, variant %d", e.Kind, s.Cursor, s.Variant)
	}
}

func TestLogFilterKeepsTheSelectedEvent(t *testing.T) {
	s := sceneOf(t, withLog(viewstest.Demo()))
	p := newLog(s)
	p.SetSize(100, 20)
	hit(p, "home")
	for range 8 {
		hit(p, "down")
	}
	want, _ := p.event()
	if want.Kind != sessions.EventFailed {
		t.Fatalf("selected %s", want.Kind)
	}
	hit(p, "f")
	if got, _ := p.event(); got.Seq != want.Seq {
		t.Errorf("after f: event %d, want %d", got.Seq, want.Seq)
	}
	hit(p, "f") // findings only: the next one after it
	if got, _ := p.event(); got.Kind != sessions.EventFinding || got.Seq < want.Seq {
		t.Errorf("after f f: event %d %s", got.Seq, got.Kind)
	}
	hit(p, "F")
	hit(p, "F")
	if p.filter != 0 {
		t.Errorf("filter %d, want all", p.filter)
	}
}

func TestLogMouse(t *testing.T) {
	s := sceneOf(t, withLog(viewstest.Demo()))
	p := newLog(s)
	p.SetSize(80, 19)
	click := tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft}
	if handled, _ := p.HandleMouse(3, 2, click); !handled || p.selected != p.top+2 {
		t.Errorf("selected %d, top %d", p.selected, p.top)
	}
	if handled, _ := p.HandleMouse(3, 18, click); handled {
		t.Error("a click below the list did something")
	}
	at := p.selected
	p.HandleMouse(0, 0, tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonWheelUp})
	if p.selected != max(at-3, 0) {
		t.Errorf("selected %d after the wheel, want %d", p.selected, at-3)
	}
}

// TestLogBumpsItsVersion holds for whatever changes the picture, and only that.
func TestLogBumpsItsVersion(t *testing.T) {
	s := sceneOf(t, withLog(viewstest.Demo()))
	p := newLog(s)
	p.SetSize(80, 19)
	for _, c := range []struct {
		name string
		do   func()
		bump bool
	}{
		{"up", func() { hit(p, "up") }, true},
		{"home", func() { hit(p, "home") }, true},
		{"home again", func() { hit(p, "home") }, false},
		{"up at the top", func() { hit(p, "up") }, false},
		{"f", func() { hit(p, "f") }, true},
		{"F", func() { hit(p, "F") }, true},
		{"end", func() { hit(p, "end") }, true},
		{"end again", func() { hit(p, "end") }, false},
		{"reset", func() { p.Apply(sessions.Batch{Reset: s.State}) }, true},
		{"another key", func() { hit(p, "z") }, false},
	} {
		before, view := p.version, p.View()
		c.do()
		if bumped := p.version != before; bumped != c.bump {
			t.Errorf("%s: bumped %v", c.name, bumped)
		}
		if !c.bump && p.View() != view {
			t.Errorf("%s: the view changed without a new version", c.name)
		}
	}
}

func TestLogFitsAnySize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := sceneOf(t, viewstest.Demo())
		p := newLog(s)
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				e := sessions.Event{
					AtUS: rapid.Int64().Draw(rt, "at"), Variant: rapid.IntRange(-1, 5).Draw(rt, "variant"), Tensor: rapid.IntRange(-1, 400).Draw(rt, "tensor"),
					Kind:    rapid.SampledFrom([]sessions.EventKind{"failed", "finding", "fallback", "created", "finished", "new\x1bkind"}).Draw(rt, "kind"),
					Message: rapid.String().Draw(rt, "message"),
				}
				b := sessions.Batch{Events: []sessions.Event{e}}
				if rapid.IntRange(0, 20).Draw(rt, "reset") == 0 {
					b = sessions.Batch{Reset: viewstest.Partial()}
				}
				s.State.Apply(b)
				p.Apply(b)
			case 1:
				hit(p, rapid.SampledFrom([]string{"up", "down", "pgup", "pgdown", "home", "end", "f", "F", "enter"}).Draw(rt, "key"))
			default:
				w, h := viewstest.Size(300).Draw(rt, "w"), viewstest.Size(120).Draw(rt, "h")
				p.SetSize(w, h)
				checkSize(rt, p.View(), w, h)
				if Width(p.Title()) == 0 {
					rt.Errorf("no title")
				}
			}
		}
	})
}

// BenchmarkLogFrame adds an event to a log of 100,000 and draws it.
func BenchmarkLogFrame(b *testing.B) {
	s := sceneOf(b, viewstest.Demo())
	for i := range 100_000 {
		s.State.Log = append(s.State.Log, sessions.Event{Seq: int64(i), AtUS: int64(i) * 700, Kind: sessions.EventFinding, Variant: i % 3, Tensor: i % 240, Message: fmt.Sprint("finding ", i)})
	}
	p := newLog(s)
	p.SetSize(200, 55)
	p.View()
	b.ReportAllocs()
	for b.Loop() {
		batch := sessions.Batch{Events: []sessions.Event{{Seq: int64(len(s.State.Log)), Kind: sessions.EventFailed, Variant: 1, Tensor: 7}}}
		s.State.Apply(batch)
		p.Apply(batch)
		p.View()
	}
}
