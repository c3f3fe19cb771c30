package jinja

type forStmt struct {
	target      *target
	over, test  expr
	recursive   bool
	body, empty []stmt
	line        int
}

// loop is the variable of that name.
type loop struct {
	stmt    *forStmt
	scope   *scope // around the loop
	items   []any
	at      int
	depth   int
	changed []any
}

func (f *forStmt) exec(r *run, s *scope) leave {
	r.line = f.line
	f.run(r, s, plain(f.over.eval(r, s)), 0)
	return goOn
}

func (f *forStmt) run(r *run, s *scope, over any, depth int) {
	r.line = f.line
	items := r.each(over)
	if f.test != nil {
		var kept []any
		for _, v := range items {
			r.step()
			in := &scope{up: s}
			r.assign(f.target, v, in)
			if truth(f.test.eval(r, in)) {
				kept = append(kept, v)
			}
		}
		items = kept
	}
	if len(items) == 0 {
		r.body(f.empty, &scope{up: s})
		return
	}
	l := &loop{stmt: f, scope: s, items: items, depth: depth}
	for i, v := range items {
		r.step()
		l.at = i
		in := &scope{up: s}
		in.set("loop", l)
		r.line = f.line
		r.assign(f.target, v, in)
		if r.body(f.body, in) == leaveLoop {
			break
		}
	}
}

func (l *loop) attr(r *run, name string) (any, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.at + 1), true
	case "index0":
		return int64(l.at), true
	case "revindex":
		return int64(n - l.at), true
	case "revindex0":
		return int64(n - l.at - 1), true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(l.depth + 1), true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		if l.at == 0 {
			return &undef{"there is no previous item"}, true
		}
		return l.items[l.at-1], true
	case "nextitem":
		if l.at == n-1 {
			return &undef{"there is no next item"}, true
		}
		return l.items[l.at+1], true
	case "cycle":
		return &function{"cycle", func(r *run, a args) any {
			if len(a.pos) == 0 {
				r.failf("no items for cycling given")
			}
			return a.pos[l.at%len(a.pos)]
		}}, true
	case "changed":
		return &function{"changed", func(r *run, a args) any {
			before := l.changed
			l.changed = a.pos
			if before == nil && a.pos == nil {
				l.changed = []any{}
			}
			return before == nil || !equal(NewList(before...), NewList(a.pos...))
		}}, true
	}
	return nil, false
}

// call goes through the items of a deeper level with the same loop.
func (l *loop) call(r *run, a args) any {
	if !l.stmt.recursive {
		r.failf("the loop is not recursive")
	}
	v := r.bind("loop", a, "iterable")[0]
	return r.capture([]stmt{&deeperLoop{l, v}}, l.scope)
}

type deeperLoop struct {
	l    *loop
	over any
}

func (d *deeperLoop) exec(r *run, s *scope) leave {
	d.l.stmt.run(r, s, d.over, d.l.depth+1)
	return goOn
}
