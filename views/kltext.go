package views

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Texts of corpora are in any script. Terminals do not agree on how wide some of
// them are: some add up the widths of characters, others set clusters of them, and
// vowel signs of Indic scripts, conjuncts and emoji that are joined come out
// differently. What follows such a text in its line would stand elsewhere on each
// of them, so texts are shown in characters on whose width all agree.

// markStand stands for a mark that terminals set in different widths.
const markStand = '◌'

// steady is a text that is equally wide in every terminal, control characters and
// bytes that are no UTF-8 made visible.
func steady(s string) string {
	s = Clean(s)
	if Width(s) == len(s) { // ASCII
		return s
	}
	for range 3 { // letters that were set apart may join what is behind them
		if s = loosened(s); Width(s) == ansi.StringWidthWc(s) {
			return s
		}
	}
	return strings.Map(func(r rune) rune {
		if r < 0x80 {
			return r
		}
		return markStand
	}, s)
}

// loosened takes apart the clusters on whose width terminals differ.
func loosened(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		n, w := next(s[i:])
		cluster := s[i : i+n]
		if w != ansi.StringWidthWc(cluster) || i == 0 && startsWithMark(cluster) {
			cluster = apart(cluster)
		}
		b.WriteString(cluster)
		i += n
	}
	return b.String()
}

// startsWithMark says that a text begins with a mark that belongs to what is
// before it.
func startsWithMark(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.Is(unicode.M, r)
}

// apart is a cluster as characters that stand for themselves: its letters, and
// a sign for each mark that takes room.
func apart(cluster string) string {
	var b strings.Builder
	for _, r := range cluster {
		switch {
		case 0x1f3fb <= r && r <= 0x1f3ff: // tones of skin
		case unicode.IsLetter(r), unicode.IsSymbol(r):
			b.WriteRune(r)
		case ansi.StringWidthWc(string(r)) > 0:
			b.WriteRune(markStand)
		}
	}
	if t := b.String(); t != "" && ansi.StringWidth(t) == ansi.StringWidthWc(t) {
		return t
	}
	return strings.Repeat(string(markStand), utf8.RuneCountInString(cluster))
}

// klToken is the text of a token on its own: blanks at its ends are shown, and
// bytes that are a part of a character only by their numbers.
func klToken(s string) string {
	text := klBytes(s)
	if strings.TrimSpace(s) == s && s != "" {
		return text
	}
	return strings.ReplaceAll(text, " ", "␣")
}

// klBytes is a token in which bytes that are no character stand as <e5>, and a
// mark that has no letter before it as <0bc8>.
func klBytes(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "<%02x>", s[i])
		case i == 0 && unicode.Is(unicode.M, r):
			fmt.Fprintf(&b, "<%04x>", r)
		case b.Len() == 0 && utf8.ValidString(s):
			return steady(s)
		default:
			b.WriteString(steady(s[i : i+n]))
		}
		i += n
	}
	return b.String()
}
