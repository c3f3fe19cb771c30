package grade

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// measure is what a text is, whatever it says.
type measure struct {
	runes   int
	broken  int // U+FFFD and invalid sequences
	control int
	cut     bool     // the budget cut the last character
	places  [][2]int // of broken and control characters
}

// measured measures a text. Of one that was cut at its budget, a broken character at
// the very end is the cut's.
func measured(text string, cut bool) (m measure) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		m.runes++
		switch {
		case r == utf8.RuneError:
			if n == 1 {
				n = brokenLen(text[i:])
			}
			if cut && i+n == len(text) {
				m.cut = true
				break
			}
			m.broken++
			m.places = append(m.places, [2]int{i, i + n})
		case unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r':
			m.control++
			m.places = append(m.places, [2]int{i, i + n})
		}
		i += n
	}
	return m
}

// brokenLen is how many bytes of an invalid sequence are one replacement character:
// the longest prefix of a valid sequence, else one byte (Unicode 16, section 3.9,
// U+FFFD substitution of maximal subparts).
func brokenLen(s string) int {
	for n := min(len(s), 3); n > 1; n-- {
		for _, rest := range []string{"\x80", "\x80\x80", "\x90\x80", "\xa0\x80", "\x90", "\xa0", "\xbf", "\xbf\xbf", "\x8f\x80\x80"} {
			if r, w := utf8.DecodeRuneInString(s[:n] + rest); r != utf8.RuneError && w == n+len(rest) {
				return n
			}
		}
	}
	return 1
}

// visible is a text without the reasoning that it begins with, and where that is.
// Reasoning that does not end leaves nothing.
func visible(text string) (string, int) {
	if i := strings.LastIndex(text, "</think>"); i >= 0 {
		i += len("</think>")
		return text[i:], i
	}
	if strings.HasPrefix(strings.TrimSpace(text), "<think>") {
		return "", len(text)
	}
	return text, 0
}

// Blank says that a text has nothing in it that can be seen, or reasoning alone.
func Blank(text string) bool {
	seen, _ := visible(text)
	return blank(seen)
}

// blank says that nothing can be seen of a text.
func blank(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Zs, r) && r != '\u2800' && r != '\u3164'
	})
}

// squeezed is a text with one space between words.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

const quoted = 60 // runes of a text that a reason quotes

func quote(s string) string {
	r := []rune(s)
	if len(r) <= quoted {
		return strconv.Quote(s)
	}
	return strconv.Quote(string(r[:quoted])) + "…"
}

func tail(s string) string {
	r := []rune(strings.TrimSpace(s))
	if len(r) <= quoted {
		return quote(string(r))
	}
	return "…" + quote(string(r[len(r)-quoted:]))
}

// around quotes what stands about a byte.
func around(s string, at int) string {
	from, to := max(at-24, 0), min(at+24, len(s))
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	return strconv.Quote(s[from:to])
}

func oneLine(s string) string { return squeezed(strings.ToValidUTF8(s, "\ufffd")) }

// counted is a number with its noun.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
