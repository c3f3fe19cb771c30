package views

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// Outputs are shown as they came: every byte of them can be told. Line ends, tabs and
// other control characters stand as their pictures, characters that hide or reorder
// text and bytes that are no UTF-8 by their numbers in ⟨⟩, and U+FFFD, which is what
// a server puts where a character was broken, is set in reverse. What is left is in
// characters on whose width all terminals agree (steady).

// gatesLook is how a piece of text is shown.
type gatesLook uint8

const (
	lookText gatesLook = iota
	lookSign           // stands for what cannot be seen
	lookBad            // is none: U+FFFD, a byte that is no UTF-8
	lookMark           // a verdict speaks of it
)

// gatesPiece is a piece of text that is not broken over lines.
type gatesPiece struct {
	text  string
	w     int
	look  gatesLook
	blank bool // a line may be broken behind it
	brk   bool // the line ends behind it
}

// gatesMostBytes bounds what is laid out of one text: a longer one is shown from its
// beginning, or around the first place that a verdict speaks of.
const gatesMostBytes = 32 << 10

// gatesWindow is the part of a text that is laid out.
func gatesWindow(text string, marks [][2]int) (from, to int) {
	if len(text) <= gatesMostBytes {
		return 0, len(text)
	}
	if len(marks) > 0 && marks[0][0] > gatesMostBytes/2 && marks[0][0] < len(text) {
		from = marks[0][0] - gatesMostBytes/4
	}
	to = min(from+gatesMostBytes, len(text))
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to--
	}
	return from, max(to, from)
}

// gatesPieces takes a text apart. Marks are ranges of bytes.
func gatesPieces(text string, marks [][2]int, ascii bool) []gatesPiece {
	marks = slices.Clone(marks)
	slices.SortFunc(marks, func(a, b [2]int) int { return a[0] - b[0] })
	var out []gatesPiece
	add := func(s string, look gatesLook) {
		out = append(out, gatesPiece{text: s, w: Width(s), look: look})
	}
	next1 := 0
	marked := func(at int) bool {
		for next1 < len(marks) && marks[next1][1] <= at {
			next1++
		}
		return next1 < len(marks) && marks[next1][0] <= at && at < marks[next1][1]
	}
	in := false
	flush := func(from, to int) {
		if from >= to {
			return
		}
		s := steady(text[from:to])
		for i := 0; i < len(s); {
			n, w := next(s[i:])
			look := lookText
			if in {
				look = lookMark
			}
			out = append(out, gatesPiece{text: s[i : i+n], w: w, look: look, blank: s[i] == ' '})
			i += n
		}
	}
	start := 0
	for i := 0; i < len(text); {
		if m := marked(i); m != in {
			flush(start, i)
			start = i
			if ascii {
				sign := "«"
				if !m {
					sign = "»"
				}
				add(sign, lookMark)
			}
			in = m
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		sign, look := gatesSign(r, n, text[i], ascii)
		if sign == "" {
			i += n
			continue
		}
		flush(start, i)
		add(sign, look)
		out[len(out)-1].brk = r == '\n'
		out[len(out)-1].blank = r == '\t'
		i += n
		start = i
	}
	flush(start, len(text))
	if in && ascii {
		add("»", lookMark)
	}
	return out
}

// gatesSign is what stands for a character that cannot be seen or is none; "" for any
// other.
func gatesSign(r rune, n int, b byte, ascii bool) (string, gatesLook) {
	switch {
	case r == utf8.RuneError && n == 1:
		return fmt.Sprintf("⟨%02X⟩", b), lookBad
	case r == utf8.RuneError:
		if ascii {
			return "!\ufffd", lookBad
		}
		return "\ufffd", lookBad
	case r == '\n':
		return "↵", lookSign
	case r == '\t':
		return "␉ ", lookSign
	case r < 0x20:
		return string(0x2400 + r), lookSign
	case r == 0x7f:
		return "␡", lookSign
	case isHidden(r):
		return fmt.Sprintf("⟨%04X⟩", r), lookSign
	}
	return "", lookText
}

// gatesText is a text in lines of at most w cells, in a style of its own where it is
// nothing special.
func gatesText(th *Theme, style lipgloss.Style, text string, marks [][2]int, w int) []string {
	if w < 2 {
		return nil
	}
	from, to := gatesWindow(text, marks)
	shifted := make([][2]int, len(marks))
	for i, m := range marks {
		shifted[i] = [2]int{m[0] - from, m[1] - from}
	}
	ascii := th.Profile == termenv.Ascii
	var lines []string
	if from > 0 {
		lines = append(lines, th.Dim.Render(Truncate(ellipsis+" "+thousands(from)+" bytes before", w)))
	}
	lines = append(lines, gatesWrap(th, style, gatesPieces(text[from:to], shifted, ascii), w)...)
	if to < len(text) {
		lines = append(lines, th.Dim.Render(Truncate(ellipsis+" "+thousands(len(text)-to)+" more bytes", w)))
	}
	return lines
}

// gatesWrap sets pieces in lines of w cells, broken behind a blank where one is in the
// last third of the line.
func gatesWrap(th *Theme, style lipgloss.Style, pieces []gatesPiece, w int) []string {
	var lines []string
	for len(pieces) > 0 {
		n, used, blank, fresh := 0, 0, 0, false
		for n < len(pieces) && !fresh {
			q := &pieces[n]
			if used+q.w > w && !(q.brk && used <= w) {
				break
			}
			used += q.w
			n++
			if q.blank && 3*used >= 2*w {
				blank = n
			}
			fresh = q.brk
		}
		switch {
		case n == 0:
			n = 1 // wider than the line: cut below
		case n < len(pieces) && !fresh && blank > 0 && !pieces[n-1].blank:
			n = blank
		}
		line := gatesLine(th, style, pieces[:n])
		if Width(line) > w {
			line = Truncate(line, w)
		}
		lines = append(lines, line)
		pieces = pieces[n:]
	}
	return lines
}

// gatesLine is one line with each piece in its look.
func gatesLine(th *Theme, style lipgloss.Style, pieces []gatesPiece) string {
	var b strings.Builder
	for i := 0; i < len(pieces); {
		j := i
		var part strings.Builder
		for j < len(pieces) && pieces[j].look == pieces[i].look {
			part.WriteString(pieces[j].text)
			j++
		}
		switch pieces[i].look {
		case lookSign:
			b.WriteString(th.Dim.Render(part.String()))
		case lookBad:
			b.WriteString(th.paint(part.String(), "7", th.ink.bad))
		case lookMark:
			b.WriteString(th.paint(part.String(), "4", th.ink.warn))
		default:
			b.WriteString(style.Render(part.String()))
		}
		i = j
	}
	return b.String()
}
