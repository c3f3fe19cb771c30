package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pattern is a compiled split pattern: alternatives in order, each a sequence of
// items. Repetition is greedy and gives back what a later item needs, as in
// Oniguruma, which the tokenizers library uses.
type pattern struct{ alts [][]item }

// item is one thing that repeats.
type item struct {
	min, max int // max < 0: any number
	set      *class
	group    *pattern // where set is nil
	ahead    bool     // looks only; not: must not match
	not      bool
	possess  bool // gives nothing back
}

// class is a set of runes.
type class struct {
	negated bool
	runes   []rune
	ranges  [][2]rune
	tables  []*unicode.RangeTable
	without []*class // members by what is not in another class: \P{…}, \S
	fold    bool
}

func (c *class) has(r rune) bool { return c.holds(r) != c.negated }

func (c *class) holds(r rune) bool {
	if c.one(r) {
		return true
	}
	if c.fold {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			if c.one(f) {
				return true
			}
		}
	}
	return false
}

func (c *class) one(r rune) bool {
	for _, m := range c.runes {
		if m == r {
			return true
		}
	}
	for _, m := range c.ranges {
		if m[0] <= r && r <= m[1] {
			return true
		}
	}
	for _, t := range c.tables {
		if unicode.Is(t, r) {
			return true
		}
	}
	for _, o := range c.without {
		if !o.holds(r) {
			return true
		}
	}
	return false
}

// match is the length of the match at the start of s; ok is false for none.
func (p *pattern) match(s string, at int) (end int, ok bool) {
	for _, a := range p.alts {
		if e, ok := run(s, at, a, nil); ok {
			return e, true
		}
	}
	return 0, false
}

// run matches items from a place on and calls then, where there is one, with the
// end; a false from it makes the repetition give something back.
func run(s string, at int, items []item, then func(int) (int, bool)) (int, bool) {
	if len(items) == 0 {
		if then == nil {
			return at, true
		}
		return then(at)
	}
	it, rest := &items[0], items[1:]
	switch {
	case it.ahead:
		if _, found := it.group.match(s, at); found == it.not {
			return 0, false
		}
		return run(s, at, rest, then)
	case it.set != nil:
		return it.runSet(s, at, rest, then)
	}
	return it.runGroup(s, at, 0, rest, then)
}

// runSet repeats a class: as often as it goes, then less and less.
func (it *item) runSet(s string, at int, rest []item, then func(int) (int, bool)) (int, bool) {
	n, end := 0, at
	for (it.max < 0 || n < it.max) && end < len(s) {
		r, size := utf8.DecodeRuneInString(s[end:])
		if !it.set.has(r) {
			break
		}
		end += size
		n++
	}
	for {
		if n < it.min {
			return 0, false
		}
		if e, ok := run(s, end, rest, then); ok {
			return e, true
		}
		if it.possess || n == it.min {
			return 0, false
		}
		_, size := utf8.DecodeLastRuneInString(s[at:end])
		end -= size
		n--
	}
}

// runGroup repeats a group.
func (it *item) runGroup(s string, at, n int, rest []item, then func(int) (int, bool)) (int, bool) {
	if it.max < 0 || n < it.max {
		for _, a := range it.group.alts {
			e, ok := run(s, at, a, func(end int) (int, bool) {
				if end == at && n >= it.min {
					return 0, false
				}
				return it.runGroup(s, end, n+1, rest, then)
			})
			if ok {
				return e, true
			}
		}
	}
	if n < it.min {
		return 0, false
	}
	return run(s, at, rest, then)
}

// compile reads a pattern. Errors name the piece that is not known.
func compile(text string) (*pattern, error) {
	c := &compiler{text: text, rest: text}
	p, err := c.alternatives(false, 0)
	if err != nil {
		return nil, fmt.Errorf("split pattern %q: %w", text, err)
	}
	if c.rest != "" {
		return nil, fmt.Errorf("split pattern %q: %q is not opened", text, ")")
	}
	return p, nil
}

type compiler struct{ text, rest string }

// maxNesting bounds the groups within groups.
const maxNesting = 16

func (c *compiler) alternatives(fold bool, depth int) (*pattern, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("groups nest more than %d deep", maxNesting)
	}
	p := &pattern{}
	var seq []item
	for {
		switch {
		case c.rest == "" || c.rest[0] == ')':
			p.alts = append(p.alts, seq)
			return p, nil
		case c.rest[0] == '|':
			p.alts, seq = append(p.alts, seq), nil
			c.rest = c.rest[1:]
			continue
		}
		it, err := c.item(fold, depth)
		if err != nil {
			return nil, err
		}
		seq = append(seq, it)
	}
}

func (c *compiler) item(fold bool, depth int) (item, error) {
	it := item{min: 1, max: 1}
	var err error
	switch {
	case c.rest[0] == '(':
		if err = c.group(&it, fold, depth); err != nil {
			return it, err
		}
		if it.ahead {
			return it, nil
		}
	case c.rest[0] == '[':
		it.set, err = c.set(fold)
	default:
		it.set, err = c.single(fold)
	}
	if err != nil {
		return it, err
	}
	return it, c.repeat(&it)
}

func (c *compiler) group(it *item, fold bool, depth int) error {
	prefix := ""
	for _, p := range []string{"(?i:", "(?:", "(?!", "(?="} {
		if strings.HasPrefix(c.rest, p) {
			prefix = p
		}
	}
	switch {
	case prefix == "" && strings.HasPrefix(c.rest, "(?"):
		return fmt.Errorf("group %q is not known", c.rest[:min(4, len(c.rest))])
	case prefix == "":
		prefix = "("
	case prefix == "(?i:":
		fold = true
	case prefix == "(?!":
		it.ahead, it.not = true, true
	case prefix == "(?=":
		it.ahead = true
	}
	c.rest = c.rest[len(prefix):]
	g, err := c.alternatives(fold, depth+1)
	if err != nil {
		return err
	}
	if c.rest == "" {
		return fmt.Errorf("a group is not closed")
	}
	c.rest = c.rest[1:]
	it.group = g
	return nil
}

