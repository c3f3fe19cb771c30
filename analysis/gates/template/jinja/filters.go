package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

type filterFunc func(r *run, v any, a args) any

// filter runs a filter by its name.
func (r *run) filter(name string, v any, a args) any {
	f, ok := filters[name]
	if !ok {
		r.failf("filter %s is not known (known: %s)", name, known(filters))
	}
	if m, ok := v.(marked); ok {
		switch name {
		case "safe", "string":
			return m
		case "length", "count", "tojson", "default", "d":
			v = string(m)
		default:
			r.unmarked(v)
		}
	}
	return f(r, v, a)
}

// filters are Jinja's, less those for HTML and those whose results vary.
var filters map[string]filterFunc

func init() {
	filters = map[string]filterFunc{
		"abs": func(r *run, v any, a args) any {
			if f, ok := v.(float64); ok {
				return math.Abs(f)
			}
			i, ok := whole(v)
			if !ok {
				r.failf("bad operand type for abs: '%s'", typeName(v))
			}
			return max(i, -i)
		},
		"attr": func(r *run, v any, a args) any {
			name := r.text("attr", r.bind("attr", a, "name")[0])
			if m := r.method(v, name); m != nil {
				return m
			}
			if ns, ok := v.(*namespace); ok {
				if x, ok := ns.vars.lookup(name); ok {
					return x
				}
			}
			return r.noAttr(v, name)
		},
		"batch":      batch,
		"capitalize": func(r *run, v any, a args) any { return r.made1(capitalize(r.str(v))) },
		"center": func(r *run, v any, a args) any {
			w := r.bind("center", a, "width?")[0]
			if w == (missing{}) {
				w = int64(80)
			}
			return padded("center", 0)(r, r.str(v), args{pos: []any{w}})
		},
		"count": func(r *run, v any, a args) any { return int64(r.length(v)) },
		"d":     orDefault, "default": orDefault,
		"dictsort": dictSort,
		"first": func(r *run, v any, a args) any {
			if items := r.each(v); len(items) > 0 {
				return items[0]
			}
			return &undef{"No first item, sequence was empty."}
		},
		"last": func(r *run, v any, a args) any {
			if items := r.each(v); len(items) > 0 {
				return items[len(items)-1]
			}
			return &undef{"No last item, sequence was empty."}
		},
		"float": toFloat, "int": toInt,
		"format": func(r *run, v any, a args) any {
			if len(a.names) > 0 {
				d := NewDict()
				for i, n := range a.names {
					d.put(n, a.named[i])
				}
				return r.printf(r.str(v), nil, d)
			}
			return r.printf(r.str(v), a.pos, nil)
		},
		"groupby": groupBy,
		"indent":  indent,
		"items": func(r *run, v any, a args) any {
			switch v := v.(type) {
			case *undef:
				return &List{kind: generator}
			case *Dict:
				return r.view(generator, v, pairOf)
			}
			r.failf("can only get item pairs from a mapping")
			return nil
		},
		"join":   join,
		"length": func(r *run, v any, a args) any { return int64(r.length(v)) },
		"list":   func(r *run, v any, a args) any { return r.list(v) },
		"lower":  func(r *run, v any, a args) any { return r.made1(lower(r.str(v))) },
		"upper":  func(r *run, v any, a args) any { return r.made1(upper(r.str(v))) },
		"map":    mapFilter,
		"max":    func(r *run, v any, a args) any { return r.extreme(v, a, 1) },
		"min":    func(r *run, v any, a args) any { return r.extreme(v, a, -1) },
		"select": selecting("select", true, false), "reject": selecting("reject", false, false),
		"selectattr": selecting("selectattr", true, true), "rejectattr": selecting("rejectattr", false, true),
		"replace": func(r *run, v any, a args) any {
			b := r.bind("replace", a, "old", "new", "count?")
			n := -1
			if c := orNil(b[2]); c != nil {
				n = r.index("replace", c)
			}
			return r.replace(r.str(v), r.str(b[0]), r.str(b[1]), n)
		},
		"reverse": func(r *run, v any, a args) any {
			items := r.each(v)
			l := &List{kind: generator, Items: make([]any, len(items))}
			for i, x := range items {
				l.Items[len(items)-1-i] = x
			}
			if _, ok := v.(string); ok {
				return join(r, l, args{})
			}
			return l
		},
		"round":  round,
		"safe":   func(r *run, v any, a args) any { return marked(r.str(v)) },
		"sort":   sortFilter,
		"string": func(r *run, v any, a args) any { return r.str(v) },
		"sum":    sum,
		"title":  func(r *run, v any, a args) any { return r.made1(titleWords(r.str(v))) },
		"tojson": toJSONFilter,
		"trim": func(r *run, v any, a args) any {
			return stripped(strings.TrimLeftFunc, strings.TrimRightFunc)(r, r.str(v), a)
		},
		"unique": unique,
		"wordcount": func(r *run, v any, a args) any {
			return int64(len(strings.FieldsFunc(r.str(v), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsNumber(c) && c != '_' })))
		},
	}
}

