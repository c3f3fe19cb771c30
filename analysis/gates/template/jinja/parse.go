package jinja

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// parser makes a tree of tokens. It carries errors by panic; Parse recovers them.
type parser struct {
	tokens []token
	pos    int
	depth  int
	loops  int // around this place, within this macro
	// branches are the conditions around this place. As in Jinja, a filter that is not
	// known is refused within them only when it is reached.
	branches int
}

// Template is a parsed template. It may be used from many goroutines.
type Template struct {
	body  []stmt
	names map[string]bool
}

// Parse reads a template. Tags, filters and tests that are not offered are refused
// by their names.
func Parse(text string) (t *Template, err error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("is longer than %d bytes", maxBytes)
	}
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			t, err = nil, v.err
		default:
			panic(v)
		}
	}()
	body, end := p.body()
	if end != "" {
		p.failf("unexpected tag %s", end)
	}
	names := map[string]bool{}
	for _, t := range tokens {
		if t.kind == tokName {
			names[t.text] = true
		}
	}
	return &Template{body, names}, nil
}

// Names tells whether a name occurs in the template, as a variable, an attribute or
// otherwise.
func (t *Template) Names(name string) bool { return t.names[name] }

func (p *parser) failAt(line int, format string, a ...any) {
	panic(failure{fmt.Errorf("line %d: "+format, append([]any{line}, a...)...)})
}

func (p *parser) failf(format string, a ...any) { p.failAt(p.at().line, format, a...) }

func (p *parser) deeper() {
	if p.depth++; p.depth > maxDepth {
		p.failf("expressions or blocks are nested more than %d times", maxDepth)
	}
}

func (p *parser) shallower() { p.depth-- }

func (p *parser) at() token { return p.tokens[p.pos] }

