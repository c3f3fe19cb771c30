package views

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// ellipsis stands for what was cut off; it is one cell wide.
const ellipsis = "…"

// Width is the display width of s in cells. Escape sequences and control
// characters have none; a grapheme cluster counts once.
func Width(s string) int {
	w := 0
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case 0x20 <= c && c < 0x7f:
			// A combining mark after a letter belongs to its cluster; it is found
			// when the loop arrives there, and sends the string to the full scan.
			w++
			i++
		case c == 0x1b:
			n := sgrLen(s[i:])
			if n == 0 {
				return ansi.StringWidth(s)
			}
			i += n
		case c < 0x80:
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			if !isPlainCell(r) {
				return ansi.StringWidth(s)
			}
			w++
			i += n
		}
	}
	return w
}

// isPlainCell says whether r is one cell wide whatever stands beside it: what
// our own drawing is made of.
func isPlainCell(r rune) bool {
	return 0x2500 <= r && r <= 0x259f || // box drawing, blocks
		0x2800 <= r && r <= 0x28ff || // braille
		r == '…' || r == '·' || r == '×' || r == '−' || r == '±' || r == '²'
}

// sgrLen is the length of the colour or style sequence at the start of s, 0
// where there is another kind of sequence.
func sgrLen(s string) int {
	if len(s) < 3 || s[1] != '[' {
		return 0
	}
	for i := 2; i < len(s); i++ {
		switch c := s[i]; {
		case c == 'm':
			return i + 1
		case c != ';' && c != ':' && (c < '0' || '9' < c):
			return 0
		}
	}
	return 0
}

// next is the length in bytes and the width in cells of the first thing in s:
// an escape sequence, a control character or a grapheme cluster.
func next(s string) (size, width int) {
	if s[0] == 0x1b {
		if n := sgrLen(s); n > 0 {
			return n, 0
		}
		return 1, 0
	}
	cluster, w := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
	return len(cluster), w
}

// prefix is the longest start of s, in whole clusters, of at most w cells, and
// its width.
func prefix(s string, w int) (size, width int) {
	for size < len(s) {
		n, cells := next(s[size:])
		if width+cells > w {
			return size, width
		}
		size += n
		width += cells
	}
	return size, width
}

// escapes is all the style sequences in s, so that what is cut off still closes
// what it opened.
func escapes(s string) string {
	if strings.IndexByte(s, 0x1b) < 0 {
		return ""
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == 0x1b {
			if n := sgrLen(s[i:]); n > 0 {
				b.WriteString(s[i : i+n])
				i += n - 1
			}
		}
	}
	return b.String()
}

// Truncate cuts s to at most w cells, between grapheme clusters, and ends what
// was cut with "…".
func Truncate(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if Width(s) <= w {
		return s
	}
	n, _ := prefix(s, w-1)
	return s[:n] + ellipsis + escapes(s[n:])
}

// fitting is the first of several wordings that is at most w cells, the longest
// first; the last one where none is.
func fitting(w int, wordings ...string) string {
	for _, s := range wordings {
		if Width(s) <= w {
			return s
		}
	}
	return wordings[len(wordings)-1]
}

// TruncateMiddle cuts s to at most w cells and keeps both ends: the names of
// tensors differ at their ends. A quarter of the room goes to the start.
// Strings with styles lose them.
func TruncateMiddle(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if Width(s) <= w {
		return s
	}
	s = ansi.Strip(s)
	head, headWidth := prefix(s, (w-1)/4)
	room := w - 1 - headWidth
	// The cluster borders of the rest, so that the longest tail that fits is
	// found from the end.
	var sizes, widths []int
	for i := head; i < len(s); {
		n, cells := next(s[i:])
		sizes, widths = append(sizes, n), append(widths, cells)
		i += n
	}
	tail := len(s)
	for i := len(sizes) - 1; i >= 0 && widths[i] <= room; i-- {
		room -= widths[i]
		tail -= sizes[i]
	}
	return s[:head] + ellipsis + s[tail:]
}

// Fit makes s exactly w cells: cut, or padded on the right.
func Fit(s string, w int) string {
	if w <= 0 {
		return ""
	}
	n := Width(s)
	if n > w {
		s = Truncate(s, w)
		n = Width(s)
	}
	return s + spaces(w-n)
}

// FitRight makes s exactly w cells, set to the right.
func FitRight(s string, w int) string {
	if w <= 0 {
		return ""
	}
	n := Width(s)
	if n > w {
		s = Truncate(s, w)
		n = Width(s)
	}
	return spaces(w-n) + s
}

// blank is as many spaces as most screens are wide.
const blank = "                                                                                                                                                                                                                                                "

func spaces(n int) string {
	if n <= 0 {
		return ""
	}
	if n <= len(blank) {
		return blank[:n]
	}
	return strings.Repeat(" ", n)
}

// Clean makes a text from a file safe to draw: control characters become their
// pictures (␛ for escape), characters that reorder or hide text become their
// number in angle brackets, bytes that are no UTF-8 become U+FFFD.
func Clean(s string) string {
	if !needsCleaning(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x20:
			b.WriteRune(0x2400 + r)
		case r == 0x7f:
			b.WriteRune('␡')
		case isHidden(r):
			fmt.Fprintf(&b, "<%04x>", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func needsCleaning(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
				return r < 0x20 || r == 0x7f || isHidden(r)
			})
		}
		if s[i] < 0x20 || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// isHidden holds for characters that take no cell and change how others are
// read. Joiners and variation selectors are part of ordinary emoji and scripts.
func isHidden(r rune) bool {
	switch {
	case r == 0x200c || r == 0x200d: // joiners
		return false
	case 0x80 <= r && r <= 0x9f, r == 0x2028, r == 0x2029, r == 0xad:
		return true
	}
	return unicode.Is(unicode.Cf, r)
}

// Block makes exactly h lines of exactly w cells from lines, joined by "\n".
func Block(lines []string, w, h int) string {
	if h <= 0 {
		return ""
	}
	var b strings.Builder
	for i := range h {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i < len(lines) {
			b.WriteString(Fit(lines[i], w))
		} else {
			b.WriteString(spaces(w))
		}
	}
	return b.String()
}

// Beside sets blocks side by side, gap cells apart. The lines of each block are
// of equal width; a shorter block is filled up with blanks.
func Beside(gap int, blocks ...string) string {
	lines := make([][]string, len(blocks))
	widths := make([]int, len(blocks))
	h := 0
	for i, block := range blocks {
		lines[i] = strings.Split(block, "\n")
		widths[i] = Width(lines[i][0])
		h = max(h, len(lines[i]))
	}
	var b strings.Builder
	for y := range h {
		if y > 0 {
			b.WriteByte('\n')
		}
		for i := range lines {
			if i > 0 {
				b.WriteString(spaces(gap))
			}
			if y < len(lines[i]) {
				b.WriteString(lines[i][y])
			} else {
				b.WriteString(spaces(widths[i]))
			}
		}
	}
	return b.String()
}
