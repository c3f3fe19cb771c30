package jinja

import (
	"strings"
	"unicode/utf8"
)

// eval takes a slice as Python does: negative places count from the end, those beyond
// are the ends.
func (q *sliceOf) eval(r *run, s *scope) any {
	r.step()
	o := q.of.eval(r, s)
	r.unmarked(o)
	part := func(e expr) (int64, bool) {
		if e == nil {
			return 0, false
		}
		v := e.eval(r, s)
		if v == nil {
			return 0, false
		}
		i, ok := whole(v)
		if !ok {
			r.failf("slice indices must be integers or None, not %s", typeName(v))
		}
		return i, true
	}
	from, hasFrom := part(q.from)
	to, hasTo := part(q.to)
	step, hasStep := part(q.step)
	if !hasStep {
		step = 1
	}
	r.line = q.line
	if step == 0 {
		r.failf("slice step cannot be zero")
	}
	var n int
	switch o := o.(type) {
	case string:
		n = utf8.RuneCountInString(o)
	case *List:
		if o.kind <= tuple || o.kind == span {
			n = len(o.Items)
			break
		}
		r.failf("'%s' object cannot be sliced", typeName(o))
	case *undef:
		r.failf("%s", o.why)
	default:
		return &undef{objectName(o) + " cannot be sliced"}
	}
	at := places(int64(n), from, to, step, hasFrom, hasTo)
	r.make(16 * len(at))
	if l, ok := o.(*List); ok {
		out := &List{kind: l.kind, Items: make([]any, len(at))}
		for i, p := range at {
			out.Items[i] = l.Items[p]
		}
		return out
	}
	return pick(o.(string), at)
}

func places(n, from, to, step int64, hasFrom, hasTo bool) []int {
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	clamp := func(i int64) int64 {
		if i < 0 {
			if i < -n {
				return low
			}
			i += n
		}
		return min(max(i, low), high)
	}
	first, end := low, high
	if step < 0 {
		first, end = high, low
	}
	if hasFrom {
		first = clamp(from)
	}
	if hasTo {
		end = clamp(to)
	}
	var out []int
	for i := first; step > 0 && i < end || step < 0 && i > end; {
		out = append(out, int(i))
		if step > n || -step > n {
			break
		}
		i += step
	}
	return out
}

// pick takes code points out of a text; bytes that are none count as one each.
func pick(s string, at []int) string {
	if len(at) == 0 {
		return ""
	}
	var starts []int
	for i := 0; i < len(s); {
		starts = append(starts, i)
		_, n := utf8.DecodeRuneInString(s[i:])
		i += n
	}
	starts = append(starts, len(s))
	var b strings.Builder
	for _, p := range at {
		b.WriteString(s[starts[p]:starts[p+1]])
	}
	return b.String()
}

func runeAt(s string, i int64) (string, bool) {
	n := int64(utf8.RuneCountInString(s))
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return "", false
	}
	return pick(s, []int{int(i)}), true
}