func (p *parser) ahead(n int) token { return p.tokens[min(p.pos+n, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) is(k tokenKind, text string) bool {
	t := p.at()
	return t.kind == k && t.text == text
}

func (p *parser) take(k tokenKind, text string) bool {
	if p.is(k, text) {
		p.next()
		return true
	}
	return false
}

// expect takes a token of a kind, and of a text unless that is empty.
func (p *parser) expect(k tokenKind, text string) token {
	t := p.next()
	if t.kind != k || text != "" && t.text != text {
		want := text
		if want == "" {
			want = "a name"
		}
		p.failAt(t.line, "expected %s, got %s", want, t)
	}
	return t
}

func known[T any](m map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// body parses up to one of the tags that end it, whose name it returns, or to the
// end of the template. The tag's other tokens are left.
func (p *parser) body(ends ...string) ([]stmt, string) {
	p.deeper()
	defer p.shallower()
	var out []stmt
	for {
		t := p.next()
		switch t.kind {
		case tokEOF:
			if len(ends) > 0 {
				p.failAt(t.line, "expected tag %s, got %s", strings.Join(ends, " or "), t)
			}
			return out, ""
		case tokData:
			out = append(out, &data{t.text})
		case tokPrint:
			e := p.tuple("", false)
			p.expect(tokPrintEnd, "}}")
			out = append(out, &output{e, t.line})
		case tokBegin:
			name := p.expect(tokName, "")
			if slices.Contains(ends, name.text) {
				return out, name.text
			}
			if strings.HasPrefix(name.text, "end") || name.text == "else" || name.text == "elif" {
				if len(ends) > 0 {
					p.failAt(name.line, "expected tag %s, got %s", strings.Join(ends, " or "), name.text)
				}
				p.failAt(name.line, "unexpected tag %s", name.text)
			}
			out = append(out, p.statement(name))
		}
	}
}

// block is a body with one end, the tag's end taken.
func (p *parser) block(end string) []stmt {
	p.expect(tokEnd, "%}")
	b, _ := p.body(end)
	p.expect(tokEnd, "%}")
	return b
}

// tags are those that begin a statement.
var tags map[string]func(p *parser, line int) stmt

func init() {
	tags = map[string]func(p *parser, line int) stmt{
		"for": (*parser).forTag, "if": (*parser).ifTag, "set": (*parser).setTag, "macro": (*parser).macroTag,
		"call": (*parser).callTag, "filter": (*parser).filterTag, "with": (*parser).withTag,
		"generation": (*parser).generationTag, "break": (*parser).breakTag, "continue": (*parser).continueTag,
	}
}

func (p *parser) statement(name token) stmt {
	if f, ok := tags[name.text]; ok {
		return f(p, name.line)
	}
	p.failAt(name.line, "tag %s is not offered (offered: %s, raw)", name.text, known(tags))
	return nil
}

func (p *parser) ifTag(line int) stmt {
	s := &ifStmt{}
	p.branches++
	defer func() { p.branches-- }()
	for end := "elif"; end == "elif"; {
		s.tests = append(s.tests, p.tupleUntilEnd())
		s.lines = append(s.lines, p.at().line)
		p.expect(tokEnd, "%}")
		var b []stmt
		b, end = p.body("elif", "else", "endif")
		s.bodies = append(s.bodies, b)
		if end == "else" {
			s.other = p.block("endif")
			return s
		}
	}
	p.expect(tokEnd, "%}")
	return s
}

func (p *parser) tupleUntilEnd() expr { return p.tuple("", false) }

func (p *parser) forTag(line int) stmt {
	s := &forStmt{line: line, target: p.target(false)}
	p.expect(tokName, "in")
	// the list of a loop takes no "if" of its own: that one filters
	s.over = p.orTuple()
	if p.take(tokName, "if") {
		s.test = p.expression()
	}
	s.recursive = p.take(tokName, "recursive")
	p.expect(tokEnd, "%}")
	p.loops++
	b, end := p.body("else", "endfor")
	p.loops--
	s.body = b
	if end == "else" {
		s.empty = p.block("endfor")
		return s
	}
	p.expect(tokEnd, "%}")
	return s
}

func (p *parser) orTuple() expr {
	e := p.or()
	if !p.is(tokOp, ",") {
		return e
	}
	s := &sequence{kind: tuple, items: []expr{e}}
	for p.take(tokOp, ",") {
		if p.at().kind == tokEnd || p.is(tokName, "if") || p.is(tokName, "recursive") {
			break
		}
		s.items = append(s.items, p.or())
	}
	return s
}

// target is what an assignment or a loop sets: names, in tuples of any depth, and
// where spaces is true an attribute of a namespace.
func (p *parser) target(spaces bool) *target {
	p.deeper()
	defer p.shallower()
	one := func() *target {
		if p.take(tokOp, "(") {
			t := p.target(spaces)
			p.expect(tokOp, ")")
			return t
		}
		t := p.expect(tokName, "")
		if _, ok := constants[t.text]; ok {
			p.failAt(t.line, "cannot assign to %s", t.text)
		}
		if spaces && p.take(tokOp, ".") {
			return &target{name: t.text, attr: p.expect(tokName, "").text, line: t.line}
		}
		return &target{name: t.text, line: t.line}
	}
	first := one()
	if !p.is(tokOp, ",") {
		return first
	}
	t := &target{parts: []*target{first}, line: first.line}
	for p.take(tokOp, ",") {
		if n := p.at(); n.kind != tokName && !p.is(tokOp, "(") || n.text == "in" {
			break
		}
		t.parts = append(t.parts, one())
	}
	return t
}

func (p *parser) setTag(line int) stmt {
	t := p.target(true)
	if p.take(tokOp, "=") {
		s := &setStmt{t, p.tupleUntilEnd()}
		p.expect(tokEnd, "%}")
		return s
	}
	var f expr
	for p.take(tokOp, "|") {
		f = p.filter(f)
	}
	return &setBlock{t, f, p.inner(func() []stmt { return p.block("endset") })}
}

// inner parses a body that a loop outside of it cannot be left from.
func (p *parser) inner(f func() []stmt) []stmt {
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	return f()
}

func (p *parser) signature() (names []string, defaults []expr) {
	p.expect(tokOp, "(")
	for first := true; !p.is(tokOp, ")"); first = false {
		if !first {
			p.expect(tokOp, ",")
		}
		n := p.expect(tokName, "")
		var d expr
		if p.take(tokOp, "=") {
			d = p.expression()
		} else if len(defaults) > 0 && defaults[len(defaults)-1] != nil {
			p.failAt(n.line, "parameter %s without a default follows one with a default", n.text)
		}
		names, defaults = append(names, n.text), append(defaults, d)
	}
	p.next()
	return names, defaults
}

func (p *parser) macroTag(line int) stmt {
	m := &macroStmt{name: p.expect(tokName, "").text, line: line}
	m.params, m.defaults = p.signature()
	start := p.pos
	m.body = p.inner(func() []stmt { return p.block("endmacro") })
	m.look(p.tokens[start:p.pos])
	return m
}

func (p *parser) callTag(line int) stmt {
	m := &macroStmt{name: "caller", line: line}
	if p.is(tokOp, "(") {
		m.params, m.defaults = p.signature()
	}
	c, ok := p.expression().(*calling)
	if !ok {
		p.failAt(line, "tag call is not followed by a call")
	}
	start := p.pos
	m.body = p.inner(func() []stmt { return p.block("endcall") })
	m.look(p.tokens[start:p.pos])
	return &callStmt{m, c}
}

func (p *parser) filterTag(line int) stmt {
	f := p.filter(nil)
	for p.take(tokOp, "|") {
		f = p.filter(f)
	}
	return &filterStmt{f, p.inner(func() []stmt { return p.block("endfilter") })}
}

func (p *parser) withTag(line int) stmt {
	w := &withStmt{}
	for p.at().kind != tokEnd {
		if len(w.targets) > 0 {
			p.expect(tokOp, ",")
		}
		w.targets = append(w.targets, p.target(false))
		p.expect(tokOp, "=")
		w.values = append(w.values, p.expression())
	}
	w.body = p.block("endwith")
	return w
}

func (p *parser) generationTag(line int) stmt {
	return &withStmt{body: p.inner(func() []stmt { return p.block("endgeneration") })}
}

func (p *parser) breakTag(line int) stmt    { return p.leaving(leaveLoop) }
func (p *parser) continueTag(line int) stmt { return p.leaving(leaveTurn) }

func (p *parser) leaving(l leave) stmt {
	if p.loops == 0 {
		p.failf("%s outside of a loop", map[leave]string{leaveLoop: "break", leaveTurn: "continue"}[l])
	}
	p.expect(tokEnd, "%}")
	return &leaveStmt{l}
}
