package jinja

import (
	"strings"
	"time"
)

// stmt is a statement, or text.
type stmt interface {
	exec(r *run, s *scope) leave
}

// leave says how a statement ended.
type leave uint8

const (
	goOn leave = iota
	leaveTurn
	leaveLoop
)

// run is one rendering.
type run struct {
	out   *strings.Builder
	now   func() time.Time
	line  int
	steps int
	made  int
	depth int
}

// scope holds variables. A loop's turn, a macro and a block with an end of its own
// have one; an if has none. They are few in each, so they are looked for in a row.
type scope struct {
	names  []string
	values []any
	fixed  map[string]any // of the outermost scopes
	up     *scope
}

func (s *scope) get(name string) (any, bool) {
	for ; s != nil; s = s.up {
		for i, n := range s.names {
			if n == name {
				return s.values[i], true
			}
		}
		if v, ok := s.fixed[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (s *scope) set(name string, v any) {
	for i, n := range s.names {
		if n == name {
			s.values[i] = v
			return
		}
	}
	s.names, s.values = append(s.names, name), append(s.values, v)
}

// Render renders a template with variables. now is what strftime_now tells.
func (t *Template) Render(vars map[string]any, now func() time.Time) (text string, err error) {
	r := &run{out: &strings.Builder{}, now: now}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			text, err = "", v.err
		default:
			panic(v)
		}
	}()
	s := &scope{up: &scope{fixed: vars, up: &scope{fixed: globals}}}
	r.body(t.body, s)
	return r.out.String(), nil
}

func (r *run) body(b []stmt, s *scope) leave {
	for _, st := range b {
		r.step()
		if l := st.exec(r, s); l != goOn {
			return l
		}
	}
	return goOn
}

func (r *run) write(text string) {
	r.make(len(text))
	if r.out.Len()+len(text) > maxBytes {
		r.failf("a text is longer than %d bytes", maxBytes)
	}
	r.out.WriteString(text)
}

// capture is what a body writes.
func (r *run) capture(b []stmt, s *scope) string {
	out := r.out
	r.out = &strings.Builder{}
	r.enter()
	r.body(b, s)
	r.leave()
	text := r.out.String()
	r.out = out
	return text
}

type (
	data   struct{ text string }
	output struct {
		of   expr
		line int
	}
	ifStmt struct {
		tests  []expr
		lines  []int
		bodies [][]stmt
		other  []stmt
	}
	setStmt struct {
		to *target
		of expr
	}
	setBlock struct {
		to   *target
		with expr // filters; nil: none
		body []stmt
	}
	filterStmt struct {
		with expr
		body []stmt
	}
	withStmt struct {
		targets []*target
		values  []expr
		body    []stmt
	}
	leaveStmt struct{ how leave }
	target    struct {
		name, attr string
		parts      []*target
		line       int
	}
)

func (d *data) exec(r *run, s *scope) leave {
	r.write(d.text)
	return goOn
}

func (o *output) exec(r *run, s *scope) leave {
	r.line = o.line
	v := o.of.eval(r, s)
	r.line = o.line
	r.write(r.str(v))
	return goOn
}

func (i *ifStmt) exec(r *run, s *scope) leave {
	for n, t := range i.tests {
		r.line = i.lines[n]
		if truth(t.eval(r, s)) {
			return r.body(i.bodies[n], s)
		}
	}
	return r.body(i.other, s)
}

func (st *setStmt) exec(r *run, s *scope) leave {
	r.line = st.to.line
	r.assign(st.to, st.of.eval(r, s), s)
	return goOn
}

func (st *setBlock) exec(r *run, s *scope) leave {
	r.line = st.to.line
	var v any = r.capture(st.body, &scope{up: s})
	if st.with != nil {
		v = r.filterText(st.with, v, s)
	}
	r.assign(st.to, v, s)
	return goOn
}

func (st *filterStmt) exec(r *run, s *scope) leave {
	text := r.capture(st.body, &scope{up: s})
	r.write(r.str(r.filterText(st.with, text, s)))
	return goOn
}

// filterText puts a text into a chain of filters that has no value of its own.
func (r *run) filterText(e expr, text any, s *scope) any {
	f := e.(*filtering)
	if f.of != nil {
		text = r.filterText(f.of, text, s)
	}
	r.line = f.line
	return r.filter(f.name, text, r.arguments(&f.args, s))
}

func (st *withStmt) exec(r *run, s *scope) leave {
	in := &scope{up: s}
	for i, t := range st.targets {
		r.assign(t, st.values[i].eval(r, s), in)
	}
	return r.body(st.body, in)
}

func (st *leaveStmt) exec(*run, *scope) leave { return st.how }

func (r *run) assign(t *target, v any, s *scope) {
	if t.parts != nil {
		items := r.each(v)
		if len(items) != len(t.parts) {
			r.failf("cannot unpack %d values into %d names", len(items), len(t.parts))
		}
		for i, p := range t.parts {
			r.assign(p, items[i], s)
		}
		return
	}
	if t.attr == "" {
		s.set(t.name, v)
		return
	}
	o, _ := s.get(t.name)
	ns, ok := o.(*namespace)
	if !ok {
		r.failf("cannot assign attribute %s: %s is no namespace", t.attr, t.name)
	}
	ns.vars.put(t.attr, v)
}
