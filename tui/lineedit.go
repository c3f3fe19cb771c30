package tui

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/rivo/uniseg"

	"quantscope/views"
)

// maxLine is how many characters a line takes: more is a paste that was not
// meant, and would be measured anew for every frame.
const maxLine = 1024

// lineFull says that a line takes no more.
var lineFull = fmt.Sprintf("only %d characters are taken", maxLine)

// lineEdit is one line of text that is being typed. The cursor stands before
// the grapheme cluster at byte pos.
type lineEdit struct {
	text string
	pos  int
	full bool // the last key brought more than there was room for
}

func newLineEdit(text string) lineEdit { return lineEdit{text: text, pos: len(text)} }

// typed gives a key to a line and says so where the line takes no more.
func (m *Model) typed(e *lineEdit, k tea.KeyMsg) (taken, changed bool) {
	before := e.text
	taken = e.key(k)
	changed = taken && e.text != before
	if e.full {
		m.say("%s", lineFull)
		m.ignored = !changed
	}
	return taken, changed
}

// key acts on a key and says whether it belongs to the editing of a line.
func (e *lineEdit) key(k tea.KeyMsg) bool {
	e.full = false
	if k.Paste { // as it is, not by its name
		e.insert(k.Runes)
		return true
	}
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
		e.insert(k.Runes)
	}
	return true
}

// insert puts text at the cursor; control characters are left out, since a
// pasted line break is none that was meant. What is beyond maxLine is not looked
// at.
func (e *lineEdit) insert(runes []rune) {
	room := maxLine - utf8.RuneCountInString(e.text)
	var s strings.Builder
	for _, r := range runes {
		if unicode.IsControl(r) {
			continue
		}
		if room <= 0 {
			e.full = true
			break
		}
		s.WriteRune(r)
		room--
	}
	e.text = e.text[:e.pos] + s.String() + e.text[e.pos:]
	e.pos += s.Len()
}

func (e *lineEdit) after() int {
	if e.pos == len(e.text) {
		return e.pos
	}
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(e.text[e.pos:], -1)
	return e.pos + len(cluster)
}

// before is where the cluster in front of the cursor begins. It is looked for
// from the nearest place that surely is between two clusters: one between two
// ASCII characters.
func (e *lineEdit) before() int {
	at := max(e.pos-1, 0)
	for at > 0 && (e.text[at] >= utf8.RuneSelf || e.text[at-1] >= utf8.RuneSelf) {
		at--
	}
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
	var ends, widths []int // of the clusters before the cursor
	for at := 0; at < e.pos; {
		cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(e.text[at:e.pos], -1)
		at += len(cluster)
		ends, widths = append(ends, at), append(widths, views.Width(cluster))
	}
	start := 0
	for i, room := len(ends)-1, w; i >= 0; i-- {
		if room -= widths[i]; room <= 0 {
			start = ends[i]
			break
		}
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
