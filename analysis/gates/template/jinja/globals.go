package jinja

import (
	"fmt"
	"strings"
	"time"
)

// globals are the functions that a template finds without being given them.
var globals map[string]any

func init() {
	globals = map[string]any{}
	for name, f := range map[string]func(r *run, a args) any{
		"range": rangeOf,
		"dict": func(r *run, a args) any {
			d := NewDict()
			if len(a.pos) > 1 {
				r.failf("dict takes at most one value")
			}
			if len(a.pos) == 1 {
				r.update(d, a.pos[0])
			}
			for i, n := range a.names {
				d.put(n, a.named[i])
			}
			return d
		},
		"namespace": func(r *run, a args) any {
			d := NewDict()
			for _, v := range a.pos {
				r.update(d, v)
			}
			for i, n := range a.names {
				d.put(n, a.named[i])
			}
			return &namespace{d}
		},
		"raise_exception": func(r *run, a args) any {
			m := r.bind("raise_exception", a, "message")[0]
			panic(failure{&Raised{r.str(m)}})
		},
		"strftime_now": func(r *run, a args) any {
			return r.strftime(r.text("strftime_now", r.bind("strftime_now", a, "format")[0]), r.now())
		},
		"joiner": func(r *run, a args) any {
			sep := r.bind("joiner", a, "sep?")[0]
			if sep == (missing{}) {
				sep = ", "
			}
			used := false
			return &function{"joiner", func(r *run, a args) any {
				if !used {
					used = true
					return ""
				}
				return sep
			}}
		},
		"self": func(r *run, a args) any {
			r.failf("self is not offered")
			return nil
		},
	} {
		globals[name] = &function{name, f}
	}
}

func (r *run) update(d *Dict, v any) {
	if from, ok := v.(*Dict); ok {
		for _, p := range from.pairs {
			d.put(p.key, p.value)
		}
		return
	}
	for _, x := range r.each(v) {
		p := r.each(x)
		if len(p) != 2 || !d.put(p[0], p[1]) {
			r.failf("a mapping is made of pairs of keys and values")
		}
	}
}

func rangeOf(r *run, a args) any {
	b := r.bind("range", a, "start", "stop?", "step?")
	from, to, step := int64(0), int64(r.index("range", b[0])), int64(1)
	if b[1] != (missing{}) {
		from, to = to, int64(r.index("range", b[1]))
	}
	if b[2] != (missing{}) {
		step = int64(r.index("range", b[2]))
	}
	if step == 0 {
		r.failf("range() arg 3 must not be zero")
	}
	n := max((to-from+step-sign(step))/step, 0)
	if n > maxRange {
		r.failf("a range has more than %d numbers", maxRange)
	}
	r.make(int(16 * n))
	l := &List{kind: span, Items: make([]any, n)}
	for i := range n {
		l.Items[i] = from + i*step
	}
	return l
}

func sign(i int64) int64 {
	if i < 0 {
		return -1
	}
	return 1
}

// strftime is C's, in the C locale.
func (r *run) strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c != '%' || i+1 == len(format) {
			b.WriteByte(c)
			continue
		}
		i++
		plain := format[i] == '-'
		if plain && i+1 < len(format) {
			i++
		}
		s, ok := strftime(format[i], t)
		if !ok {
			r.failf("strftime_now knows no %%%c", format[i])
		}
		if plain {
			if s = strings.TrimLeft(s, "0 "); s == "" {
				s = "0"
			}
		}
		r.grow(&b, s)
	}
	return b.String()
}

func strftime(c byte, t time.Time) (string, bool) {
	layouts := map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'B': "January", 'b': "Jan", 'h': "Jan",
		'A': "Monday", 'a': "Mon", 'y': "06", 'I': "03", 'p': "PM", 'j': "002", 'e': "_2", 'F': "2006-01-02", 'T': "15:04:05",
		'D': "01/02/06", 'R': "15:04", 'Z': "", 'z': "", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05"}
	if l, ok := layouts[c]; ok {
		return t.Format(l), true
	}
	switch c {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 's':
		return fmt.Sprint(t.Unix()), true
	case 'w':
		return fmt.Sprint(int(t.Weekday())), true
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1), true
	}
	return "", false
}
