package tui

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"

	_ "github.com/charmbracelet/x/exp/golden" // registers -update
	"quantscope/sessions"
	"quantscope/views"
)

// driver plays the part of the terminal and of Bubble Tea's loop: it hands keys
// to the model and runs its commands, in this goroutine, until none is left.
// Idle is therefore known, not guessed.
type driver struct {
	t     *testing.T
	m     *Model
	todo  []tea.Cmd
	quit  bool
	now   time.Time
	other []tea.Msg // messages for Bubble Tea itself
}

// fixed are options that do not depend on the machine.
func fixed() Options {
	profile, dark := termenv.Ascii, true
	return Options{
		Profile: &profile, Dark: &dark, handFed: true,
		Env: func(string) string { return "" },
		Known: []Known{
			{Name: "nvfp4", Help: "round to nearest"}, {Name: "nvfp4+mse", Help: "least squared error of nine multipliers"},
			{Name: "nvfp4+mse_ge1", Help: "the same, multipliers of at least 1"}, {Name: "nvfp4+sweep", Help: "every E4M3 scale"}, {Name: "nvfp4+4over6", Help: "two scales a block"},
		},
	}
}

// drive starts a model on a feed at a size.
func drive(t *testing.T, feed sessions.Feed, o Options, w, h int) *driver {
	t.Helper()
	d := &driver{t: t, now: time.Unix(1_764_435_720, 0)}
	if o.Now == nil {
		o.Now = func() time.Time { return d.now }
	}
	d.m = New(feed, o)
	t.Cleanup(func() { _ = d.m.end() })
	d.do(d.m.Init())
	d.Resize(w, h)
	return d
}

func (d *driver) do(cmd tea.Cmd) {
	if cmd != nil {
		d.todo = append(d.todo, cmd)
	}
}

// Send gives the model a message and draws, as Bubble Tea does.
func (d *driver) Send(msg tea.Msg) *driver {
	_, cmd := d.m.Update(msg)
	d.do(cmd)
	_ = d.m.View()
	return d
}

// Press presses keys by name, one after the other.
func (d *driver) Press(keys ...string) *driver {
	for _, k := range keys {
		d.Send(keyOf(k))
		d.WaitIdle()
	}
	return d
}

// Type types a text, a key a character.
func (d *driver) Type(text string) *driver {
	for _, r := range text {
		d.Press(string(r))
	}
	return d
}

// Resize changes the size of the screen.
func (d *driver) Resize(w, h int) *driver {
	return d.Send(tea.WindowSizeMsg{Width: w, Height: h}).WaitIdle()
}

// WaitIdle runs commands, and hands over batches of made-up feeds, until
// nothing is left to do.
func (d *driver) WaitIdle() *driver {
	d.t.Helper()
	for {
		for len(d.todo) > 0 {
			cmd := d.todo[0]
			d.todo = d.todo[1:]
			d.receive(cmd())
		}
		if !d.deliver() && len(d.todo) == 0 {
			break
		}
	}
	if err := d.m.err; err != nil {
		d.t.Fatalf("the program ended: %v", err)
	}
	return d
}

func (d *driver) receive(msg tea.Msg) {
	switch msg := msg.(type) {
	case nil:
	case tea.BatchMsg:
		d.todo = append(d.todo, msg...)
	case tea.QuitMsg:
		d.quit = true
	case tea.SuspendMsg:
		d.other = append(d.other, msg)
	default:
		d.Send(msg)
	}
}

// deliver hands over one batch that a made-up feed has ready.
func (d *driver) deliver() bool {
	for _, s := range []*source{d.m.src, d.m.home} {
		if s == nil {
			continue
		}
		if f, ok := s.feed.(interface {
			take() (sessions.Batch, bool)
		}); ok {
			if b, ok := f.take(); ok {
				d.Send(batchMsg{src: s, batch: b})
				return true
			}
		}
	}
	return false
}

// Until takes batches of a real feed until the state is as asked. It waits for
// the feed, not for the clock.
func (d *driver) Until(ctx context.Context, done func(*sessions.State) bool) *driver {
	d.t.Helper()
	for !done(d.m.scene.State) {
		switch msg := nextBatch(ctx, d.m.src, 0).(type) {
		case batchMsg:
			d.Send(msg).WaitIdle()
		case nil:
			d.t.Fatalf("the feed ended while %+v was waited for", d.m.scene.State.Progress)
		case feedErrMsg:
			d.t.Fatal(msg.err)
		}
	}
	return d
}

// Screen is what stands on the screen, without styles.
func (d *driver) Screen() string { return ansi.Strip(d.m.View()) }

// Sees asserts that all the texts are on the screen.
func (d *driver) Sees(texts ...string) *driver {
	d.t.Helper()
	screen := d.Screen()
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			d.t.Fatalf("%q is not on the screen:\n%s", text, screen)
		}
	}
	return d
}

// Misses asserts that none of the texts is on the screen.
func (d *driver) Misses(texts ...string) *driver {
	d.t.Helper()
	screen := d.Screen()
	for _, text := range texts {
		if strings.Contains(screen, text) {
			d.t.Fatalf("%q is on the screen:\n%s", text, screen)
		}
	}
	return d
}

// Message is the line above the last.
func (d *driver) Message() string {
	lines := strings.Split(d.Screen(), "\n")
	if len(lines) < 2 {
		return ""
	}
	return strings.TrimSpace(lines[len(lines)-2])
}

// Says asserts what the line above the last holds.
func (d *driver) Says(text string) *driver {
	d.t.Helper()
	if got := d.Message(); !strings.Contains(got, text) {
		d.t.Fatalf("the message line says %q, want %q", got, text)
	}
	return d
}

// On asserts which screen is shown.
func (d *driver) On(s Screen) *driver {
	d.t.Helper()
	if d.m.screen != s {
		d.t.Fatalf("on screen %v, want %v", d.m.screen, s)
	}
	return d
}

// Click clicks a cell with the left button.
func (d *driver) Click(x, y int) *driver {
	d.t.Helper()
	d.Send(tea.MouseMsg{X: x, Y: y, Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
	d.Send(tea.MouseMsg{X: x, Y: y, Action: tea.MouseActionRelease, Button: tea.MouseButtonLeft})
	return d.WaitIdle()
}

// ClickOn clicks the first cell of a text.
func (d *driver) ClickOn(text string) *driver {
	d.t.Helper()
	for y, line := range strings.Split(d.Screen(), "\n") {
		if i := strings.Index(line, text); i >= 0 {
			return d.Click(views.Width(line[:i]), y)
		}
	}
	d.t.Fatalf("%q is not on the screen:\n%s", text, d.Screen())
	return d
}

// fits asserts that a frame is h lines of at most w cells.
func fits(t *testing.T, frame string, w, h int) {
	t.Helper()
	lines := strings.Split(frame, "\n")
	if len(lines) > h {
		t.Errorf("%d lines on a screen of %d", len(lines), h)
	}
	for i, line := range lines {
		if n := views.Width(line); n > w {
			t.Errorf("line %d is %d cells wide on a screen of %d: %q", i, n, w, line)
		}
	}
}

// golden compares with testdata/NAME.golden, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	lines := strings.Split(got, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	got = strings.Join(lines, "\n") + "\n"
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./tui -update writes it)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./tui -update rewrites it):\n got:\n%s\nwant:\n%s", path, got, want)
	}
}
