package recipe

import (
	"errors"
	"unicode/utf8"
)

// glob is a parsed pattern: it matches whole names.
type glob struct {
	text  string
	parts []globPart
}

// globPart stands for one character, or for any number of them.
type globPart struct {
	star   bool
	any    bool
	lit    rune
	class  []runeRange // of a class
	negate bool
}

type runeRange struct{ lo, hi rune }

func parseGlob(pattern string) (*glob, error) {
	g := &glob{text: pattern}
	for i := 0; i < len(pattern); {
		r, n := utf8.DecodeRuneInString(pattern[i:])
		i += n
		switch r {
		case '*':
			if k := len(g.parts); k == 0 || !g.parts[k-1].star {
				g.parts = append(g.parts, globPart{star: true})
			}
		case '?':
			g.parts = append(g.parts, globPart{any: true})
		case '\\':
			if i == len(pattern) {
				return nil, errors.New("ends in a backslash")
			}
			r, n = utf8.DecodeRuneInString(pattern[i:])
			i += n
			g.parts = append(g.parts, globPart{lit: r})
		case '[':
			part, n, err := parseClass(pattern[i:])
			if err != nil {
				return nil, err
			}
			i += n
			g.parts = append(g.parts, part)
		default:
			g.parts = append(g.parts, globPart{lit: r})
		}
	}
	return g, nil
}

// parseClass reads what follows an opening bracket and says how long it is. A
// bracket that closes at once is a member, as in fnmatch.
func parseClass(s string) (globPart, int, error) {
	part := globPart{}
	i := 0
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		part.negate = true
		i++
	}
	one := func() (rune, bool) {
		if i < len(s) && s[i] == '\\' {
			i++
		}
		if i >= len(s) {
			return 0, false
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		return r, true
	}
	for first := true; ; first = false {
		if i < len(s) && s[i] == ']' && !first {
			return part, i + 1, nil
		}
		lo, ok := one()
		hi := lo
		if ok && i+1 < len(s) && s[i] == '-' && s[i+1] != ']' {
			i++
			hi, ok = one()
		}
		if !ok {
			return part, 0, errors.New("a [ is not closed")
		}
		if hi < lo {
			return part, 0, errors.New("a range in [ ] runs backwards")
		}
		part.class = append(part.class, runeRange{lo, hi})
	}
}

func (p *globPart) matches(r rune) bool {
	switch {
	case p.any:
		return true
	case p.class == nil:
		return r == p.lit
	}
	for _, c := range p.class {
		if c.lo <= r && r <= c.hi {
			return !p.negate
		}
	}
	return p.negate
}

// Match goes through the name once, and back to the last star where it must.
func (g *glob) Match(name string) bool {
	if name == g.text {
		return true
	}
	p, i := 0, 0
	star, from := -1, 0
	for i < len(name) {
		r, n := utf8.DecodeRuneInString(name[i:])
		switch {
		case p < len(g.parts) && g.parts[p].star:
			star, from = p, i
			p++
			continue
		case p < len(g.parts) && g.parts[p].matches(r):
			p++
			i += n
			continue
		case star < 0:
			return false
		}
		_, n = utf8.DecodeRuneInString(name[from:])
		from += n
		p, i = star+1, from
	}
	for p < len(g.parts) && g.parts[p].star {
		p++
	}
	return p == len(g.parts)
}

func (g *glob) String() string { return g.text }
