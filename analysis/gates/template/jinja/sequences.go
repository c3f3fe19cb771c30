package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// attributes reads a path such as a.b.0 of each value, as map, sort and others take it.
func (r *run) attributes(path any) func(v any) any {
	if i, ok := path.(int64); ok {
		return func(v any) any { return r.item(v, i) }
	}
	var parts []any
	for _, p := range strings.Split(r.text("attribute", path), ".") {
		if i, err := strconv.ParseInt(p, 10, 64); err == nil {
			parts = append(parts, i)
		} else {
			parts = append(parts, p)
		}
	}
	return func(v any) any {
		for _, p := range parts {
			v = r.item(v, p)
		}
		return v
	}
}

// folded is what texts are compared by where case does not count.
func folded(v any, caseSensitive any) any {
	if s, ok := v.(string); ok && (caseSensitive == (missing{}) || !truth(caseSensitive)) {
		return lower(s)
	}
	return v
}

func (r *run) keyed(attribute, caseSensitive any) func(any) any {
	get := func(v any) any { return v }
	if a := orNil(attribute); a != nil {
		get = r.attributes(a)
	}
	return func(v any) any { return folded(get(v), caseSensitive) }
}

func (r *run) less(a, b any) int {
	r.step()
	for _, v := range []any{a, b} {
		if u, ok := v.(*undef); ok {
			r.failf("%s", u.why)
		}
	}
	n, ok := order(a, b)
	if !ok {
		r.failf("'<' is not supported between '%s' and '%s'", typeName(a), typeName(b))
	}
	return n
}

func (r *run) sortBy(p []pair, key func(pair) any) {
	slices.SortStableFunc(p, func(a, b pair) int { return r.less(key(a), key(b)) })
}

func sortFilter(r *run, v any, a args) any {
	b := r.bind("sort", a, "reverse?", "case_sensitive?", "attribute?")
	l := r.list(v)
	key := r.keyed(b[2], b[1])
	down := b[0] != (missing{}) && truth(b[0])
	slices.SortStableFunc(l.Items, func(x, y any) int {
		if down {
			x, y = y, x
		}
		return r.less(key(x), key(y))
	})
	return l
}

func dictSort(r *run, v any, a args) any {
	b := r.bind("dictsort", a, "case_sensitive?", "by?", "reverse?")
	d, ok := v.(*Dict)
	if !ok {
		r.failf("dictsort wants a mapping, got %s", typeName(v))
	}
	of := func(p pair) any { return folded(p.key, b[0]) }
	if by := orNil(b[1]); by == "value" {
		of = func(p pair) any { return folded(p.value, b[0]) }
	} else if by != nil && by != "key" {
		r.failf("dictsort sorts by key or value")
	}
	pairs := slices.Clone(d.pairs)
	down := b[2] != (missing{}) && truth(b[2])
	slices.SortStableFunc(pairs, func(x, y pair) int {
		if down {
			x, y = y, x
		}
		return r.less(of(x), of(y))
	})
	l := NewList()
	for _, p := range pairs {
		l.Items = append(l.Items, &List{tuple, []any{p.key, p.value}})
	}
	return l
}

func (r *run) extreme(v any, a args, sign int) any {
	b := r.bind("max", a, "case_sensitive?", "attribute?")
	items := r.each(v)
	if len(items) == 0 {
		return &undef{"No aggregated item, sequence was empty."}
	}
	key := r.keyed(b[1], b[0])
	best := items[0]
	for _, x := range items[1:] {
		if sign*r.less(key(x), key(best)) > 0 {
			best = x
		}
	}
	return best
}

func unique(r *run, v any, a args) any {
	b := r.bind("unique", a, "case_sensitive?", "attribute?")
	key := r.keyed(b[1], b[0])
	seen := map[string]bool{}
	l := &List{kind: generator}
	for _, x := range r.each(v) {
		h, ok := hash(key(x))
		if !ok {
			r.failf("unhashable value in unique")
		}
		if !seen[h] {
			seen[h] = true
			l.Items = append(l.Items, x)
		}
	}
	return l
}

