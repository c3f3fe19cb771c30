package tui

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"

	"quantscope/sessions"
	"quantscope/views"
)

// docs/keys.md is made of the tables that dispatch the keys.
func TestKeyDoc(t *testing.T) {
	const path = "../docs/keys.md"
	want := KeyDoc()
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the key tables say: go test ./tui -run KeyDoc -update", path)
	}
}

// A key has one meaning: within the root's table, within a pane's, and between
// the two, except where the root lets the pane go first or the key works in
// replays only.
func TestKeysHaveOneMeaning(t *testing.T) {
	seen := map[string]string{}
	replay := []string{"home", "end"}
	for _, a := range rootActions {
		for _, k := range a.keys {
			if seen[k] != "" {
				t.Errorf("root: %q means %q and %q", k, seen[k], a.name)
			}
			seen[k] = a.name
		}
	}
	m := New(sessions.NewStatic(demoState()), fixed())
	defer m.end()
	for id, p := range m.panes {
		own := map[string]string{}
		for _, row := range p.Keys() {
			for _, k := range row.Keys {
				if own[k] != "" {
					t.Errorf("%s: %q means %q and %q", paneNames[id], k, own[k], row.Help)
				}
				own[k] = row.Help
				if a := actionFor(k); a != nil && !a.after && !slices.Contains(replay, k) {
					t.Errorf("%q means %q in %s and %q in the root", k, row.Help, paneNames[id], a.name)
				}
			}
			if row.Label == "" || row.Help == "" {
				t.Errorf("%s: key %q has no label or no help", paneNames[id], row.Keys)
			}
		}
	}
}

// Every key that a table lists reaches its owner by the name that the table
// gives it.
func TestKeysHaveMessages(t *testing.T) {
	for _, s := range KeyTable() {
		for _, row := range s.Keys {
			for _, name := range row.Keys {
				if got := keyOf(name).String(); got != name {
					t.Errorf("%s: key %q becomes %q", s.Title, name, got)
				}
			}
		}
	}
}

// All keys of the design are there.
func TestKeysOfTheDesign(t *testing.T) {
	var all []string
	for _, s := range KeyTable() {
		for _, row := range s.Keys {
			all = append(all, row.Keys...)
		}
	}
	for _, k := range []string{"1", "8", "tab", "shift+tab", "up", "down", "left", "right", "h", "j", "k", "l", "enter", "esc", "/", ":", "?", "v", "b", "m", "M", "p", " ", "[", "]", ",", ".", "home", "end", "g", "L", "t", "T", "D", "e", "r", "X", "q", "ctrl+c"} {
		if !slices.Contains(all, k) {
			t.Errorf("key %q is in no table", k)
		}
	}
}

// A key that can do nothing now says why, whatever it is.
func TestDisabledKeysSayWhy(t *testing.T) {
	d := drive(t, sessions.NewStatic(&sessions.State{}), fixed(), 120, 40)
	for _, a := range rootActions {
		if a.why(d.m) == "" || a.after || a.keys[0] == "home" || a.keys[0] == "end" {
			continue
		}
		d.Press(a.keys[0])
		if got := d.Message(); got != a.why(d.m) {
			t.Errorf("%q says %q, want %q", a.keys[0], got, a.why(d.m))
		}
	}
	d.m.panes[PaneMap] = lockedPane{d.m.panes[PaneMap]}
	d.Press("z").Says("the box is locked")
}

// lockedPane has one key, which is disabled.
type lockedPane struct{ views.Pane }

func (lockedPane) Keys() []views.Key {
	return []views.Key{{Keys: []string{"z"}, Label: "z", Help: "open the box", Disabled: "the box is locked"}}
}

// Keys that arrive in one message are keys all the same.
func TestKeysInOneMessage(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 120, 40)
	d.Send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("8m2")}).WaitIdle().On(ScreenClipping)
	if d.m.scene.Metric.Name != "rel2" {
		t.Errorf("metric %s", d.m.scene.Metric.Name)
	}
	d.Press(":").Send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("quit")}).WaitIdle()
	if d.quit || !strings.Contains(d.Screen(), "› quit") {
		t.Errorf("typed text is not taken as text:\n%s", d.Screen())
	}
}

// The palette finds commands by what they do and runs them; what cannot be done
// says why.
func TestPalette(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 120, 40)
	d.Press(":").Type("metric sqnr").Press("enter").Says("sqnr: ")
	d.Press(":").Type("themecivi").Press("enter")
	if d.m.scene.Theme.Name != "cividis" {
		t.Errorf("theme %s", d.m.scene.Theme.Name)
	}
	d.Press(":").Type("show nvfp4+mse_ge1").Press("enter")
	if d.m.scene.Variant != 2 {
		t.Errorf("variant %d", d.m.scene.Variant)
	}
	d.Press(":").Type("cancel").Press("enter").Says("only a live run can be cancelled").Press("esc")
	d.Press(":").Type("zzzz").Sees("nothing is called that").Press("enter", "esc")
	d.Press(":").Type("gates screen").Press("enter").On(ScreenGates).Press("1")
	d.Press(":").Type("kl screen").Press("enter").On(ScreenKL)
	if d.m.dialog != nil {
		t.Error("the palette is still open")
	}
}

