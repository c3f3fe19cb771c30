package jinja

import (
	"fmt"
	"strings"
)

func (c *constant) eval(r *run, s *scope) any { return c.value }

func (v *variable) eval(r *run, s *scope) any {
	r.step()
	if x, ok := s.get(v.name); ok {
		return x
	}
	return &undef{fmt.Sprintf("'%s' is undefined", v.name)}
}

func (a *attrOf) eval(r *run, s *scope) any {
	r.step()
	o := a.of.eval(r, s)
	r.line = a.line
	r.unmarked(o)
	return r.attr(o, a.name)
}

func (i *itemOf) eval(r *run, s *scope) any {
	r.step()
	o, k := i.of.eval(r, s), plain(i.key.eval(r, s))
	r.line = i.line
	r.unmarked(o)
	return r.item(o, k)
}

func (c *conditional) eval(r *run, s *scope) any {
	r.step()
	if truth(c.test.eval(r, s)) {
		return c.then.eval(r, s)
	}
	if c.other == nil {
		return &undef{"the inline if-expression evaluated to false and no else section was defined."}
	}
	return c.other.eval(r, s)
}

func (b *both) eval(r *run, s *scope) any {
	if l := b.left.eval(r, s); !truth(l) {
		return l
	}
	return b.right.eval(r, s)
}

func (e *either) eval(r *run, s *scope) any {
	if l := e.left.eval(r, s); truth(l) {
		return l
	}
	return e.right.eval(r, s)
}

func (n *negation) eval(r *run, s *scope) any { return !truth(n.of.eval(r, s)) }

func (c *concat) eval(r *run, s *scope) any {
	var b strings.Builder
	for _, p := range c.parts {
		text := r.str(p.eval(r, s))
		r.make(b.Len() + len(text))
		b.WriteString(text)
	}
	return b.String()
}