func (r *run) list(v any) *List {
	items := r.each(v)
	r.make(16 * len(items))
	return NewList(append([]any(nil), items...)...)
}

func orDefault(r *run, v any, a args) any {
	b := r.bind("default", a, "default_value?", "boolean?")
	_, none := v.(*undef)
	if none || b[1] != (missing{}) && truth(b[1]) && !truth(v) {
		if b[0] == (missing{}) {
			return ""
		}
		return b[0]
	}
	return v
}

func toFloat(r *run, v any, a args) any {
	d := r.bind("float", a, "default?")[0]
	if f, ok := number(v); ok {
		return f
	}
	if s, ok := v.(string); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(s, space), 64); err == nil {
			return f
		}
	}
	if d == (missing{}) {
		return 0.0
	}
	return d
}

func toInt(r *run, v any, a args) any {
	b := r.bind("int", a, "default?", "base?")
	base := 10
	if b[1] != (missing{}) {
		base = r.index("int", b[1])
	}
	switch v := v.(type) {
	case bool, int64:
		i, _ := whole(v)
		return i
	case bigInt:
		return v
	case float64:
		if math.Abs(v) < 1<<63 {
			return int64(v)
		}
	case string:
		s := strings.TrimFunc(v, space)
		if base == 16 || base == 8 || base == 2 {
			s = strings.TrimPrefix(strings.ToLower(s), map[int]string{16: "0x", 8: "0o", 2: "0b"}[base])
		}
		if base >= 2 && base <= 36 {
			if i, err := strconv.ParseInt(s, base, 64); err == nil {
				return i
			}
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f) < 1<<63 {
			return int64(f)
		}
	}
	if b[0] == (missing{}) {
		return int64(0)
	}
	return b[0]
}

func round(r *run, v any, a args) any {
	b := r.bind("round", a, "precision?", "method?")
	f, ok := number(v)
	if !ok {
		r.failf("round wants a number, got %s", typeName(v))
	}
	p := 0
	if b[0] != (missing{}) {
		p = r.index("round", b[0])
	}
	how := "common"
	if b[1] != (missing{}) {
		how = r.text("round", b[1])
	}
	scale := math.Pow(10, float64(p))
	switch how {
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	case "common":
		// Python rounds the decimal digits, halves to even; so does strconv
		if p >= 0 && p < 300 {
			g, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', p, 64), 64)
			return g
		}
		return math.RoundToEven(f*scale) / scale
	}
	r.failf("round knows no method %s (known: common, ceil, floor)", how)
	return nil
}

func indent(r *run, v any, a args) any {
	b := r.bind("indent", a, "width?", "first?", "blank?")
	by := "    "
	switch w := orNil(b[0]).(type) {
	case nil:
	case string:
		by = w
	default:
		by = r.pad(" ", r.index("indent", w))
	}
	first, blank := b[1] != (missing{}) && truth(b[1]), b[2] != (missing{}) && truth(b[2])
	s := r.str(v)
	var out strings.Builder
	if blank {
		s = r.replace(s, "\n", "\n"+by, -1)
	} else {
		// a line end is added before, so that one at the end of the text stays
		lines := splitLines(r, s+"\n", args{}).(*List).Items
		for i, l := range lines {
			if i > 0 {
				out.WriteByte('\n')
				if l != "" {
					r.grow(&out, by)
				}
			}
			r.grow(&out, l.(string))
		}
		s = out.String()
	}
	if first {
		s = by + s
	}
	return s
}

func toJSONFilter(r *run, v any, a args) any {
	b := r.bind("tojson", a, "ensure_ascii?", "indent?", "separators?", "sort_keys?")
	f := jsonForm{item: ", ", key: ": "}
	f.ascii = b[0] != (missing{}) && truth(b[0])
	switch w := orNil(b[1]).(type) {
	case nil:
	case string:
		f.indent, f.lines, f.item = w, true, ","
	default:
		f.indent, f.lines, f.item = r.pad(" ", r.index("tojson", w)), true, ","
	}
	if s := orNil(b[2]); s != nil {
		pair := r.each(s)
		if len(pair) != 2 {
			r.failf("separators of tojson are two texts")
		}
		f.item, f.key = r.text("tojson", pair[0]), r.text("tojson", pair[1])
	}
	f.sorted = b[3] != (missing{}) && truth(b[3])
	var out strings.Builder
	r.toJSON(&out, v, &f, 0)
	return r.made1(out.String())
}
