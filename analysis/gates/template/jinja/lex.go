package jinja

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokData tokenKind = iota
	tokBegin
	tokEnd
	tokPrint
	tokPrintEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
	tokEOF
)

type token struct {
	kind tokenKind
	text string // of a string, its value
	num  any
	line int
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokData:
		return "text"
	case tokString:
		return fmt.Sprintf("%q", t.text)
	}
	return t.text
}

// lexer cuts a template into tokens, white space around tags as transformers sets
// it: the line end after a statement or comment goes, as does what is before one on
// its line when that is white space.
type lexer struct {
	src   string
	pos   int
	line  int
	start bool // nothing but a line end came just before
	out   []token
}

func lex(src string) ([]token, error) {
	src = strings.ReplaceAll(src, "\r\n", "\n")
	src = strings.ReplaceAll(src, "\r", "\n")
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, line: 1, start: true}
	for l.pos < len(l.src) {
		if err := l.outside(); err != nil {
			return nil, err
		}
	}
	return append(l.out, token{kind: tokEOF, line: l.line}), nil
}

func (l *lexer) errf(format string, a ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{l.line}, a...)...)
}

func (l *lexer) add(k tokenKind, text string, num any) {
	l.out = append(l.out, token{k, text, num, l.line})
}

func (l *lexer) skip(n int) string {
	s := l.src[l.pos : l.pos+n]
	l.line += strings.Count(s, "\n")
	l.pos += n
	return s
}

func (l *lexer) skipSpace() {
	rest := l.src[l.pos:]
	l.skip(len(rest) - len(strings.TrimLeftFunc(rest, space)))
}

// outside takes text up to a tag, and the tag.
func (l *lexer) outside() error {
	rest := l.src[l.pos:]
	at := tagStart(rest)
	if at < 0 {
		l.text(rest)
		l.skip(len(rest))
		return nil
	}
	open, text := rest[at:at+2], rest[:at]
	sign := byte(0)
	if at+2 < len(rest) && (rest[at+2] == '-' || rest[at+2] == '+') {
		sign = rest[at+2]
	}
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, space)
	case sign != '+' && open != "{{":
		nl := strings.LastIndexByte(text, '\n') + 1
		if (nl > 0 || l.start) && strings.TrimFunc(text[nl:], space) == "" {
			text = text[:nl]
		}
	}
	l.text(text)
	l.skip(at + 2)
	if sign != 0 {
		l.skip(1)
	}
	switch open {
	case "{#":
		return l.comment()
	case "{%":
		if n := rawTag(l.src[l.pos:], "raw", false); n > 0 {
			return l.raw(n)
		}
		l.add(tokBegin, "{%", nil)
		return l.inside(tokEnd, "%}")
	}
	l.add(tokPrint, "{{", nil)
	return l.inside(tokPrintEnd, "}}")
}

func tagStart(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '{' && (s[i+1] == '%' || s[i+1] == '{' || s[i+1] == '#') {
			return i
		}
	}
	return -1
}

func (l *lexer) text(s string) {
	if s != "" {
		l.add(tokData, s, nil)
	}
}

// close takes the end of a tag: with a minus all white space after it, without a plus
// the line end.
func (l *lexer) close(sign byte, line bool) {
	l.start = false
	switch {
	case sign == '-':
		before := l.pos
		l.skipSpace()
		l.start = l.pos > before && l.src[l.pos-1] == '\n'
	case sign != '+' && line && strings.HasPrefix(l.src[l.pos:], "\n"):
		l.skip(1)
		l.start = true
	}
}

func (l *lexer) comment() error {
	n := strings.Index(l.src[l.pos:], "#}")
	if n < 0 {
		return l.errf("a comment has no end")
	}
	sign := byte(0)
	if n > 0 {
		sign = l.src[l.pos+n-1]
	}
	l.skip(n + 2)
	l.close(sign, true)
	return nil
}

// rawTag is the length of what follows {% in {% raw %} or {% endraw %}, 0 where it is
// another tag.
func rawTag(s, name string, line bool) int {
	t := strings.TrimLeftFunc(s, space)
	t, ok := strings.CutPrefix(t, name)
	if !ok {
		return 0
	}
	t = strings.TrimLeftFunc(t, space)
	for _, end := range []string{"-%}", "+%}", "%}"} {
		u, ok := strings.CutPrefix(t, end)
		if !ok || end == "+%}" && !line {
			continue
		}
		if end == "-%}" {
			u = strings.TrimLeftFunc(u, space)
		} else if end == "%}" && line {
			u = strings.TrimPrefix(u, "\n")
		}
		return len(s) - len(u)
	}
	return 0
}

func (l *lexer) raw(n int) error {
	l.skip(n)
	l.start = false
	for from := l.pos; ; {
		i := strings.Index(l.src[from:], "{%")
		if i < 0 {
			return l.errf("a raw block has no endraw")
		}
		at := from + i
		from = at + 2
		tag, sign := l.src[from:], byte(0)
		if tag != "" && (tag[0] == '-' || tag[0] == '+') {
			sign, tag = tag[0], tag[1:]
		}
		n := rawTag(tag, "endraw", true)
		if n == 0 {
			continue
		}
		text := l.src[l.pos:at]
		if sign == '-' {
			text = strings.TrimRightFunc(text, space)
		} else if nl := strings.LastIndexByte(text, '\n') + 1; sign == 0 && nl > 0 && strings.TrimFunc(text[nl:], space) == "" {
			text = text[:nl]
		}
		l.text(text)
		l.skip(len(l.src) - len(tag) + n - l.pos)
		l.start = l.src[l.pos-1] == '\n'
		return nil
	}
}

var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

// inside takes the tokens of a tag up to its end, which counts outside brackets only.
func (l *lexer) inside(end tokenKind, text string) error {
	opened := l.line
	var stack []byte
	for {
		l.skipSpace()
		rest := l.src[l.pos:]
		if rest == "" {
			l.line = opened
			return l.errf("a tag has no %s", text)
		}
		if len(stack) == 0 {
			sign := byte(0)
			if rest[0] == '-' || rest[0] == '+' && end == tokEnd {
				sign = rest[0]
			}
			body := rest
			if sign != 0 {
				body = rest[1:]
			}
			if strings.HasPrefix(body, text) {
				l.add(end, text, nil)
				l.skip(len(rest) - len(body) + 2)
				l.close(sign, end == tokEnd)
				return nil
			}
		}
		if err := l.token(rest, &stack); err != nil {
			return err
		}
	}
}

func (l *lexer) token(rest string, stack *[]byte) error {
	c, _ := utf8.DecodeRuneInString(rest)
	switch {
	case c == '\'' || c == '"':
		return l.str(rest)
	case c >= '0' && c <= '9':
		return l.number(rest)
	case nameStart(c):
		n := 0
		for i, c := range rest {
			if !nameStart(c) && !(i > 0 && nameMore(c)) {
				break
			}
			n = i + utf8.RuneLen(c)
		}
		l.add(tokName, l.skip(n), nil)
		return nil
	}
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		switch op {
		case "(", "[", "{":
			*stack = append(*stack, op[0])
		case ")", "]", "}":
			n := len(*stack)
			if n == 0 || (*stack)[n-1] != map[string]byte{")": '(', "]": '[', "}": '{'}[op] {
				return l.errf("unexpected %q", op)
			}
			*stack = (*stack)[:n-1]
		}
		l.add(tokOp, l.skip(len(op)), nil)
		return nil
	}
	return l.errf("unexpected character %q", c)
}
