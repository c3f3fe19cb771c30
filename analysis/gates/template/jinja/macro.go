package jinja

import "fmt"

type macroStmt struct {
	name                   string
	params                 []string
	defaults               []expr
	body                   []stmt
	line                   int
	varargs, kwargs, calls bool // the body names them
}

type callStmt struct {
	caller *macroStmt
	of     *calling
}

// macro is a macro with the variables around it.
type macro struct {
	*macroStmt
	scope *scope
}

// look finds out which of its implicit names a macro uses, by its tokens.
func (m *macroStmt) look(tokens []token) {
	for _, t := range tokens {
		if t.kind == tokName {
			m.varargs = m.varargs || t.text == "varargs"
			m.kwargs = m.kwargs || t.text == "kwargs"
			m.calls = m.calls || t.text == "caller"
		}
	}
}

func (m *macroStmt) exec(r *run, s *scope) leave {
	s.set(m.name, &macro{m, s})
	return goOn
}

func (c *callStmt) exec(r *run, s *scope) leave {
	r.line = c.of.line
	f := c.of.of.eval(r, s)
	a := r.arguments(&c.of.args, s)
	a.add("caller", &macro{c.caller, s})
	r.write(r.str(r.call(f, a)))
	return goOn
}

func (m *macro) call(r *run, a args) any {
	in := &scope{up: m.scope}
	taken := map[string]bool{}
	for i, p := range m.params {
		switch v, named := a.get(p); {
		case i < len(a.pos):
			if named {
				r.failf("macro %s has two values for %s", m.name, p)
			}
			in.set(p, a.pos[i])
		case named:
			in.set(p, v)
		case m.defaults[i] != nil:
			in.set(p, m.defaults[i].eval(r, in))
		default:
			in.set(p, &undef{fmt.Sprintf("parameter '%s' was not provided", p)})
		}
		taken[p] = true
	}
	rest := NewDict()
	var caller any
	for i, n := range a.names {
		switch {
		case taken[n]:
		case n == "caller" && m.calls:
			caller = a.named[i]
		case m.kwargs:
			rest.put(n, a.named[i])
		default:
			r.failf("macro '%s' takes no keyword argument '%s'", m.name, n)
		}
	}
	extra := &List{kind: tuple}
	if len(a.pos) > len(m.params) {
		if extra.Items = a.pos[len(m.params):]; !m.varargs {
			r.failf("macro '%s' takes not more than %d arguments", m.name, len(m.params))
		}
	}
	if m.varargs {
		in.set("varargs", extra)
	}
	if m.kwargs {
		in.set("kwargs", rest)
	}
	if m.calls && !taken["caller"] {
		if caller == nil {
			caller = &undef{"No caller defined"}
		}
		in.set("caller", caller)
	}
	line := r.line
	text := r.capture(m.body, in)
	r.line = line
	return text
}