func groupBy(r *run, v any, a args) any {
	b := r.bind("groupby", a, "attribute", "default?", "case_sensitive?")
	get := r.attributes(b[0])
	with := func(x any) any {
		k := get(x)
		if _, none := k.(*undef); none && b[1] != (missing{}) {
			return b[1]
		}
		return k
	}
	l := r.list(v)
	slices.SortStableFunc(l.Items, func(x, y any) int { return r.less(folded(with(x), b[2]), folded(with(y), b[2])) })
	out := NewList()
	for i := 0; i < len(l.Items); {
		k, j := with(l.Items[i]), i+1
		for j < len(l.Items) && equal(folded(with(l.Items[j]), b[2]), folded(k, b[2])) {
			j++
		}
		out.Items = append(out.Items, &List{tuple, []any{k, NewList(l.Items[i:j]...)}})
		i = j
	}
	return out
}

func sum(r *run, v any, a args) any {
	b := r.bind("sum", a, "attribute?", "start?")
	total := any(int64(0))
	if b[1] != (missing{}) {
		total = b[1]
	}
	get := r.keyed(b[0], true)
	for _, x := range r.each(v) {
		add := binary{&constant{total}, &constant{get(x)}, "+", r.line}
		total = add.eval(r, nil)
	}
	return total
}

func join(r *run, v any, a args) any {
	b := r.bind("join", a, "d?", "attribute?")
	between := ""
	if b[0] != (missing{}) {
		between = r.str(b[0])
	}
	get := r.keyed(b[1], true)
	var out strings.Builder
	for i, x := range r.each(v) {
		r.step()
		if i > 0 {
			r.grow(&out, between)
		}
		r.grow(&out, r.str(get(x)))
	}
	return out.String()
}

func batch(r *run, v any, a args) any {
	b := r.bind("batch", a, "linecount", "fill_with?")
	n := r.index("batch", b[0])
	if n < 1 {
		r.failf("batch wants a positive number")
	}
	out := &List{kind: generator}
	for part := range slices.Chunk(r.list(v).Items, n) {
		l := NewList(slices.Clone(part)...)
		if fill := orNil(b[1]); fill != nil {
			r.make(16 * n)
			for len(l.Items) < n {
				l.Items = append(l.Items, fill)
			}
		}
		out.Items = append(out.Items, l)
	}
	return out
}

// some is each, but of what is false nothing: map, select and their like take None.
func (r *run) some(v any) []any {
	if !truth(v) {
		return nil
	}
	return r.each(v)
}

func mapFilter(r *run, v any, a args) any {
	out := &List{kind: generator}
	items := r.some(v)
	r.make(16 * len(items))
	if len(a.pos) == 0 {
		b := r.bind("map", a, "attribute", "default?")
		get := r.attributes(b[0])
		for _, x := range items {
			y := get(x)
			if _, none := y.(*undef); none && b[1] != (missing{}) {
				y = b[1]
			}
			out.Items = append(out.Items, y)
		}
		return out
	}
	name := r.text("map", a.pos[0])
	a.pos = a.pos[1:]
	r.enter()
	for _, x := range items {
		r.step()
		out.Items = append(out.Items, r.filter(name, x, a))
	}
	r.leave()
	return out
}

func selecting(of string, want, attribute bool) filterFunc {
	return func(r *run, v any, a args) any {
		get := func(v any) any { return v }
		if attribute {
			if len(a.pos) == 0 {
				r.failf("%s wants the name of an attribute", of)
			}
			get = r.attributes(a.pos[0])
			a.pos = a.pos[1:]
		}
		keep := func(v any) bool { return truth(v) }
		if len(a.pos) > 0 {
			name := r.text(of, a.pos[0])
			rest := args{pos: a.pos[1:], names: a.names, named: a.named}
			keep = func(v any) bool { return r.test(name, v, rest) }
		}
		out := &List{kind: generator}
		for _, x := range r.some(v) {
			r.step()
			if keep(get(x)) == want {
				out.Items = append(out.Items, x)
			}
		}
		return out
	}
}
