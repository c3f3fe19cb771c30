package openai

import (
	"unicode/utf16"
	"unicode/utf8"
)

// joined gathers pieces of a text.
type joined struct {
	b    []byte
	tail string // the last bytes of b, which may be half of a pair
}

func (j *joined) add(piece string) {
	if piece == "" {
		return
	}
	if half(j.tail, len(j.tail)-3) != 0 && half(piece, 0) != 0 {
		whole := join(j.tail, piece)
		j.b = append(j.b[:len(j.b)-len(j.tail)], whole...)
	} else {
		j.b = append(j.b, piece...)
	}
	j.tail = string(j.b[max(0, len(j.b)-3):])
}

// join puts a piece behind a text. Two halves of a pair that came in two pieces
// become the character that they are.
func join(t, piece string) string {
	high, low := half(t, len(t)-3), half(piece, 0)
	if both := utf16.DecodeRune(high, low); both != utf8.RuneError {
		return t[:len(t)-3] + string(both) + piece[3:]
	}
	return t + piece
}

// half is the half of a pair that is written as three bytes at a place, or 0.
func half(s string, at int) rune {
	if at < 0 || len(s)-at < 3 || s[at] != 0xed || s[at+1]&0xe0 != 0xa0 || s[at+2]&0xc0 != 0x80 {
		return 0
	}
	return rune(s[at]&0x0f)<<12 | rune(s[at+1]&0x3f)<<6 | rune(s[at+2]&0x3f)
}

// invalid counts the bytes of a text that are no UTF-8.
func invalid(s string) int {
	n := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			n++
		}
		i += size
	}
	return n
}