func (c *comparison) eval(r *run, s *scope) any {
	r.step()
	left := plain(c.first.eval(r, s))
	for i, op := range c.ops {
		right := plain(c.with[i].eval(r, s))
		r.line = c.line
		if !r.compare(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (q *sequence) eval(r *run, s *scope) any {
	r.make(16 * len(q.items))
	l := &List{kind: q.kind, Items: make([]any, len(q.items))}
	for i, e := range q.items {
		l.Items[i] = plain(e.eval(r, s))
	}
	return l
}

func (m *mapping) eval(r *run, s *scope) any {
	r.make(64 * len(m.keys))
	d := NewDict()
	for i, k := range m.keys {
		key, v := plain(k.eval(r, s)), plain(m.values[i].eval(r, s))
		if r.line = m.line; !d.put(key, v) {
			r.failf("a %s cannot be a key", typeName(key))
		}
	}
	return d
}

func (f *filtering) eval(r *run, s *scope) any {
	r.step()
	v := f.of.eval(r, s)
	a := r.arguments(&f.args, s)
	r.line = f.line
	return r.filter(f.name, v, a)
}

func (t *testOf) eval(r *run, s *scope) any {
	r.step()
	v := plain(t.of.eval(r, s))
	a := r.arguments(&t.args, s)
	r.line = t.line
	return r.test(t.name, v, a)
}

func (c *calling) eval(r *run, s *scope) any {
	r.step()
	f := c.of.eval(r, s)
	a := r.arguments(&c.args, s)
	r.line = c.line
	return r.call(f, a)
}

// args are what a call brings.
type args struct {
	pos   []any
	names []string
	named []any
}

func (a *args) add(name string, v any) {
	a.names, a.named = append(a.names, name), append(a.named, v)
}

func (a args) get(name string) (any, bool) {
	for i, n := range a.names {
		if n == name {
			return a.named[i], true
		}
	}
	return nil, false
}

func (r *run) arguments(of *arguments, s *scope) args {
	var a args
	for _, e := range of.pos {
		a.pos = append(a.pos, plain(e.eval(r, s)))
	}
	if of.star != nil {
		a.pos = append(a.pos, r.each(of.star.eval(r, s))...)
	}
	for i, e := range of.named {
		a.add(of.names[i], plain(e.eval(r, s)))
	}
	if of.dblstar != nil {
		d, ok := of.dblstar.eval(r, s).(*Dict)
		if !ok {
			r.failf("what follows ** is no mapping")
		}
		for _, p := range d.pairs {
			name, ok := p.key.(string)
			if !ok {
				r.failf("a keyword is no text")
			}
			a.add(name, p.value)
		}
	}
	return a
}

// missing is the value of an optional parameter that was not given.
type missing struct{}

// bind gives arguments to parameters. One that ends in ? is optional and then
// missing.
func (r *run) bind(of string, a args, params ...string) []any {
	out := make([]any, len(params))
	if len(a.pos) > len(params) {
		r.failf("%s takes at most %d arguments, got %d", of, len(params), len(a.pos))
	}
	used := 0
	for i, p := range params {
		name, optional := strings.CutSuffix(p, "?")
		v, named := a.get(name)
		switch {
		case i < len(a.pos):
			out[i] = a.pos[i]
			if named {
				r.failf("%s has two values for %s", of, name)
			}
		case named:
			out[i] = v
			used++
		case optional:
			out[i] = missing{}
		default:
			r.failf("%s wants an argument %s", of, name)
		}
	}
	if used < len(a.names) {
		for _, n := range a.names {
			found := false
			for _, p := range params {
				found = found || strings.TrimSuffix(p, "?") == n
			}
			if !found {
				r.failf("%s takes no argument %s", of, n)
			}
		}
	}
	return out
}

func (r *run) call(f any, a args) any {
	r.enter()
	defer r.leave()
	switch f := f.(type) {
	case *function:
		return f.call(r, a)
	case *macro:
		return f.call(r, a)
	case *loop:
		return f.call(r, a)
	case *undef:
		r.failf("%s", f.why)
	}
	r.failf("'%s' object is not callable", typeName(f))
	return nil
}

// attr is o.name: what Python's type has of that name, then an item.
func (r *run) attr(o any, name string) any {
	switch o := o.(type) {
	case *undef:
		r.failf("%s", o.why)
	case *namespace:
		if v, ok := o.vars.lookup(name); ok {
			return v
		}
	case *loop:
		if v, ok := o.attr(r, name); ok {
			return v
		}
	case *macro:
		if name == "name" {
			return o.name
		}
	}
	if m := r.method(o, name); m != nil {
		return m
	}
	if d, ok := o.(*Dict); ok {
		if v, ok := d.lookup(name); ok {
			return v
		}
	}
	return r.noAttr(o, name)
}

func (r *run) noAttr(o any, name string) any {
	if strings.HasPrefix(name, "__") {
		return &undef{fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe", name, typeName(o))}
	}
	return &undef{fmt.Sprintf("'%s' has no attribute '%s'", objectName(o), name)}
}

func objectName(o any) string {
	if o == nil {
		return "None"
	}
	return typeName(o) + " object"
}

// item is o[key], and an attribute where a text is no key.
func (r *run) item(o, key any) any {
	switch o := o.(type) {
	case *undef:
		r.failf("%s", o.why)
	case *Dict:
		if v, ok := o.lookup(key); ok {
			return v
		}
	case *List:
		if i, ok := whole(key); ok && (o.kind <= tuple || o.kind == span) {
			n := int64(len(o.Items))
			if i < 0 {
				i += n
			}
			if i >= 0 && i < n {
				return o.Items[i]
			}
			return &undef{fmt.Sprintf("%s has no element %d", objectName(o), i)}
		}
	case string:
		if i, ok := whole(key); ok {
			if c, ok := runeAt(o, i); ok {
				return c
			}
			return &undef{fmt.Sprintf("str object has no element %d", i)}
		}
	}
	if name, ok := key.(string); ok {
		if l, is := o.(*loop); is {
			if v, ok := l.attr(r, name); ok {
				return v
			}
		}
		if ns, is := o.(*namespace); is {
			if v, ok := ns.vars.lookup(name); ok {
				return v
			}
		}
		if m := r.method(o, name); m != nil {
			return m
		}
		return r.noAttr(o, name)
	}
	return &undef{fmt.Sprintf("%s has no element of type %s", objectName(o), typeName(key))}
}