func TestFuzzy(t *testing.T) {
	for _, c := range []struct {
		text, s string
		ok      bool
	}{
		{"", "anything", true}, {"abc", "a b c", true}, {"abc", "acb", false}, {"ÄB", "äb", true}, {"mse", "nvfp4+mse", true},
	} {
		if _, ok := fuzzy(c.text, c.s); ok != c.ok {
			t.Errorf("%q in %q: %v, want %v", c.text, c.s, ok, c.ok)
		}
	}
	better := func(text, a, b string) {
		sa, _ := fuzzy(text, a)
		sb, _ := fuzzy(text, b)
		if sa <= sb {
			t.Errorf("%q: %q has %d, %q has %d", text, a, sa, b, sb)
		}
	}
	better("log", "log screen", "lock the colour scale over all variants")
	better("mse", "show nvfp4+mse", "next metric screen elsewhere")
	better("nsc", "next screen", "pins of colour")
}

// Help lists each key that docs/keys.md lists, at every width whole, and none
// of them twice with different words in one pane.
func TestHelpListsEveryKey(t *testing.T) {
	for _, screen := range []string{"1", "2", "4", "8", "1 enter"} {
		d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 80, 24)
		d.Press(strings.Fields(screen)...)
		d.Press("?")
		h := d.m.dialog.(*helpText)
		in := d.m.dialogRect()
		all := strings.Join(h.text(d.m, in.W), "\n")
		if strings.Contains(all, "…") {
			t.Errorf("screen %s: help is cut:\n%s", screen, all)
		}
		listed := map[string]bool{}
		for _, s := range h.sections {
			for _, row := range s.Keys {
				if !strings.Contains(all, "  "+keyLabel(row.Keys)+" ") {
					t.Errorf("screen %s: help does not list %q of %s", screen, keyLabel(row.Keys), s.Title)
				}
				for _, key := range row.Keys {
					listed[key] = true
				}
			}
		}
		for _, s := range KeyTable() {
			for _, row := range s.Keys {
				for _, key := range row.Keys {
					if !listed[key] {
						t.Errorf("screen %s: help does not list %q of %s", screen, key, s.Title)
					}
				}
			}
		}
		for _, key := range []string{"g", "G"} {
			n := 0
			for _, s := range h.sections {
				if s.Title == groupMove || s.Title == paneNames[d.m.focus]+" pane" {
					for _, row := range s.Keys {
						if slices.Contains(row.Keys, key) {
							n++
						}
					}
				}
			}
			if n != 1 && !(screen == "8" && key == "G") { // the log's own end
				t.Errorf("screen %s: %q is listed %d times", screen, key, n)
			}
		}
	}
}

// The table of keys says the same whatever the panes show.
func TestKeyTableIsSteady(t *testing.T) {
	want := KeyTable()
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 80, 24)
	for id := range paneCount {
		for _, s := range []Screen{ScreenMap, ScreenClipping, ScreenLandscape, ScreenCompare, ScreenLog, ScreenTensor} {
			if slices.Contains(s.Panes(), id) {
				d.m.screen, d.m.focus = s, id
			}
		}
		d.m.arrange()
		for _, row := range d.m.panes[id].Keys() {
			for _, key := range row.Keys {
				d.m.panes[id].HandleKey(keyOf(key))
				if diff := cmp.Diff(want, d.m.keyTable()); diff != "" {
					t.Fatalf("%s pane, after %s: %s", paneNames[id], key, diff)
				}
			}
		}
	}
}

// A dialog that holds more than it shows says how much, before and behind.
func TestDialogsSayWhatFollows(t *testing.T) {
	for _, keys := range []string{":", "?", "M", "v"} {
		o := fixed()
		for i := range 30 {
			o.Known = append(o.Known, Known{Name: fmt.Sprint("method", i)})
		}
		d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 80, 16)
		d.Press(keys).Sees("↓ ", " more ─").Misses("↑ 1 more")
		before, behind := d.m.dialog.(scrolled).hidden()
		d.Sees(fmt.Sprintf("↓ %d more", behind))
		if before != 0 {
			t.Errorf("%s: %d lines before the first", keys, before)
		}
		d.Press(slices.Repeat([]string{"pgdown"}, 40)...).Sees("↑ ").Misses(" more ─╯")
		d.Resize(80, 24)
		fits(t, d.m.View(), 80, 24)
	}
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 80, 24)
	d.Press("B").Misses(" more ")
}
