package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Byte-level vocabularies spell each byte as a printable character: those of
// Latin-1 that print as themselves, the others from U+0100 on (GPT-2's table).
var (
	byteRunes [256]rune
	charBytes = map[rune]byte{}
)

func init() {
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= 0xA1 && r <= 0xAC || r >= 0xAE) {
			r, next = next, next+1
		}
		byteRunes[b], charBytes[r] = r, byte(b)
	}
}

func toByteChars(s string) string {
	var b strings.Builder
	b.Grow(2 * len(s))
	for i := range len(s) {
		b.WriteRune(byteRunes[s[i]])
	}
	return b.String()
}

// lossy is a text with each maximal invalid part of UTF-8 as one U+FFFD, as Rust's
// from_utf8_lossy and the Unicode standard (3.9, U+FFFD substitution of maximal
// subparts) have it.
func lossy(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	var b strings.Builder
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		if r != utf8.RuneError || size > 1 {
			b.Write(p[:size])
			p = p[size:]
			continue
		}
		b.WriteRune(utf8.RuneError)
		p = p[subpart(p):]
	}
	return b.String()
}

// subpart is the length of the maximal subpart of an ill-formed sequence.
func subpart(p []byte) int {
	c := p[0]
	need, low, high := 0, byte(0x80), byte(0xBF)
	switch {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		switch c {
		case 0xE0:
			low = 0xA0
		case 0xED:
			high = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		switch c {
		case 0xF0:
			low = 0x90
		case 0xF4:
			high = 0x8F
		}
	}
	n := 1
	for n <= need && n < len(p) && p[n] >= low && p[n] <= high {
		low, high = 0x80, 0xBF
		n++
	}
	return n
}
