package tui

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
	"quantscope/views"
)

// A place that cannot be overwritten is asked about once, and then refused with
// its reason beside the path.
func TestExportOntoFolder(t *testing.T) {
	calls := 0
	o := fixed()
	o.Export = func(_ context.Context, _, _, path string, _ bool) error {
		calls++
		return fmt.Errorf("%s: cannot be written: %w", path, fs.ErrExist) // as a rename onto a folder says
	}
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 100, 30)
	d.Press("e", "ctrl+u").Type("/tmp").Press("down", "enter").Sees("Overwrite?")
	d.Press("enter").Misses("Overwrite?").Sees("Export the records", "❯ CSV", "/tmp", "✗ /tmp: cannot be written: file already exists")
	if calls != 2 {
		t.Errorf("%d tries", calls)
	}
	d.Resize(30, 6).Sees("Export the records")
}

// A run that ends while the person is asked whether to quit changes the
// question; its keys hold.
func TestRunEndsUnderTheQuestion(t *testing.T) {
	for _, key := range []string{"q", "enter", "esc"} {
		run := newFakeRun(demoState())
		d := drive(t, run, fixed(), 100, 30)
		d.Press("q").Sees("Quit while the run is going?")
		run.measure(1000)
		d.WaitIdle().Misses("while the run is going").Sees("Quit?", "has ended").Press(key)
		if d.quit != (key != "esc") || d.m.dialog != nil || d.m.screen != ScreenMap {
			t.Errorf("%s: quit %v, dialog %v, screen %v", key, d.quit, d.m.dialog, d.m.screen)
		}
	}
	run := newFakeRun(demoState())
	d := drive(t, run, fixed(), 100, 30)
	d.Press("q")
	run.measure(1)
	d.WaitIdle().Sees("Quit while the run is going?")
}

// An export that ends while the person is asked whether to quit for its sake
// changes the question too, and its refusal does not take the question's place.
func TestExportEndsUnderTheQuestion(t *testing.T) {
	o := fixed()
	o.Export = func(context.Context, string, string, string, bool) error { return fs.ErrExist }
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 100, 30)
	d.Press("e").Send(keyOf("enter")).Send(keyOf("q")).Sees("Quit while an export is written?")
	d.WaitIdle().Misses("while an export").Sees("Quit?").Says("export: file already exists")
}

// countedPane counts how often it is drawn.
type countedPane struct {
	views.Pane
	drawn *int
}

func (p countedPane) View() string { *p.drawn++; return p.Pane.View() }

// Text fields take so much and say so. Keys that a full one refuses draw nothing
// anew, and of the filters that fast typing asks for one is made at a time.
func TestLongPaste(t *testing.T) {
	paste := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(strings.Repeat("é", 100_000)), Paste: true}
	for _, open := range []string{"/", ":", "e"} {
		d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixedExport(), 100, 30)
		field := func() *lineEdit {
			switch x := d.m.dialog.(type) {
			case *exportForm:
				return &x.file
			case *picker:
				return x.search
			}
			return &d.m.editing.line
		}
		d.Press(open, "ctrl+u").Send(paste).WaitIdle()
		if n := len([]rune(field().text)); n != maxLine {
			t.Errorf("%s: %d characters are taken", open, n)
		}
		if d.m.note.text != lineFull {
			t.Errorf("%s: message %q", open, d.m.note.text)
		}
		d.Sees("only 1024 characters are taken")
		drawn := 0
		d.m.panes[PaneMap] = countedPane{d.m.panes[PaneMap], &drawn}
		for range 50 {
			d.Send(keyOf("x"))
		}
		if drawn != 0 || len(d.todo) != 0 {
			t.Errorf("%s: refused keys drew %d frames and left %d commands", open, drawn, len(d.todo))
		}
		if d.Press("backspace"); d.m.note.text != "" || drawn == 0 {
			t.Errorf("%s: after a key that is taken: message %q, %d frames", open, d.m.note.text, drawn)
		}
	}

	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 100, 30)
	d.Press("/")
	for _, r := range "layers.3" {
		d.Send(keyOf(string(r)))
	}
	if gen := d.m.filterGen; !d.m.filtering || d.m.nextMatch == nil || gen != 8 {
		t.Errorf("filter under way %v, next %v, generation %d", d.m.filtering, d.m.nextMatch, gen)
	}
	if d.WaitIdle(); d.m.filterGen != 9 || d.m.scene.Filter.Text != "layers.3" {
		t.Errorf("generation %d, filter %q", d.m.filterGen, d.m.scene.Filter.Text)
	}
	d.Send(keyOf("x")).Send(keyOf("y")).Send(keyOf("esc")).WaitIdle()
	if d.m.scene.Filter.Text != "" || d.m.filtering {
		t.Errorf("after esc: filter %q", d.m.scene.Filter.Text)
	}
}

func fixedExport() Options {
	o := fixed()
	o.Export = func(context.Context, string, string, string, bool) error { return nil }
	return o
}
