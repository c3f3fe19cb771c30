package jinja

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

func nameStart(c rune) bool { return c == '_' || c != utf8.RuneError && unicode.IsLetter(c) }

func nameMore(c rune) bool {
	return nameStart(c) || unicode.IsDigit(c) || unicode.Is(unicode.Mn, c) || unicode.Is(unicode.Mc, c)
}

// str takes a string and resolves its escapes as Python does: those that it does not
// know stay as they are.
func (l *lexer) str(rest string) error {
	q := rest[0]
	end := 1
	for end < len(rest) && rest[end] != q {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) {
		return l.errf("a string has no end")
	}
	text, err := l.unescape(rest[1:end])
	if err != nil {
		return err
	}
	l.add(tokString, text, nil)
	l.skip(end + 1)
	return nil
}

var escapes = map[byte]string{'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v"}

func (l *lexer) unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if e, ok := escapes[c]; ok {
			b.WriteString(e)
			continue
		}
		width, base := 0, 16
		switch {
		case c == 'x':
			width = 2
		case c == 'u':
			width = 4
		case c == 'U':
			width = 8
		case c >= '0' && c <= '7':
			for base = 8; width < 3 && i+width < len(s) && s[i+width] >= '0' && s[i+width] <= '7'; {
				width++
			}
			i--
		case c == 'N':
			return "", l.errf("characters by name (\\N) are not supported")
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		if i+width >= len(s) {
			return "", l.errf("an escape of a string is cut off")
		}
		v, err := strconv.ParseUint(s[i+1:i+1+width], base, 32)
		if err != nil || v > unicode.MaxRune || v >= 0xd800 && v < 0xe000 {
			return "", l.errf("%q is no character", s[i-1:i+1+width])
		}
		b.WriteRune(rune(v))
		i += width
	}
	return b.String(), nil
}

func (l *lexer) number(rest string) error {
	digits := func(i int, of string) int {
		for i < len(rest) && (strings.IndexByte(of, rest[i]) >= 0 || rest[i] == '_' && i+1 < len(rest) && strings.IndexByte(of, rest[i+1]) >= 0) {
			i++
		}
		return i
	}
	const decimal = "0123456789"
	if len(rest) > 2 && rest[0] == '0' {
		base, of := 0, ""
		switch rest[1] | 0x20 {
		case 'x':
			base, of = 16, "0123456789abcdefABCDEF"
		case 'o':
			base, of = 8, "01234567"
		case 'b':
			base, of = 2, "01"
		}
		if n := digits(2, of); base > 0 && n > 2 {
			return l.integer(rest, n, 2, base)
		}
	}
	n := digits(0, decimal)
	whole := n
	if n+1 < len(rest) && rest[n] == '.' && strings.IndexByte(decimal, rest[n+1]) >= 0 {
		n = digits(n+1, decimal)
	}
	if n < len(rest) && rest[n]|0x20 == 'e' {
		e := n + 1
		if e < len(rest) && (rest[e] == '+' || rest[e] == '-') {
			e++
		}
		if end := digits(e, decimal); end > e {
			n = end
		}
	}
	if n == whole {
		return l.integer(rest, n, 0, 10)
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(rest[:n], "_", ""), 64)
	if err != nil {
		return l.errf("number %s is out of range", rest[:n])
	}
	l.add(tokFloat, l.skip(n), f)
	return nil
}

func (l *lexer) integer(rest string, n, prefix, base int) error {
	i, err := strconv.ParseInt(strings.ReplaceAll(rest[prefix:n], "_", ""), base, 64)
	if err != nil {
		return l.errf("number %s is out of range", rest[:n])
	}
	l.add(tokInt, l.skip(n), i)
	return nil
}
