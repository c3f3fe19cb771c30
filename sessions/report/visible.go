package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a part of a text: as it is, or something in it that would not be seen.
type piece struct {
	Text string
	Odd  string // what it is, for whoever does not see the mark; "" for plain text
}

// visible is a text in pieces, with what cannot be seen made visible: bytes that are
// no UTF-8, U+FFFD, control characters, and characters that turn the direction of
// writing. Of a long one the beginning and the end are shown.
func visible(s string) []piece {
	var out []piece
	var plain strings.Builder
	odd := func(text, what string) {
		if plain.Len() > 0 {
			out = append(out, piece{Text: plain.String()})
			plain.Reset()
		}
		if n := len(out); n > 0 && out[n-1].Odd == what { // a run of them is one
			out[n-1].Text += text
			return
		}
		out = append(out, piece{text, what})
	}
	runes := utf8.RuneCountInString(s)
	left := 0
	if runes > mostShown {
		left = runes - mostShown
	}
	for i := 0; len(s) > 0; i++ {
		r, size := utf8.DecodeRuneInString(s)
		b := s[0]
		s = s[size:]
		if left > 0 && i >= mostShown*2/3 && i < mostShown*2/3+left {
			if i == mostShown*2/3 {
				odd(fmt.Sprintf("⟨%s left out⟩", counted(left, "character", "characters")), "left out")
			}
			continue
		}
		switch {
		case r == utf8.RuneError && size == 1:
			odd(fmt.Sprintf("⟨%02X⟩", b), "not UTF-8")
		case r == utf8.RuneError:
			odd("\uFFFD", "U+FFFD")
		case r == '\n' || r == '\t':
			plain.WriteRune(r)
		case r < 0x20:
			odd(string(rune(0x2400)+r), "control")
		case r == 0x7f:
			odd("\u2421", "control")
		case unicode.IsControl(r), hidden(r):
			odd(fmt.Sprintf("⟨U+%04X⟩", r), "control")
		default:
			plain.WriteRune(r)
		}
	}
	if plain.Len() > 0 {
		out = append(out, piece{Text: plain.String()})
	}
	return out
}

// hidden says whether a character is one that turns the direction of writing, or
// takes no room. Joiners stay: scripts and emoji are written with them.
func hidden(r rune) bool {
	switch {
	case r == 0x200C || r == 0x200D:
		return false
	case unicode.Is(unicode.Bidi_Control, r), unicode.Is(unicode.Noncharacter_Code_Point, r):
		return true
	}
	return r == 0x200B || r == 0x2060 || r == 0xFEFF || r == 0x00AD || r == 0x2028 || r == 0x2029 || r >= 0xE0000 && r < 0xE0080
}

// oneLine folds what others wrote into one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
