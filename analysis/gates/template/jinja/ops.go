package jinja

import (
	"math"
	"math/bits"
	"strings"
)

func (r *run) compare(op string, a, b any) bool {
	switch op {
	case "==":
		return equal(a, b)
	case "!=":
		return !equal(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	}
	for _, v := range []any{a, b} {
		if u, ok := v.(*undef); ok {
			r.failf("%s", u.why)
		}
	}
	n, ok := order(a, b)
	if !ok {
		r.failf("'%s' is not supported between '%s' and '%s'", op, typeName(a), typeName(b))
	}
	if x, _ := number(a); math.IsNaN(x) {
		return false
	}
	if y, _ := number(b); math.IsNaN(y) {
		return false
	}
	switch op {
	case "<":
		return n < 0
	case "<=":
		return n <= 0
	case ">":
		return n > 0
	}
	return n >= 0
}

func (r *run) contains(in, v any) bool {
	switch in := in.(type) {
	case string:
		s, ok := v.(string)
		if !ok {
			r.failf("'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(in, s)
	case *Dict:
		_, ok := in.lookup(v)
		return ok
	case *List, *undef:
		for _, x := range r.each(in) {
			r.step()
			if equal(x, v) {
				return true
			}
		}
		return false
	}
	r.failf("argument of type '%s' is not iterable", typeName(in))
	return false
}

func (g *signed) eval(r *run, s *scope) any {
	v := g.of.eval(r, s)
	r.line = g.line
	switch v := v.(type) {
	case *undef:
		r.failf("%s", v.why)
	case float64:
		if g.op == "-" {
			return -v
		}
		return v
	}
	i, ok := whole(v)
	if !ok {
		r.failf("bad operand type for unary %s: '%s'", g.op, typeName(v))
	}
	if g.op == "-" {
		return -i
	}
	return i
}

func (b *binary) eval(r *run, s *scope) any {
	r.step()
	x, y := b.left.eval(r, s), b.right.eval(r, s)
	r.line = b.line
	if b.op == "+" {
		if v, ok := r.plusMarked(x, y); ok {
			return v
		}
	}
	r.unmarked(x)
	r.unmarked(y)
	for _, v := range []any{x, y} {
		if u, ok := v.(*undef); ok {
			r.failf("%s", u.why)
		}
	}
	if i, ok := whole(x); ok {
		if j, ok := whole(y); ok {
			return r.integers(b.op, i, j)
		}
	}
	if f, ok := number(x); ok {
		if g, ok := number(y); ok {
			return r.floats(b.op, f, g)
		}
	}
	switch b.op {
	case "+":
		return r.plus(x, y)
	case "*":
		if n, ok := whole(x); ok {
			return r.times(y, n)
		}
		if n, ok := whole(y); ok {
			return r.times(x, n)
		}
	case "%":
		if f, ok := x.(string); ok {
			if t, ok := y.(*List); ok && t.kind == tuple {
				return r.printf(f, t.Items, nil)
			}
			d, _ := y.(*Dict)
			return r.printf(f, []any{y}, d)
		}
	}
	r.failf("unsupported operand types for %s: '%s' and '%s'", b.op, typeName(x), typeName(y))
	return nil
}

func (r *run) plus(x, y any) any {
	switch a := x.(type) {
	case string:
		if b, ok := y.(string); ok {
			r.make(len(a) + len(b))
			return a + b
		}
		r.failf(`can only concatenate str (not "%s") to str`, typeName(y))
	case *List:
		if b, ok := y.(*List); ok && a.kind == b.kind && a.kind <= tuple {
			r.make(16 * (len(a.Items) + len(b.Items)))
			return &List{kind: a.kind, Items: append(append([]any(nil), a.Items...), b.Items...)}
		}
	}
	r.failf("unsupported operand types for +: '%s' and '%s'", typeName(x), typeName(y))
	return nil
}

func (r *run) times(v any, n int64) any {
	n = max(n, 0)
	size := func(one int) int {
		hi, lo := bits.Mul64(uint64(one), uint64(n))
		if hi != 0 || lo > maxBytes {
			r.failf("a value is larger than %d bytes", maxBytes)
		}
		r.make(int(lo))
		return int(n)
	}
	switch v := v.(type) {
	case string:
		return strings.Repeat(v, size(len(v)))
	case *List:
		if v.kind <= tuple {
			l := &List{kind: v.kind}
			for k := size(16 * len(v.Items)); k > 0 && len(v.Items) > 0; k-- {
				l.Items = append(l.Items, v.Items...)
			}
			return l
		}
	}
	r.failf("can't multiply '%s' by a number", typeName(v))
	return nil
}

func (r *run) integers(op string, i, j int64) any {
	over := func(bad bool) {
		if bad {
			r.failf("%d %s %d is too large", i, op, j)
		}
	}
	switch op {
	case "+":
		over(j > 0 && i > math.MaxInt64-j || j < 0 && i < math.MinInt64-j)
		return i + j
	case "-":
		over(j < 0 && i > math.MaxInt64+j || j > 0 && i < math.MinInt64+j)
		return i - j
	case "*":
		p := i * j
		over(i != 0 && (p/i != j || i == -1 && j == math.MinInt64))
		return p
	case "**":
		return r.power(i, j)
	}
	if j == 0 {
		r.failf("division by zero")
	}
	switch op {
	case "/":
		return float64(i) / float64(j)
	case "//":
		over(i == math.MinInt64 && j == -1)
		q := i / j
		if i%j != 0 && (i < 0) != (j < 0) {
			q--
		}
		return q
	}
	if j == -1 {
		return int64(0)
	}
	m := i % j
	if m != 0 && (m < 0) != (j < 0) {
		m += j
	}
	return m
}

func (r *run) power(i, j int64) any {
	if j < 0 {
		if i == 0 {
			r.failf("division by zero")
		}
		return math.Pow(float64(i), float64(j))
	}
	if i == 0 || i == 1 || i == -1 {
		if j == 0 || i == 1 || i == -1 && j%2 == 0 {
			return int64(1)
		}
		return i
	}
	p := int64(1)
	for range j {
		q := p * i
		if q/i != p {
			r.failf("%d ** %d is too large", i, j)
		}
		p = q
	}
	return p
}

func (r *run) floats(op string, x, y float64) any {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "**":
		if x == 0 && y < 0 || x < 0 && y != math.Trunc(y) {
			r.failf("%v ** %v is no number", x, y)
		}
		return math.Pow(x, y)
	}
	if y == 0 {
		r.failf("division by zero")
	}
	if op == "/" {
		return x / y
	}
	m := math.Mod(x, y)
	if m != 0 && (m < 0) != (y < 0) {
		m += y
	}
	if op == "//" {
		q := (x - m) / y
		if f := math.Floor(q); q-f > 0.5 {
			return f + 1
		}
		return math.Floor(q)
	}
	return m
}
