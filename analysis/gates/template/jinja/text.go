package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// str is Python's str of a value.
func (r *run) str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case marked:
		return string(v)
	case *undef:
		return ""
	}
	var b strings.Builder
	r.repr(&b, v, 0)
	r.make(b.Len())
	return b.String()
}

// maxNesting bounds values within values.
const maxNesting = 200

func (r *run) repr(b *strings.Builder, v any, depth int) {
	if depth > maxNesting {
		r.failf("a value is nested more than %d times", maxNesting)
	}
	r.step()
	if b.Len() > maxBytes {
		r.failf("a text is longer than %d bytes", maxBytes)
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case bigInt:
		b.WriteString(string(v))
	case float64:
		b.WriteString(floatText(v))
	case string:
		quote(b, v)
	case *undef:
		b.WriteString("Undefined")
	case *Dict:
		b.WriteByte('{')
		for i, p := range v.pairs {
			if i > 0 {
				b.WriteString(", ")
			}
			r.repr(b, p.key, depth+1)
			b.WriteString(": ")
			r.repr(b, p.value, depth+1)
		}
		b.WriteByte('}')
	case *List:
		r.reprList(b, v, depth)
	default:
		r.failf("a %s has no text that is the same every time", typeName(v))
	}
}

func (r *run) reprList(b *strings.Builder, l *List, depth int) {
	open, end := "[", "]"
	switch l.kind {
	case tuple:
		open, end = "(", ")"
		if len(l.Items) == 1 {
			end = ",)"
		}
	case keyView, valueView, itemView:
		open, end = kindNames[l.kind]+"([", "])"
	case generator, span:
		r.failf("a %s has no text that is the same every time", kindNames[l.kind])
	}
	b.WriteString(open)
	for i, x := range l.Items {
		if i > 0 {
			b.WriteString(", ")
		}
		r.repr(b, x, depth+1)
	}
	b.WriteString(end)
}

// floatText is Python's repr of a float: the shortest digits that read back, in
// scientific notation below 1e-4 and from 1e16.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote writes Python's repr of a text.
func quote(b *strings.Builder, s string) {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	b.WriteByte(q)
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == rune(q) || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == utf8.RuneError && n == 1:
			b.WriteString(s[i : i+1])
		case c == ' ' || unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			fmt.Fprintf(b, `\U%08x`, c)
		}
		i += n
	}
	b.WriteByte(q)
}

// space is Python's idea of white space in text.
func space(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }
