package checkpoint

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep JSON may nest. Headers need 3, the deepest configs in
// use about 10.
const maxDepth = 64

// syntaxError says where a JSON text breaks off from what it should be.
type syntaxError struct {
	at     int // byte
	reason string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.reason, e.at) }

// scanner walks over one JSON text. encoding/json is not used for headers and
// indexes because it takes "DTYPE" for "dtype", lets the last of two equal keys
// win, rounds integers and replaces invalid UTF-8 and lone surrogates.
//
// The text must be valid UTF-8; newScanner checks that once.
type scanner struct {
	buf     []byte
	pos     int
	scratch []byte // holds the last string that had escapes
	python  bool   // also takes NaN, Infinity and -Infinity, which Python's json writes
}

func newScanner(text []byte) (*scanner, error) {
	if !utf8.Valid(text) {
		at := 0
		for at < len(text) {
			r, n := utf8.DecodeRune(text[at:])
			if r == utf8.RuneError && n <= 1 {
				break
			}
			at += n
		}
		return nil, &syntaxError{at, "invalid UTF-8"}
	}
	return &scanner{buf: text}, nil
}

func (s *scanner) fail(format string, args ...any) error {
	return &syntaxError{s.pos, fmt.Sprintf(format, args...)}
}

// space skips blanks.
func (s *scanner) space() {
	for s.pos < len(s.buf) {
		switch s.buf[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek is the next byte after blanks, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos >= len(s.buf) {
		return 0
	}
	return s.buf[s.pos]
}

// found describes what stands at the position, for messages.
func (s *scanner) found() string {
	if s.pos >= len(s.buf) {
		return "the end of the text"
	}
	r, _ := utf8.DecodeRune(s.buf[s.pos:])
	return fmt.Sprintf("%q", r)
}

// expect takes one punctuation mark after blanks.
func (s *scanner) expect(c byte) error {
	if s.peek() != c || s.pos >= len(s.buf) {
		return s.fail("want %q, found %s", c, s.found())
	}
	s.pos++
	return nil
}

// members calls f before the value of each member of the object that begins
// here. The key is valid until the scanner reads on.
func (s *scanner) members(f func(key []byte) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		key, err := s.text()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		if err := f(key); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return nil
		default:
			return s.fail("want ',' or '}', found %s", s.found())
		}
	}
}

// items calls f before each item of the array that begins here.
func (s *scanner) items(f func() error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		if err := f(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return nil
		default:
			return s.fail("want ',' or ']', found %s", s.found())
		}
	}
}

// text reads a string. What it returns is part of the text, or of a buffer
// that the next string with escapes overwrites.
func (s *scanner) text() ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return nil, err
	}
	start := s.pos
	for i := start; i < len(s.buf); i++ {
		switch c := s.buf[i]; {
		case c == '"':
			s.pos = i + 1
			return s.buf[start:i], nil
		case c == '\\':
			s.scratch = append(s.scratch[:0], s.buf[start:i]...)
			s.pos = i
			return s.escaped()
		case c < 0x20:
			s.pos = i
			return nil, s.fail("unescaped control character %q in a string", c)
		}
	}
	s.pos = len(s.buf)
	return nil, s.fail("string without an end")
}

// escaped reads on in a string from its first escape.
func (s *scanner) escaped() ([]byte, error) {
	for s.pos < len(s.buf) {
		c := s.buf[s.pos]
		switch {
		case c == '"':
			s.pos++
			return s.scratch, nil
		case c < 0x20:
			return nil, s.fail("unescaped control character %q in a string", c)
		case c != '\\':
			s.scratch = append(s.scratch, c)
			s.pos++
		default:
			if err := s.escape(); err != nil {
				return nil, err
			}
		}
	}
	return nil, s.fail("string without an end")
}

// escape reads one escape sequence.
func (s *scanner) escape() error {
	if s.pos+1 >= len(s.buf) {
		return s.fail("string without an end")
	}
	switch c := s.buf[s.pos+1]; c {
	case '"', '\\', '/':
		s.scratch = append(s.scratch, c)
	case 'b':
		s.scratch = append(s.scratch, '\b')
	case 'f':
		s.scratch = append(s.scratch, '\f')
	case 'n':
		s.scratch = append(s.scratch, '\n')
	case 'r':
		s.scratch = append(s.scratch, '\r')
	case 't':
		s.scratch = append(s.scratch, '\t')
	case 'u':
		return s.escapedRune()
	default:
		return s.fail("unknown escape in a string")
	}
	s.pos += 2
	return nil
}

