package tui

import (
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

func TestMouse(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 200, 60)
	d.ClickOn("2 Clipping").On(ScreenClipping)
	d.ClickOn("3 Landscape").On(ScreenLandscape)
	d.ClickOn("1 Map").On(ScreenMap)
	d.ClickOn("nvfp4+mse_ge1 ●")
	if d.m.scene.Variant != 2 {
		t.Errorf("variant %d after a click on its name", d.m.scene.Variant)
	}
	worst := d.m.layout.Panes[2]
	d.Click(worst.X+3, worst.Y)
	if d.m.focus != PaneWorst {
		t.Errorf("focus on %s after a click on Worst", paneNames[d.m.focus])
	}
	d.ClickOn("L3")
	if d.m.focus != PaneMap {
		t.Errorf("focus on %s after a click on the map", paneNames[d.m.focus])
	}
	d.ClickOn("? help").Sees("esc close")
	d.Click(1, 1).Misses("esc close")
	d.Press("M").ClickOn("sqnr").ClickOn("sqnr").Says("sqnr: ")
}

// A double click is two presses at one cell within the time; it opens the
// tensor under it.
func TestDoubleClick(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 120, 40)
	x, y, found := cellOfMap(d)
	if !found {
		t.Fatal("no click on the map moves the cursor")
	}
	d.now = d.now.Add(time.Hour)
	d.Click(x, y)
	d.now = d.now.Add(doubleClick + time.Millisecond)
	d.Click(x, y).On(ScreenMap)
	d.now = d.now.Add(doubleClick)
	d.Click(x, y).On(ScreenTensor)
}

// cellOfMap is a cell whose click moves the cursor.
func cellOfMap(d *driver) (x, y int, found bool) {
	p := d.m.layout.Panes[0]
	for y := p.Body.Y; y < p.Body.Y+p.Body.H; y++ {
		for x := p.Body.X + 8; x < p.Body.X+p.Body.W; x++ {
			before := d.m.scene.Cursor
			d.now = d.now.Add(time.Hour)
			if d.Click(x, y); d.m.scene.Cursor != before {
				return x, y, true
			}
		}
	}
	return 0, 0, false
}

// The wheel scrolls what is under it, also a dialog.
func TestWheel(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 80, 24)
	d.Press("?")
	before := d.Screen()
	d.Send(tea.MouseMsg{X: 40, Y: 10, Action: tea.MouseActionPress, Button: tea.MouseButtonWheelDown})
	if d.Screen() == before {
		t.Error("the wheel does not scroll the help")
	}
	d.Send(tea.MouseMsg{X: 40, Y: 10, Action: tea.MouseActionPress, Button: tea.MouseButtonWheelUp})
	if d.Screen() != before {
		t.Error("the wheel does not scroll back")
	}
}
