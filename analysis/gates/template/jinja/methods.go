package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// method is a method of Python's type, bound to its value; nil where the type has
// none of that name. Those that change their value are refused, as in the sandbox.
func (r *run) method(o any, name string) any {
	var f func(r *run, a args) any
	switch o := o.(type) {
	case string:
		if m, ok := stringMethods[name]; ok {
			f = func(r *run, a args) any { return m(r, o, a) }
		}
	case *Dict:
		if m, ok := dictMethods[name]; ok {
			f = func(r *run, a args) any { return m(r, o, a) }
		}
		f = r.refused(f, name, "clear", "pop", "popitem", "setdefault", "update")
	case *List:
		if m, ok := listMethods[name]; ok && o.kind <= tuple {
			f = func(r *run, a args) any { return m(r, o, a) }
		}
		if o.kind == list {
			f = r.refused(f, name, "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort")
		}
	}
	if f == nil {
		if unoffered[typeName(o)+"."+name] {
			r.failf("%s of %s is not offered", name, typeName(o))
		}
		return nil
	}
	return &function{name, f}
}

// unoffered are what Python's types have beside, which must not look as if it were
// not there.
var unoffered = map[string]bool{}

func init() {
	for of, names := range map[string]string{
		"str":   "casefold encode expandtabs format_map isascii isidentifier isprintable istitle maketrans swapcase translate",
		"int":   "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator real to_bytes",
		"bool":  "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator real to_bytes",
		"float": "as_integer_ratio conjugate fromhex hex imag is_integer real",
		"dict":  "fromkeys", "dict_keys": "isdisjoint mapping", "dict_items": "isdisjoint mapping", "dict_values": "mapping",
		"range": "count index start step stop", "Macro": "arguments caller catch_kwargs catch_varargs explicit_caller",
	} {
		for _, n := range strings.Fields(names) {
			unoffered[of+"."+n] = true
		}
	}
}

func (r *run) refused(f func(*run, args) any, name string, bad ...string) func(*run, args) any {
	for _, b := range bad {
		if name == b {
			return func(r *run, a args) any {
				r.failf("%s changes its value, which templates may not", name)
				return nil
			}
		}
	}
	return f
}

var dictMethods = map[string]func(r *run, d *Dict, a args) any{
	"get": func(r *run, d *Dict, a args) any {
		b := r.bind("get", a, "key", "default?")
		if v, ok := d.lookup(b[0]); ok {
			return v
		}
		return orNil(b[1])
	},
	"keys":   func(r *run, d *Dict, a args) any { return r.view(keyView, d, func(p pair) any { return p.key }) },
	"values": func(r *run, d *Dict, a args) any { return r.view(valueView, d, func(p pair) any { return p.value }) },
	"items":  func(r *run, d *Dict, a args) any { return r.view(itemView, d, pairOf) },
	"copy":   func(r *run, d *Dict, a args) any { return r.copyDict(d) },
}

func pairOf(p pair) any { return &List{tuple, []any{p.key, p.value}} }

func (r *run) view(k kind, d *Dict, f func(pair) any) *List {
	r.make(16 * len(d.pairs))
	l := &List{kind: k}
	for _, p := range d.pairs {
		l.Items = append(l.Items, f(p))
	}
	return l
}

func (r *run) copyDict(d *Dict) *Dict {
	r.make(64 * len(d.pairs))
	c := NewDict()
	for _, p := range d.pairs {
		c.put(p.key, p.value)
	}
	return c
}

func orNil(v any) any {
	if v == (missing{}) {
		return nil
	}
	return v
}

var listMethods = map[string]func(r *run, l *List, a args) any{
	"index": func(r *run, l *List, a args) any {
		v := r.bind("index", a, "value")[0]
		for i, x := range l.Items {
			if equal(x, v) {
				return int64(i)
			}
		}
		r.failf("the value is not in the list")
		return nil
	},
	"count": func(r *run, l *List, a args) any {
		v, n := r.bind("count", a, "value")[0], int64(0)
		for _, x := range l.Items {
			if equal(x, v) {
				n++
			}
		}
		return n
	},
	"copy": func(r *run, l *List, a args) any { return &List{l.kind, append([]any(nil), l.Items...)} },
}

