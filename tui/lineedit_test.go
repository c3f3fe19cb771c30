package tui

import (
	"strings"
	"testing"
	"unicode/utf8"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"quantscope/views"
)

func TestLineEdit(t *testing.T) {
	for _, c := range []struct {
		start string
		keys  string // separated by blanks
		want  string
		pos   int
	}{
		{"", "a b c", "abc", 3},
		{"abc", "left left x", "axbc", 2},
		{"abc", "home delete", "bc", 0},
		{"abc", "backspace", "ab", 2},
		{"", "backspace delete left right", "", 0},
		{"one two three", "ctrl+w", "one two ", 8},
		{"one two ", "ctrl+w", "one ", 4},
		{"abc", "left ctrl+k", "ab", 2},
		{"abc", "left ctrl+u", "c", 0},
		{"abc", "ctrl+a x ctrl+e y", "xabcy", 5},
		{"x👨‍👩‍👧y", "left backspace", "xy", 1}, // a cluster goes as one
		{"cafe\u0301", "backspace", "caf", 3},
	} {
		e := newLineEdit(c.start)
		for _, k := range strings.Fields(c.keys) {
			if !e.key(keyOf(k)) {
				t.Errorf("%q: key %s is not taken", c.start, k)
			}
		}
		if e.text != c.want || e.pos != c.pos {
			t.Errorf("%q after %s: %q at %d, want %q at %d", c.start, c.keys, e.text, e.pos, c.want, c.pos)
		}
	}
	e := newLineEdit("")
	e.key(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("a\r\n\x1b[31mb"), Paste: true})
	if e.text != "a[31mb" {
		t.Errorf("pasted control characters stay: %q", e.text)
	}
	if e.key(keyOf("pgup")) || e.text != "a[31mb" {
		t.Errorf("a key that is none of the line's was taken: %q", e.text)
	}
}

// The view is exactly as wide as asked for, shows the cursor, and the position
// stays between clusters.
func TestLineEditView(t *testing.T) {
	theme, err := views.NewTheme("", termenv.Ascii, true)
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"a", "模", "é", "🚀", "left", "right", "home", "end", "backspace", "delete", "ctrl+w", "ctrl+k"}
	rapid.Check(t, func(t *rapid.T) {
		e := newLineEdit("")
		for _, k := range rapid.SliceOf(rapid.SampledFrom(keys)).Draw(t, "keys") {
			e.key(keyOf(k))
			if !utf8.ValidString(e.text) || e.pos < 0 || e.pos > len(e.text) || !utf8.ValidString(e.text[:e.pos]) {
				t.Fatalf("%q at %d", e.text, e.pos)
			}
		}
		w := rapid.IntRange(0, 40).Draw(t, "w")
		if got := views.Width(e.view(theme, w)); got != w {
			t.Fatalf("%d cells, want %d: %q", got, w, e.view(theme, w))
		}
	})
}

// Where a cluster before the cursor begins does not depend on where the search
// for it does.
func TestLineEditBefore(t *testing.T) {
	parts := []string{"a", "b ", "模", "e\u0301", "👨‍👩‍👧", "🇩🇪", "🇩", "\u0600", "\u200d"}
	rapid.Check(t, func(t *rapid.T) {
		e := newLineEdit(strings.Join(rapid.SliceOf(rapid.SampledFrom(parts)).Draw(t, "parts"), ""))
		var starts []int
		for g := uniseg.NewGraphemes(e.text); g.Next(); {
			from, _ := g.Positions()
			starts = append(starts, from)
		}
		for i := len(starts) - 1; i >= 0; i-- {
			if e.pos = e.before(); e.pos != starts[i] {
				t.Fatalf("%q: cluster %d begins at %d, found %d", e.text, i, starts[i], e.pos)
			}
		}
	})
}
