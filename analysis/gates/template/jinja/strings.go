package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

func (r *run) split(s string, a args, right bool) any {
	b := r.bind("split", a, "sep?", "maxsplit?")
	limit := -1
	if m := orNil(b[1]); m != nil {
		limit = r.index("split", m)
	}
	r.make(len(s))
	var parts []string
	switch sep := orNil(b[0]); {
	case sep == nil:
		parts = splitSpace(s, limit, right)
	case r.text("split", sep) == "":
		r.failf("empty separator")
	case right:
		parts = splitRight(s, sep.(string), limit)
	default:
		if limit >= 0 {
			limit++
		}
		parts = strings.SplitN(s, sep.(string), limit)
	}
	return r.texts(parts)
}

func (r *run) texts(parts []string) *List {
	r.make(16 * len(parts))
	l := NewList()
	for _, p := range parts {
		l.Items = append(l.Items, p)
	}
	return l
}

func splitRight(s, sep string, limit int) []string {
	var back []string
	for ; limit != 0; limit-- {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		back = append(back, s[i+len(sep):])
		s = s[:i]
	}
	back = append(back, s)
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	return back
}

func splitSpace(s string, limit int, right bool) []string {
	if limit < 0 {
		return strings.FieldsFunc(s, space)
	}
	var out []string
	if right {
		for s = strings.TrimRightFunc(s, space); s != ""; limit-- {
			i := strings.LastIndexFunc(s, space)
			if limit == 0 || i < 0 {
				out = append(out, s)
				break
			}
			_, n := utf8.DecodeRuneInString(s[i:])
			out = append(out, s[i+n:])
			s = strings.TrimRightFunc(s[:i], space)
		}
		for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
			out[i], out[j] = out[j], out[i]
		}
		return out
	}
	for s = strings.TrimLeftFunc(s, space); s != ""; limit-- {
		i := strings.IndexFunc(s, space)
		if limit == 0 || i < 0 {
			return append(out, s)
		}
		out = append(out, s[:i])
		s = strings.TrimLeftFunc(s[i:], space)
	}
	return out
}

func splitLines(r *run, s string, a args) any {
	b := r.bind("splitlines", a, "keepends?")
	keep := b[0] != (missing{}) && truth(b[0])
	var lines []string
	for s != "" {
		i := strings.IndexFunc(s, func(c rune) bool {
			return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
		})
		if i < 0 {
			lines = append(lines, s)
			break
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		end := i
		if keep {
			end += n
		}
		lines = append(lines, s[:end])
		s = s[i+n:]
	}
	return r.texts(lines)
}

// format is str.format with plain fields: {}, {0}, {name}. What else Python's fields
// can be is refused.
func (r *run) format(s string, a args) any {
	var b strings.Builder
	next := 0
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			r.grow(&b, s)
			break
		}
		r.grow(&b, s[:i])
		c := s[i : i+1]
		s = s[i+1:]
		if strings.HasPrefix(s, c) {
			r.grow(&b, c)
			s = s[1:]
			continue
		}
		end := strings.IndexByte(s, '}')
		if c == "}" || end < 0 {
			r.failf("a brace of a format string has no partner")
		}
		field := s[:end]
		s = s[end+1:]
		at, err := strconv.Atoi(field)
		switch {
		case field == "":
			at = next
			next++
		case err != nil:
			v, ok := a.get(field)
			if !ok {
				r.failf("field {%s} of a format string is not supported, or has no value", field)
			}
			r.grow(&b, r.str(v))
			continue
		}
		if at < 0 || at >= len(a.pos) {
			r.failf("a format string has more fields than values")
		}
		r.grow(&b, r.str(a.pos[at]))
	}
	return b.String()
}

// printf is Python's % on text: s, r, d, i, f, x, with flags, width and precision, by
// place or by name.
func (r *run) printf(s string, values []any, named *Dict) any {
	var b strings.Builder
	used := 0
	byName := false
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			r.grow(&b, s)
			break
		}
		r.grow(&b, s[:i])
		s = s[i+1:]
		if strings.HasPrefix(s, "%") {
			r.grow(&b, "%")
			s = s[1:]
			continue
		}
		var v any = missing{}
		if strings.HasPrefix(s, "(") && named != nil {
			end := strings.IndexByte(s, ')')
			if end < 0 {
				r.failf("incomplete format key")
			}
			if x, ok := named.lookup(s[1:end]); ok {
				v = x
			} else {
				r.failf("format key %s has no value", s[1:end])
			}
			s, byName = s[end+1:], true
		}
		n := 0
		for n < len(s) && strings.IndexByte("-+ #0123456789.", s[n]) >= 0 {
			n++
		}
		if n == len(s) || n > 12 {
			r.failf("incomplete or too long format")
		}
		if v == (missing{}) {
			if used >= len(values) {
				r.failf("not enough arguments for format string")
			}
			v = values[used]
			used++
		}
		r.grow(&b, r.verb("%"+s[:n], s[n], v))
		s = s[n+1:]
	}
	if !byName && used < len(values) && named == nil {
		r.failf("not all arguments converted during string formatting")
	}
	return b.String()
}

func (r *run) verb(flags string, verb byte, v any) string {
	for _, n := range strings.FieldsFunc(flags, func(c rune) bool { return c < '0' || c > '9' }) {
		if len(n) > 5 {
			r.failf("a format is too wide")
		}
	}
	switch verb {
	case 's':
		return fmt.Sprintf(flags+"s", r.str(v))
	case 'r':
		var b strings.Builder
		r.repr(&b, v, 0)
		return fmt.Sprintf(flags+"s", b.String())
	}
	f, ok := number(v)
	if !ok {
		r.failf("%%%c format: a number is required, not %s", verb, typeName(v))
	}
	switch verb {
	case 'd', 'i', 'x', 'X':
		i, ok := whole(v)
		if !ok && verb < 'e' {
			i, ok = int64(f), true
		}
		if !ok {
			r.failf("%%%c format: an integer is required", verb)
		}
		if verb == 'i' {
			verb = 'd'
		}
		return fmt.Sprintf(flags+string(verb), i)
	case 'f', 'e', 'g':
		return fmt.Sprintf(flags+string(verb), f)
	}
	r.failf("unsupported format character '%c'", verb)
	return ""
}