type stringMethod = func(r *run, s string, a args) any

var stringMethods map[string]stringMethod

func init() {
	stringMethods = map[string]stringMethod{
		"upper":      func(r *run, s string, a args) any { return r.made1(upper(s)) },
		"lower":      func(r *run, s string, a args) any { return r.made1(lower(s)) },
		"capitalize": func(r *run, s string, a args) any { return r.made1(capitalize(s)) },
		"title":      func(r *run, s string, a args) any { return r.made1(titled(s)) },
		"strip":      stripped(strings.TrimLeftFunc, strings.TrimRightFunc),
		"lstrip":     stripped(strings.TrimLeftFunc, nil),
		"rstrip":     stripped(nil, strings.TrimRightFunc),
		"split":      func(r *run, s string, a args) any { return r.split(s, a, false) },
		"rsplit":     func(r *run, s string, a args) any { return r.split(s, a, true) },
		"splitlines": splitLines,
		"startswith": affix(strings.HasPrefix),
		"endswith":   affix(strings.HasSuffix),
		"replace":    replaceMethod,
		"find":       finding(strings.Index, false),
		"rfind":      finding(strings.LastIndex, false),
		"index":      finding(strings.Index, true),
		"rindex":     finding(strings.LastIndex, true),
		"count": func(r *run, s string, a args) any {
			return int64(strings.Count(s, r.text("count", r.bind("count", a, "sub")[0])))
		},
		"join": func(r *run, s string, a args) any {
			var b strings.Builder
			for i, v := range r.each(r.bind("join", a, "iterable")[0]) {
				if i > 0 {
					r.grow(&b, s)
				}
				r.grow(&b, r.text("join", v))
			}
			return b.String()
		},
		"format":  func(r *run, s string, a args) any { return r.format(s, a) },
		"isdigit": every(unicode.IsDigit), "isdecimal": every(unicode.IsDigit), "isnumeric": every(unicode.IsNumber),
		"isalpha": every(unicode.IsLetter), "isspace": every(space),
		"isalnum": every(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isupper": func(r *run, s string, a args) any { return s != lower(s) && s == upper(s) },
		"islower": func(r *run, s string, a args) any { return s != upper(s) && s == lower(s) },
		"removeprefix": func(r *run, s string, a args) any {
			return strings.TrimPrefix(s, r.text("removeprefix", r.bind("removeprefix", a, "prefix")[0]))
		},
		"removesuffix": func(r *run, s string, a args) any {
			return strings.TrimSuffix(s, r.text("removesuffix", r.bind("removesuffix", a, "suffix")[0]))
		},
		"partition":  partition(strings.Index, false),
		"rpartition": partition(strings.LastIndex, true),
		"ljust":      padded("ljust", -1), "rjust": padded("rjust", 1), "center": padded("center", 0),
		"zfill": func(r *run, s string, a args) any {
			sign, digits := "", s
			if s != "" && (s[0] == '-' || s[0] == '+') {
				sign, digits = s[:1], s[1:]
			}
			n := r.index("zfill", r.bind("zfill", a, "width")[0]) - utf8.RuneCountInString(s)
			return sign + r.pad("0", n) + digits
		},
	}
}

// made1 accounts for a text that was made of another of about its size.
func (r *run) made1(s string) string {
	r.make(len(s))
	return s
}

func (r *run) grow(b *strings.Builder, s string) {
	r.make(len(s))
	if b.Len()+len(s) > maxBytes {
		r.failf("a text is longer than %d bytes", maxBytes)
	}
	b.WriteString(s)
}

func (r *run) text(of string, v any) string {
	s, ok := v.(string)
	if !ok {
		r.failf("%s wants a text, got %s", of, typeName(v))
	}
	return s
}

func (r *run) index(of string, v any) int {
	i, ok := whole(v)
	if !ok {
		r.failf("%s wants a whole number, got %s", of, typeName(v))
	}
	return int(min(max(i, -maxBytes-1), maxBytes+1))
}

func stripped(left, right func(string, func(rune) bool) string) stringMethod {
	return func(r *run, s string, a args) any {
		in := space
		if c := orNil(r.bind("strip", a, "chars?")[0]); c != nil {
			set := r.text("strip", c)
			in = func(c rune) bool { return strings.ContainsRune(set, c) }
		}
		if left != nil {
			s = left(s, in)
		}
		if right != nil {
			s = right(s, in)
		}
		return s
	}
}

func affix(has func(s, fix string) bool) stringMethod {
	return func(r *run, s string, a args) any {
		b := r.bind("startswith", a, "prefix", "start?", "end?")
		s = r.part(s, b[1], b[2])
		if t, ok := b[0].(*List); ok && t.kind == tuple {
			for _, v := range t.Items {
				if has(s, r.text("startswith", v)) {
					return true
				}
			}
			return false
		}
		return has(s, r.text("startswith", b[0]))
	}
}

func (r *run) part(s string, from, to any) string {
	from, to = orNil(from), orNil(to)
	if from == nil && to == nil {
		return s
	}
	n := int64(utf8.RuneCountInString(s))
	var i, j int64
	if from != nil {
		i = int64(r.index("start", from))
	}
	if to != nil {
		j = int64(r.index("end", to))
	}
	return pick(s, places(n, i, j, 1, from != nil, to != nil))
}

func finding(index func(s, sub string) int, must bool) stringMethod {
	return func(r *run, s string, a args) any {
		b := r.bind("find", a, "sub", "start?", "end?")
		rest := r.part(s, b[1], b[2])
		i := index(rest, r.text("find", b[0]))
		if i < 0 {
			if must {
				r.failf("substring not found")
			}
			return int64(-1)
		}
		before := utf8.RuneCountInString(rest[:i])
		if from := orNil(b[1]); from != nil {
			k := r.index("find", from)
			if k < 0 {
				k = max(k+utf8.RuneCountInString(s), 0)
			}
			before += k
		}
		return int64(before)
	}
}

func partition(index func(s, sub string) int, last bool) stringMethod {
	return func(r *run, s string, a args) any {
		sep := r.text("partition", r.bind("partition", a, "sep")[0])
		if sep == "" {
			r.failf("empty separator")
		}
		i := index(s, sep)
		if i < 0 && last {
			return &List{tuple, []any{"", "", s}}
		}
		if i < 0 {
			return &List{tuple, []any{s, "", ""}}
		}
		return &List{tuple, []any{s[:i], sep, s[i+len(sep):]}}
	}
}

func every(f func(rune) bool) stringMethod {
	return func(r *run, s string, a args) any {
		for _, c := range s {
			if !f(c) {
				return false
			}
		}
		return s != ""
	}
}

func replaceMethod(r *run, s string, a args) any {
	b := r.bind("replace", a, "old", "new", "count?")
	n := -1
	if c := orNil(b[2]); c != nil {
		n = r.index("replace", c)
	}
	return r.replace(s, r.text("replace", b[0]), r.text("replace", b[1]), n)
}

func (r *run) replace(s, old, new string, n int) string {
	times := strings.Count(s, old)
	if n >= 0 {
		times = min(times, n)
	}
	if grow := len(new) - len(old); grow > 0 && times > maxBytes/grow {
		r.failf("a text is longer than %d bytes", maxBytes)
	}
	r.make(len(s) + max(times*(len(new)-len(old)), 0))
	return strings.Replace(s, old, new, n)
}

func padded(of string, side int) stringMethod {
	return func(r *run, s string, a args) any {
		b := r.bind(of, a, "width", "fillchar?")
		fill := " "
		if f := orNil(b[1]); f != nil {
			if fill = r.text(of, f); utf8.RuneCountInString(fill) != 1 {
				r.failf("the fill character must be exactly one character long")
			}
		}
		width := r.index(of, b[0])
		n := max(width-utf8.RuneCountInString(s), 0)
		left := 0
		switch side {
		case 0:
			left = n/2 + n&width&1
		case 1:
			left = n
		}
		return r.pad(fill, left) + s + r.pad(fill, n-left)
	}
}

func (r *run) pad(fill string, n int) string {
	n = max(n, 0)
	r.make(n * len(fill))
	return strings.Repeat(fill, n)
}
