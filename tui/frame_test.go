package tui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/sessions"
	"quantscope/views"
	"quantscope/views/viewstest"
)

// The screens at the sizes that the design names.
func TestScreens(t *testing.T) {
	for _, size := range []struct{ w, h int }{{80, 24}, {120, 40}, {200, 60}} {
		for _, c := range []struct{ name, keys string }{
			{"map", "1"}, {"clipping", "2"}, {"landscape", "3"}, {"compare", "4"}, {"log", "8"}, {"tensor", "1 enter"},
			{"help", "1 ?"}, {"palette", "1 :"}, {"variants", "1 v"}, {"filter", "1 / 3 . *"}, {"recipe", "3 w"},
		} {
			t.Run(fmt.Sprintf("%s-%dx%d", c.name, size.w, size.h), func(t *testing.T) {
				st := demoState()
				if strings.HasPrefix(c.keys, "3") {
					st = storedState()
				}
				d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), size.w, size.h)
				d.Press(strings.Fields(c.keys)...)
				fits(t, d.m.View(), size.w, size.h)
				if n := strings.Count(d.m.View(), "\n") + 1; n != size.h {
					t.Errorf("%d lines on a screen of %d", n, size.h)
				}
				golden(t, fmt.Sprintf("%s-%dx%d", c.name, size.w, size.h), d.m.View())
			})
		}
	}
}

// A run in the middle: progress, a failed tensor, cells that are not there yet.
func TestScreenOfRun(t *testing.T) {
	st := viewstest.Partial()
	st.Meta.Path = "/tmp/demo-1129-1702.qscope"
	for _, size := range []struct{ w, h int }{{80, 24}, {120, 40}, {20, 5}} {
		run := &fakeRun{fakeFeed: newFakeFeed(sessions.Live, viewstest.Demo(), st), state: st.Progress}
		d := drive(t, run, fixed(), size.w, size.h)
		fits(t, d.m.View(), size.w, size.h)
		golden(t, fmt.Sprintf("run-%dx%d", size.w, size.h), d.m.View())
	}
}

// A replay has a clock and a bar.
func TestScreenOfReplay(t *testing.T) {
	d := drive(t, newFakePlay(demoState()), fixed(), 120, 40)
	d.m.src.player.SeekTo(d.m.pos.EndUS / 2)
	d.WaitIdle()
	golden(t, "replay-120x40", d.m.View())
}

// Each theme in truecolor.
func TestThemes(t *testing.T) {
	for _, name := range views.ThemeNames() {
		for _, dark := range []bool{true, false} {
			o := fixed()
			profile := termenv.TrueColor
			o.Profile, o.Dark, o.Theme = &profile, &dark, name
			d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 80, 24)
			fits(t, d.m.View(), 80, 24)
			ground := map[bool]string{true: "dark", false: "light"}[dark]
			golden(t, fmt.Sprintf("theme-%s-%s", name, ground), strings.ReplaceAll(d.m.View(), "\x1b", "␛"))
		}
	}
}

// Whatever is open, at any size no line is wider than the screen and there are
// not more lines than it has.
func TestFramesFit(t *testing.T) {
	feeds := map[string]func() sessions.Feed{
		"live":   func() sessions.Feed { return newFakeRun(demoState()) },
		"saved":  func() sessions.Feed { return newFakeFeed(sessions.Saved, wideState(), wideState()) },
		"replay": func() sessions.Feed { return newFakePlay(demoState()) },
		"empty":  func() sessions.Feed { return sessions.NewStatic(&sessions.State{}) },
		"dense": func() sessions.Feed {
			return sessions.NewStatic(viewstest.Empty(viewstest.Dense(40), "nvfp4"))
		},
	}
	keys := []string{"1", "2", "4", "8", "enter", "esc", "?", ":", "v", "M", "B", "m", "p", "L", "e", "/", "X", "q", "tab", "g", "b", "V", "j", "l", "down", "right", "3", "("}
	rapid.Check(t, func(rt *rapid.T) {
		feed := feeds[rapid.SampledFrom([]string{"live", "saved", "replay", "empty", "dense"}).Draw(rt, "feed")]()
		o := fixed()
		profile := rapid.SampledFrom([]termenv.Profile{termenv.Ascii, termenv.ANSI, termenv.ANSI256, termenv.TrueColor}).Draw(rt, "profile")
		o.Profile = &profile
		d := drive(t, feed, o, 80, 24)
		defer d.m.end()
		for range rapid.IntRange(1, 6).Draw(rt, "n") {
			w, h := viewstest.Size(210).Draw(rt, "w"), viewstest.Size(70).Draw(rt, "h")
			d.Resize(w, h)
			d.Press(rapid.SliceOfN(rapid.SampledFrom(keys), 0, 4).Draw(rt, "keys")...)
			if w == 0 && h == 0 {
				w, h = 80, 24
			}
			lines := strings.Split(d.m.View(), "\n")
			if len(lines) > max(h, 1) {
				rt.Fatalf("%d lines on %d×%d", len(lines), w, h)
			}
			for _, line := range lines {
				if n := views.Width(line); n > w {
					rt.Fatalf("a line of %d cells on %d×%d: %q", n, w, h, line)
				}
			}
		}
	})
}

// wideState has the names of case C41: wide, combining and endless ones.
func wideState() *sessions.State {
	st := demoState()
	names := []string{"模型.层.0.注意力.权重", "🚀.weight", "👨‍👩‍👧.weight", "café.weight", "cafe\u0301.weight", "ｗｉｄｅ.weight", strings.Repeat("x", 250), "모델.0.가중치", "a\x1b[31mred\nline"}
	for i, name := range names {
		st.Tensors[i].Name = name
	}
	st.Meta.SourcePath, st.Meta.Path = "/data/"+names[0], "/data/"+names[2]+names[6]
	st.Variants[1].Name = names[5] + names[7]
	st.Log = append(st.Log, sessions.Event{Seq: st.LastSeq + 1, Kind: sessions.EventFinding, Variant: 1, Tensor: 6, Message: names[8] + names[6]})
	return st
}

// Names from a file never reach the terminal as control sequences.
func TestNamesAreCleaned(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, wideState(), wideState()), fixed(), 120, 40)
	for _, keys := range []string{"1", "2", "4", "8", "1 enter", "1 v", "1 :"} {
		d.m.scene.SetCursor(8)
		d.Press(strings.Fields(keys)...)
		if strings.Contains(d.m.View(), "\x1b") || strings.Contains(d.m.View(), "\r") {
			t.Errorf("after %s the frame holds an escape sequence of a name", keys)
		}
		d.Press("esc")
	}
}

// A screen that is too small says so and how far the run is; it still quits.
func TestSmallScreens(t *testing.T) {
	run := newFakeRun(demoState())
	d := drive(t, run, fixed(), 20, 6)
	run.measure(148)
	d.WaitIdle()
	fits(t, d.m.View(), 20, 6)
	if got := strings.Join(strings.Fields(d.Screen()), " "); got != "quantscope needs 60×16, this is 20×6: running 148/720" {
		t.Errorf("the screen says %q", got)
	}
	for _, size := range []struct{ w, h int }{{1, 1}, {0, 5}, {5, 0}, {2, 40}, {59, 60}, {300, 15}} {
		d.Resize(size.w, size.h)
		fits(t, d.m.View(), size.w, max(size.h, 1))
	}
	d.Resize(0, 0).Sees("1 Map", "2 Clip") // no size is known: the smallest common one
	d.Resize(20, 6).Press("q")
	fits(t, d.m.View(), 20, 6)
	d.Sees("enter quit").Press("enter")
	if !d.quit {
		t.Error("a small screen does not quit")
	}
}

// Without colours there is no escape sequence at all, and the state of things
// shows by signs.
func TestNoColour(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 80, 24)
	for _, keys := range []string{"1", "2", "4", "8", "enter", "?", "esc", "v", "esc"} {
		d.Press(keys)
		if i := strings.IndexByte(d.m.View(), 0x1b); i >= 0 {
			t.Fatalf("after %s: an escape sequence in %q", keys, d.m.View()[i:min(i+20, len(d.m.View()))])
		}
	}
	d.Press("1", "V").Sees("[1 Map]", "[+mse ▲]")
}

// Terminals with fewer colours get no sequence that they do not know.
func TestProfiles(t *testing.T) {
	for profile, never := range map[termenv.Profile][]string{
		termenv.ANSI:    {"38;2;", "48;2;", "38;5;", "48;5;"},
		termenv.ANSI256: {"38;2;", "48;2;"},
	} {
		o := fixed()
		o.Profile = &profile
		d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 120, 40)
		for _, keys := range []string{"1", "2", "4", "8", "enter", "esc", "?"} {
			d.Press(keys)
			for _, seq := range never {
				if strings.Contains(d.m.View(), seq) {
					t.Errorf("profile %v, after %s: %s in the frame", profile, keys, seq)
				}
			}
		}
	}
}

// A dialog dims the screen and leaves its texts where they were.
func TestDialogDims(t *testing.T) {
	o := fixed()
	profile := termenv.TrueColor
	o.Profile = &profile
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 120, 40)
	before := strings.Split(ansi.Strip(d.m.View()), "\n")
	d.Press("M")
	after := strings.Split(ansi.Strip(d.m.View()), "\n")
	in := d.m.dialogRect()
	changed := 0
	for y := range before {
		if strings.TrimRight(before[y], " ") != strings.TrimRight(after[y], " ") {
			changed++
			if y < in.Y-1 || y > in.Y+in.H {
				t.Errorf("line %d changed under the dialog:\n%s\n%s", y, before[y], after[y])
			}
		}
	}
	if changed == 0 {
		t.Error("no dialog is drawn")
	}
	first := strings.Split(d.m.View(), "\n")[0]
	if want := views.Fit(d.m.scene.Theme.Faint.Render(strings.TrimRight(before[0], " ")), 120); first != want {
		t.Errorf("the header is not dimmed:\n%q\nwant\n%q", first, want)
	}
}
