package jinja

func (p *parser) expression() expr {
	p.deeper()
	defer p.shallower()
	e := p.or()
	for p.take(tokName, "if") {
		p.branches++
		test := p.or()
		var other expr
		if p.take(tokName, "else") {
			other = p.expression()
		}
		p.branches--
		e = &conditional{test, e, other}
	}
	return e
}

func (p *parser) or() expr {
	e := p.and()
	for p.take(tokName, "or") {
		e = &either{e, p.and()}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for p.take(tokName, "and") {
		e = &both{e, p.not()}
	}
	return e
}

func (p *parser) not() expr {
	if p.take(tokName, "not") {
		p.deeper()
		defer p.shallower()
		return &negation{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	line := p.at().line
	first := p.sum()
	c := &comparison{first: first, line: line}
	for {
		t := p.at()
		switch {
		case t.kind == tokOp && (t.text == "==" || t.text == "!=" || t.text == "<" || t.text == "<=" || t.text == ">" || t.text == ">="):
			p.next()
			c.ops = append(c.ops, t.text)
		case p.take(tokName, "in"):
			c.ops = append(c.ops, "in")
		case p.is(tokName, "not") && p.ahead(1).kind == tokName && p.ahead(1).text == "in":
			p.next()
			p.next()
			c.ops = append(c.ops, "not in")
		default:
			if len(c.ops) == 0 {
				return first
			}
			return c
		}
		c.with = append(c.with, p.sum())
	}
}

func (p *parser) chain(next func() expr, ops ...string) expr {
	line := p.at().line
	e := next()
	for n := 0; ; n++ {
		if n > maxDepth {
			p.failf("an expression has more than %d operators in a row", maxDepth)
		}
		op := ""
		for _, o := range ops {
			if p.take(tokOp, o) {
				op = o
				break
			}
		}
		if op == "" {
			return e
		}
		e = &binary{e, next(), op, line}
	}
}

func (p *parser) sum() expr { return p.chain(p.concat, "+", "-") }

func (p *parser) concat() expr {
	e := p.product()
	if !p.is(tokOp, "~") {
		return e
	}
	c := &concat{parts: []expr{e}}
	for p.take(tokOp, "~") {
		c.parts = append(c.parts, p.product())
	}
	return c
}

func (p *parser) product() expr { return p.chain(p.power, "*", "//", "/", "%") }
func (p *parser) power() expr {
	return p.chain(func() expr { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) expr {
	p.deeper()
	defer p.shallower()
	t := p.at()
	var e expr
	if p.take(tokOp, "-") || p.take(tokOp, "+") {
		e = &signed{p.unary(false), t.text, t.line}
	} else {
		e = p.primary()
	}
	e = p.postfix(e)
	if filters {
		e = p.filters(e)
	}
	return e
}

var constants = map[string]any{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokName:
		if c, ok := constants[t.text]; ok {
			return &constant{c}
		}
		return &variable{t.text, t.line}
	case tokString:
		text := t.text
		for p.at().kind == tokString {
			text += p.next().text
		}
		return &constant{text}
	case tokInt, tokFloat:
		return &constant{t.num}
	case tokOp:
		switch t.text {
		case "(":
			e := p.tuple(")", true)
			p.expect(tokOp, ")")
			return e
		case "[":
			s := &sequence{kind: list}
			for !p.is(tokOp, "]") {
				if len(s.items) > 0 {
					p.expect(tokOp, ",")
					if p.is(tokOp, "]") {
						break
					}
				}
				s.items = append(s.items, p.expression())
			}
			p.next()
			return s
		case "{":
			return p.mapping(t.line)
		}
	}
	p.failAt(t.line, "unexpected %s", t)
	return nil
}

func (p *parser) mapping(line int) expr {
	m := &mapping{line: line}
	for !p.is(tokOp, "}") {
		if len(m.keys) > 0 {
			p.expect(tokOp, ",")
			if p.is(tokOp, "}") {
				break
			}
		}
		m.keys = append(m.keys, p.expression())
		p.expect(tokOp, ":")
		m.values = append(m.values, p.expression())
	}
	p.next()
	return m
}

// tuple parses expressions with commas between; one without a comma is itself.
func (p *parser) tuple(end string, empty bool) expr {
	s := &sequence{kind: tuple}
	comma := false
	for {
		if len(s.items) > 0 && !comma {
			break
		}
		if t := p.at(); t.kind == tokEnd || t.kind == tokPrintEnd || t.kind == tokOp && t.text == end {
			break
		}
		s.items = append(s.items, p.expression())
		comma = p.take(tokOp, ",")
	}
	if len(s.items) == 1 && !comma {
		return s.items[0]
	}
	if len(s.items) == 0 && !empty {
		p.failf("expected an expression, got %s", p.at())
	}
	return s
}

func (p *parser) postfix(e expr) expr {
	for n := 0; ; n++ {
		if n > maxDepth {
			p.failf("an expression has more than %d parts in a row", maxDepth)
		}
		t := p.at()
		switch {
		case p.take(tokOp, "."):
			name := p.next()
			switch name.kind {
			case tokName:
				e = &attrOf{e, name.text, t.line}
			case tokInt:
				e = &itemOf{e, &constant{name.num}, t.line}
			default:
				p.failAt(name.line, "expected a name or a number after a dot, got %s", name)
			}
		case p.take(tokOp, "["):
			e = p.subscript(e, t.line)
		case p.is(tokOp, "("):
			e = &calling{e, p.arguments(), t.line}
		default:
			return e
		}
	}
}

func (p *parser) subscript(of expr, line int) expr {
	var parts [3]expr
	n := 0
	for !p.is(tokOp, "]") {
		if p.take(tokOp, ":") {
			if n++; n > 2 {
				p.failf("a slice has at most three parts")
			}
			continue
		}
		if parts[n] != nil {
			p.failf("expected ], got %s", p.at())
		}
		parts[n] = p.expression()
	}
	p.next()
	if n == 0 {
		if parts[0] == nil {
			p.failAt(line, "expected an index")
		}
		return &itemOf{of, parts[0], line}
	}
	return &sliceOf{of, parts[0], parts[1], parts[2], line}
}

func (p *parser) arguments() arguments {
	var a arguments
	line := p.expect(tokOp, "(").line
	for first := true; !p.is(tokOp, ")"); first = false {
		if !first {
			p.expect(tokOp, ",")
			if p.is(tokOp, ")") {
				break
			}
		}
		ok := a.dblstar == nil
		switch {
		case p.take(tokOp, "*"):
			ok = ok && a.star == nil
			a.star = p.expression()
		case p.take(tokOp, "**"):
			a.dblstar = p.expression()
		case p.at().kind == tokName && p.ahead(1).kind == tokOp && p.ahead(1).text == "=":
			a.names = append(a.names, p.next().text)
			p.next()
			a.named = append(a.named, p.expression())
		default:
			ok = ok && a.star == nil && a.named == nil
			a.pos = append(a.pos, p.expression())
		}
		if !ok {
			p.failAt(line, "arguments of a call are in no valid order")
		}
	}
	p.next()
	return a
}

// filters parses what may follow a value: filters, tests and calls of either.
func (p *parser) filters(e expr) expr {
	for n := 0; ; n++ {
		if n > maxDepth {
			p.failf("an expression has more than %d filters in a row", maxDepth)
		}
		t := p.at()
		switch {
		case p.take(tokOp, "|"):
			e = p.filter(e)
		case p.take(tokName, "is"):
			e = p.test(e, t.line)
		case p.is(tokOp, "("):
			e = &calling{e, p.arguments(), t.line}
		default:
			return e
		}
	}
}

func (p *parser) filter(of expr) expr {
	t := p.expect(tokName, "")
	f := &filtering{of: of, name: t.text, line: t.line}
	if _, ok := filters[f.name]; !ok && p.branches == 0 {
		p.failAt(t.line, "filter %s is not known (known: %s)", f.name, known(filters))
	}
	if p.is(tokOp, "(") {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) test(of expr, line int) expr {
	not := p.take(tokName, "not")
	f := &testOf{of: of, name: p.expect(tokName, "").text, line: line}
	if _, ok := tests[f.name]; !ok && p.branches == 0 {
		p.failAt(line, "test %s is not known (known: %s)", f.name, known(tests))
	}
	switch t := p.at(); {
	case p.is(tokOp, "("):
		f.args = p.arguments()
	case t.kind == tokName && (t.text == "else" || t.text == "or" || t.text == "and"):
	case t.kind == tokName && t.text == "is":
		p.failAt(line, "tests cannot be chained with is")
	case t.kind == tokName || t.kind == tokString || t.kind == tokInt || t.kind == tokFloat || t.kind == tokOp && (t.text == "[" || t.text == "{"):
		f.args.pos = []expr{p.postfix(p.primary())}
	}
	if not {
		return &negation{f}
	}
	return f
}