// single is one rune, an escape or a dot.
func (c *compiler) single(fold bool) (*class, error) {
	r, size := utf8.DecodeRuneInString(c.rest)
	switch r {
	case '\\':
		set := &class{fold: fold}
		return set, c.escape(set)
	case '.':
		c.rest = c.rest[1:]
		return &class{negated: true, runes: []rune{'\n'}}, nil
	case '*', '+', '?', '{', '^', '$':
		return nil, fmt.Errorf("%q stands for nothing known here", r)
	}
	c.rest = c.rest[size:]
	return &class{runes: []rune{r}, fold: fold}, nil
}

// spaces is \s: Unicode's White_Space.
var spaces = unicode.White_Space

// escape reads an escape into a class.
func (c *compiler) escape(set *class) error {
	if len(c.rest) < 2 {
		return fmt.Errorf("a backslash at the end")
	}
	e := c.rest[1]
	c.rest = c.rest[2:]
	switch e {
	case 'r':
		set.runes = append(set.runes, '\r')
	case 'n':
		set.runes = append(set.runes, '\n')
	case 't':
		set.runes = append(set.runes, '\t')
	case 's':
		set.tables = append(set.tables, spaces)
	case 'S':
		set.without = append(set.without, &class{tables: []*unicode.RangeTable{spaces}})
	case 'd':
		set.tables = append(set.tables, unicode.Nd)
	case 'p', 'P':
		return c.property(set, e == 'P')
	default:
		if e < 0x80 && (unicode.IsLetter(rune(e)) || unicode.IsDigit(rune(e))) {
			return fmt.Errorf(`\%c is not known`, e)
		}
		r, size := utf8.DecodeRuneInString(c.text[len(c.text)-len(c.rest)-1:])
		c.rest = c.rest[size-1:]
		set.runes = append(set.runes, r)
	}
	return nil
}

func (c *compiler) property(set *class, not bool) error {
	name := ""
	if strings.HasPrefix(c.rest, "{") {
		end := strings.IndexByte(c.rest, '}')
		if end < 0 {
			return fmt.Errorf("a property is not closed")
		}
		name, c.rest = c.rest[1:end], c.rest[end+1:]
	} else if c.rest != "" {
		name, c.rest = c.rest[:1], c.rest[1:]
	}
	if n, ok := strings.CutPrefix(name, "^"); ok {
		name, not = n, !not
	}
	t := unicode.Categories[name]
	if t == nil {
		t = unicode.Scripts[name]
	}
	if t == nil {
		return fmt.Errorf("property %q is not known", name)
	}
	if not {
		set.without = append(set.without, &class{tables: []*unicode.RangeTable{t}})
	} else {
		set.tables = append(set.tables, t)
	}
	return nil
}

// set is a class in brackets.
func (c *compiler) set(fold bool) (*class, error) {
	set := &class{fold: fold}
	c.rest = c.rest[1:]
	if strings.HasPrefix(c.rest, "^") {
		set.negated, c.rest = true, c.rest[1:]
	}
	for first := true; ; first = false {
		if c.rest == "" {
			return nil, fmt.Errorf("a class is not closed")
		}
		switch {
		case c.rest[0] == ']' && !first:
			c.rest = c.rest[1:]
			return set, nil
		case c.rest[0] == '[' || strings.HasPrefix(c.rest, "&&"):
			return nil, fmt.Errorf("%q within a class is not known", c.rest[:1])
		case c.rest[0] == '\\':
			if err := c.escape(set); err != nil {
				return nil, err
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(c.rest)
		c.rest = c.rest[size:]
		if len(c.rest) > 1 && c.rest[0] == '-' && c.rest[1] != ']' {
			to, n := utf8.DecodeRuneInString(c.rest[1:])
			if to == '\\' || to < r {
				return nil, fmt.Errorf("range %q is not known", c.rest[:1+n])
			}
			c.rest = c.rest[1+n:]
			set.ranges = append(set.ranges, [2]rune{r, to})
			continue
		}
		set.runes = append(set.runes, r)
	}
}

// repeat reads a quantifier.
func (c *compiler) repeat(it *item) error {
	if c.rest == "" {
		return nil
	}
	switch c.rest[0] {
	case '*':
		it.min, it.max = 0, -1
	case '+':
		it.max = -1
	case '?':
		it.min = 0
	case '{':
		end := strings.IndexByte(c.rest, '}')
		if end < 0 {
			return fmt.Errorf("a repetition is not closed")
		}
		low, high, both := strings.Cut(c.rest[1:end], ",")
		var err error
		if it.min, err = strconv.Atoi(low); err != nil || it.min > 1000 {
			return fmt.Errorf("repetition %q is not known", c.rest[:end+1])
		}
		switch {
		case !both:
			it.max = it.min
		case high == "":
			it.max = -1
		default:
			if it.max, err = strconv.Atoi(high); err != nil || it.max < it.min {
				return fmt.Errorf("repetition %q is not known", c.rest[:end+1])
			}
		}
		c.rest = c.rest[end:]
	default:
		return nil
	}
	c.rest = c.rest[1:]
	switch {
	case strings.HasPrefix(c.rest, "?"):
		return fmt.Errorf("lazy repetition is not known")
	case strings.HasPrefix(c.rest, "+"):
		it.possess = true
		c.rest = c.rest[1:]
	}
	return nil
}
