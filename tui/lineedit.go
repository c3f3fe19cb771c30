package tui

import (
	"strings"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/rivo/uniseg"

	"quantscope/views"
)

// lineEdit is one line of text that is being typed. The cursor stands before
// the grapheme cluster at byte pos.
type lineEdit struct {
	text string
	pos  int
}

func newLineEdit(text string) lineEdit { return lineEdit{text, len(text)} }

// key acts on a key and says whether it belongs to the editing of a line.
func (e *lineEdit) key(k tea.KeyMsg) bool {
	switch k.String() {
	case "left", "ctrl+b":
		e.pos = e.before()
	case "right", "ctrl+f":
		e.pos = e.after()
	case "home", "ctrl+a":
		e.pos = 0
	case "end", "ctrl+e":
		e.pos = len(e.text)
	case "backspace":
		b := e.before()
		e.text, e.pos = e.text[:b]+e.text[e.pos:], b
	case "delete", "ctrl+d":
		e.text = e.text[:e.pos] + e.text[e.after():]
	case "ctrl+u":
		e.text, e.pos = e.text[e.pos:], 0
	case "ctrl+k":
		e.text = e.text[:e.pos]
	case "ctrl+w", "alt+backspace":
		head := strings.TrimRightFunc(e.text[:e.pos], unicode.IsSpace)
		cut := strings.LastIndexFunc(head, unicode.IsSpace) + 1
		e.text, e.pos = e.text[:cut]+e.text[e.pos:], cut
	default:
		if (k.Type != tea.KeyRunes && k.Type != tea.KeySpace) || k.Alt {
			return false
		}
		e.insert(string(k.Runes))
	}
	return true
}

// insert puts text at the cursor; control characters are left out, since a
// pasted line break is none that was meant.
func (e *lineEdit) insert(s string) {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
	e.text = e.text[:e.pos] + s + e.text[e.pos:]
	e.pos += len(s)
}

func (e *lineEdit) after() int {
	if e.pos == len(e.text) {
		return e.pos
	}
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(e.text[e.pos:], -1)
	return e.pos + len(cluster)
}

func (e *lineEdit) before() int {
	at := 0
	for at < e.pos {
		cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(e.text[at:], -1)
		if at+len(cluster) >= e.pos {
			break
		}
		at += len(cluster)
	}
	return at
}

// view is the text with its cursor in exactly w cells; of a long text the part
// around the cursor is shown.
func (e *lineEdit) view(t *views.Theme, w int) string {
	if w <= 0 {
		return ""
	}
	start := 0
	for start < e.pos && views.Width(e.text[start:e.pos]) >= w {
		cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(e.text[start:], -1)
		start += len(cluster)
	}
	under, rest := " ", ""
	if end := e.after(); end > e.pos {
		under, rest = e.text[e.pos:end], e.text[end:]
	}
	cursor := t.Cursor.Render(views.Clean(under))
	if cursor == under { // no styles: a mark of its own
		cursor = "▏" + strings.TrimSuffix(under, " ")
	}
	line := t.Text.Render(views.Clean(e.text[start:e.pos])) + cursor
	if rest != "" {
		line += t.Text.Render(views.Clean(rest))
	}
	return views.Fit(line, w)
}
