package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Cases are those of the whole of Unicode, as in Python: ß becomes SS, a sigma at the
// end of a word ς. Bytes that are no UTF-8 stay.

func upper(s string) string { return cased(s, cases.Upper(language.Und)) }
func lower(s string) string { return cased(s, cases.Lower(language.Und)) }

// title is the titlecase of one character.
func title(c rune) string {
	return cased(string(c), cases.Title(language.Und, cases.NoLower))
}

func cased(s string, c cases.Caser) string {
	if utf8.ValidString(s) {
		return c.String(s)
	}
	var b strings.Builder
	for s != "" {
		n := 0
		for n < len(s) {
			r, k := utf8.DecodeRuneInString(s[n:])
			if r == utf8.RuneError && k == 1 {
				break
			}
			n += k
		}
		b.WriteString(c.String(s[:n]))
		for s = s[n:]; invalidFirst(s); s = s[1:] {
			b.WriteByte(s[0])
		}
	}
	return b.String()
}

func invalidFirst(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return r == utf8.RuneError && n == 1
}

func capitalize(s string) string {
	if s == "" || invalidFirst(s) {
		return s[:min(1, len(s))] + lower(s[min(1, len(s)):])
	}
	c, n := utf8.DecodeRuneInString(s)
	return title(c) + lower(s[n:])
}

// titled is Python's str.title: a letter after a letter is small, others are titles.
func titled(s string) string {
	return words(s, func(before rune) bool { return !unicode.IsLetter(before) }, title)
}

// titleWords is Jinja's title: after white space, dashes and brackets a word begins.
func titleWords(s string) string {
	begins := func(before rune) bool { return space(before) || strings.ContainsRune("-({[<", before) }
	return words(s, begins, func(c rune) string { return upper(string(c)) })
}

// words puts the first letter of each word into one case and the others into small
// letters.
func words(s string, begins func(before rune) bool, first func(rune) string) string {
	var b strings.Builder
	before := ' '
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == utf8.RuneError && n <= 1:
			b.WriteByte(s[i])
		case begins(before):
			b.WriteString(first(c))
		default:
			b.WriteString(lower(string(c)))
		}
		before = c
		i += n
	}
	return b.String()
}