// escapedRune reads \uXXXX or a pair of surrogates.
func (s *scanner) escapedRune() error {
	r, ok := s.hex4(s.pos)
	if !ok {
		return s.fail(`\u without four hex digits`)
	}
	n := 6
	if utf16.IsSurrogate(r) {
		low, ok := s.hex4(s.pos + n)
		pair := utf16.DecodeRune(r, low)
		if !ok || pair == utf8.RuneError {
			return s.fail("lone surrogate %04X in a string", r)
		}
		r, n = pair, 12
	}
	s.scratch = utf8.AppendRune(s.scratch, r)
	s.pos += n
	return nil
}

// hex4 is the value of the \uXXXX at byte at.
func (s *scanner) hex4(at int) (rune, bool) {
	if at+6 > len(s.buf) || s.buf[at] != '\\' || s.buf[at+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s.buf[at+2 : at+6] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// count reads an integer of at least 0 that fits int64.
func (s *scanner) count() (int64, error) {
	s.space()
	start := s.pos
	var n uint64
	for s.pos < len(s.buf) && '0' <= s.buf[s.pos] && s.buf[s.pos] <= '9' {
		d := uint64(s.buf[s.pos] - '0')
		if n > (1<<63-1-d)/10 {
			s.pos = start
			return 0, s.fail("number above 9223372036854775807")
		}
		n = n*10 + d
		s.pos++
	}
	if s.pos == start {
		return 0, s.fail("want an integer of at least 0, found %s", s.found())
	}
	if s.buf[start] == '0' && s.pos > start+1 {
		s.pos = start
		return 0, s.fail("integer with a leading 0")
	}
	if s.pos < len(s.buf) {
		switch s.buf[s.pos] {
		case '.', 'e', 'E':
			return 0, s.fail("want an integer, found a fraction or exponent")
		}
	}
	return int64(n), nil
}

// number reads any JSON number and returns its text.
func (s *scanner) number() ([]byte, error) {
	s.space()
	start := s.pos
	s.take("-", 1)
	switch {
	case s.take("0", 1) == 1:
	case s.take("0123456789", -1) > 0:
	default:
		return nil, s.fail("want a number, found %s", s.found())
	}
	if s.take(".", 1) == 1 && s.take("0123456789", -1) == 0 {
		return nil, s.fail("number without digits after the point")
	}
	if s.take("eE", 1) == 1 {
		s.take("+-", 1)
		if s.take("0123456789", -1) == 0 {
			return nil, s.fail("number without digits in the exponent")
		}
	}
	return s.buf[start:s.pos], nil
}

// take skips up to limit bytes (all where it is negative) that are in set.
func (s *scanner) take(set string, limit int) int {
	n := 0
	for s.pos < len(s.buf) && n != limit {
		found := false
		for i := range len(set) {
			found = found || s.buf[s.pos] == set[i]
		}
		if !found {
			break
		}
		s.pos++
		n++
	}
	return n
}

// skip reads over any value; depth counts the brackets that it would open,
// 1 for one that stands in none.
func (s *scanner) skip(depth int) error {
	c := s.peek()
	if depth > maxDepth && (c == '{' || c == '[') {
		return s.fail("nested more than %d deep", maxDepth)
	}
	switch {
	case c == '{':
		return s.members(func([]byte) error { return s.skip(depth + 1) })
	case c == '[':
		return s.items(func() error { return s.skip(depth + 1) })
	case c == '"':
		_, err := s.text()
		return err
	case s.word("true"), s.word("false"), s.word("null"):
		return nil
	case s.python && (s.word("NaN") || s.word("Infinity") || s.word("-Infinity")):
		return nil
	default:
		_, err := s.number()
		return err
	}
}

// word takes a bare word. What follows it is checked by the caller, who wants
// a comma, a bracket or the end.
func (s *scanner) word(w string) bool {
	if len(s.buf)-s.pos < len(w) || string(s.buf[s.pos:s.pos+len(w)]) != w {
		return false
	}
	s.pos += len(w)
	return true
}

// end wants nothing but blanks.
func (s *scanner) end() error {
	s.space()
	if s.pos < len(s.buf) {
		return s.fail("want nothing more, found %s", s.found())
	}
	return nil
}
