package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// runeSet is a set of runes: the union of its parts, within what and holds, or all
// else where it is negated.
type runeSet struct {
	negated bool
	fold    bool // members by what they are in another case as well
	runes   []rune
	ranges  [][2]rune
	tables  []*unicode.RangeTable
	sets    []*runeSet
	and     *runeSet
	ascii   [utf8.RuneSelf]bool // whole answers, once settle was called
}

// settle computes the answers for ASCII, which most text is.
func (c *runeSet) settle() *runeSet {
	for r := range c.ascii {
		c.ascii[r] = c.slow(rune(r))
	}
	return c
}

func (c *runeSet) has(r rune) bool {
	if r < utf8.RuneSelf {
		return c.ascii[r]
	}
	return c.slow(r)
}

func (c *runeSet) slow(r rune) bool {
	in := c.one(r)
	if c.fold {
		for f := unicode.SimpleFold(r); f != r && !in; f = unicode.SimpleFold(f) {
			in = c.one(f)
		}
	}
	if in && c.and != nil {
		in = c.and.slow(r)
	}
	return in != c.negated
}

func (c *runeSet) one(r rune) bool {
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
	for _, s := range c.sets {
		if s.slow(r) {
			return true
		}
	}
	return false
}

// Words, as \w and \b have them in patterns: what Unicode calls Alphabetic, marks,
// decimal digits and connecting punctuation. Joiners are among them where the library looks for
// the words around an added token.
var wordTables = []*unicode.RangeTable{unicode.L, unicode.Nl, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Pc}

var (
	spaceSet = (&runeSet{tables: []*unicode.RangeTable{unicode.White_Space}}).settle()
	wordSet  = (&runeSet{tables: wordTables}).settle()
	aloneSet = (&runeSet{tables: append([]*unicode.RangeTable{unicode.Join_Control}, wordTables...)}).settle()
)

func isSpace(r rune) bool { return spaceSet.has(r) }

// inBefore and inAfter say whether a rune of a set stands on that side of a place.
func (c *runeSet) inBefore(s string, at int) bool {
	r, size := utf8.DecodeLastRuneInString(s[:at])
	return size > 0 && c.has(r)
}

func (c *runeSet) inAfter(s string, at int) bool {
	r, size := utf8.DecodeRuneInString(s[at:])
	return size > 0 && c.has(r)
}

// foldable says whether a case-insensitive set is one whose members in another
// case are known for sure: ASCII, spaces, digits. Folding of others depends on the
// library's tables, where a letter may stand for two.
func (c *runeSet) foldable() bool {
	ascii := func(r rune) bool { return r < utf8.RuneSelf }
	return !c.negated && c.and == nil && c.sets == nil &&
		!slices.ContainsFunc(c.runes, func(r rune) bool { return !ascii(r) }) &&
		!slices.ContainsFunc(c.ranges, func(r [2]rune) bool { return !ascii(r[1]) }) &&
		!slices.ContainsFunc(c.tables, func(t *unicode.RangeTable) bool { return t != unicode.White_Space && t != unicode.Nd })
}

// twoInOne are pairs of letters that one letter, ß or a ligature, stands for.
var twoInOne = []string{"ss", "st", "ff", "fi", "fl"}

// escape reads an escape, \d or \p{L} or \n, into a set.
func (c *compiler) escape(set *runeSet) error {
	if len(c.rest) < 2 {
		return fmt.Errorf("a backslash at the end")
	}
	e := c.rest[1]
	c.rest = c.rest[2:]
	add := func(not bool, tables ...*unicode.RangeTable) {
		if not {
			set.sets = append(set.sets, &runeSet{negated: true, tables: tables})
		} else {
			set.tables = append(set.tables, tables...)
		}
	}
	switch e {
	case 'r':
		set.runes = append(set.runes, '\r')
	case 'n':
		set.runes = append(set.runes, '\n')
	case 't':
		set.runes = append(set.runes, '\t')
	case 'f':
		set.runes = append(set.runes, '\f')
	case 'v':
		set.runes = append(set.runes, '\v')
	case 's', 'S':
		add(e == 'S', unicode.White_Space)
	case 'd', 'D':
		add(e == 'D', unicode.Nd)
	case 'w', 'W':
		add(e == 'W', wordTables...)
	case 'p', 'P':
		t, not, err := c.property()
		if err != nil {
			return err
		}
		add(not != (e == 'P'), t)
	case 'x', 'u':
		r, err := c.hex(e)
		if err != nil {
			return err
		}
		set.runes = append(set.runes, r)
	default:
		if e < utf8.RuneSelf && (unicode.IsLetter(rune(e)) || unicode.IsDigit(rune(e))) {
			return fmt.Errorf(`\%c is %w`, e, ErrUnknown)
		}
		r, size := utf8.DecodeRuneInString(c.text[len(c.text)-len(c.rest)-1:])
		c.rest = c.rest[size-1:]
		set.runes = append(set.runes, r)
	}
	return nil
}

// hex reads the digits of \x41, \x{4E00} or \u4E00.
func (c *compiler) hex(kind byte) (rune, error) {
	digits, rest := "", ""
	switch {
	case kind == 'x' && strings.HasPrefix(c.rest, "{"):
		end := strings.IndexByte(c.rest, '}')
		if end < 0 {
			return 0, fmt.Errorf(`\x{ is not closed`)
		}
		digits, rest = c.rest[1:end], c.rest[end+1:]
	case kind == 'x' && len(c.rest) >= 2:
		digits, rest = c.rest[:2], c.rest[2:]
	case kind == 'u' && len(c.rest) >= 4:
		digits, rest = c.rest[:4], c.rest[4:]
	}
	v := rune(0)
	for i := range len(digits) {
		d := strings.IndexByte("0123456789abcdef", digits[i]|0x20)
		if d < 0 || digits[i] < '0' || v > unicode.MaxRune {
			v = unicode.MaxRune + 1
			break
		}
		v = v<<4 | rune(d)
	}
	if digits == "" || !utf8.ValidRune(v) || kind == 'x' && len(digits) == 2 && v >= utf8.RuneSelf {
		return 0, fmt.Errorf(`\%c%s is %w`, kind, digits, ErrUnknown)
	}
	c.rest = rest
	return v, nil
}

// longNames are the words that patterns in use have for categories.
var longNames = map[string]string{
	"Letter": "L", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Mark": "M", "Number": "N", "Punctuation": "P",
	"Symbol": "S", "Separator": "Z", "Other": "C",
}

// property reads the name of \p{…}.
func (c *compiler) property() (t *unicode.RangeTable, not bool, err error) {
	name := ""
	if strings.HasPrefix(c.rest, "{") {
		end := strings.IndexByte(c.rest, '}')
		if end < 0 {
			return nil, false, fmt.Errorf("a property is not closed")
		}
		name, c.rest = c.rest[1:end], c.rest[end+1:]
	} else if c.rest != "" {
		name, c.rest = c.rest[:1], c.rest[1:]
	}
	if n, ok := strings.CutPrefix(name, "^"); ok {
		name, not = n, true
	}
	if short, ok := longNames[name]; ok {
		name = short
	}
	if name == "C" { // Unicode has the unassigned among them, Go's table has not
		return nil, false, fmt.Errorf("property %q is %w", name, ErrUnknown)
	}
	if t = unicode.Categories[name]; t == nil {
		t = unicode.Scripts[name]
	}
	if t == nil {
		return nil, false, fmt.Errorf("property %q is %w", name, ErrUnknown)
	}
	return t, not, nil
}

// posix are the bracket classes, [[:alpha:]], by Unicode.
var posix = map[string]*runeSet{
	"alpha": {tables: []*unicode.RangeTable{unicode.L, unicode.Nl, unicode.Other_Alphabetic}}, "digit": {tables: []*unicode.RangeTable{unicode.Nd}},
	"space": {tables: []*unicode.RangeTable{unicode.White_Space}}, "word": {tables: wordTables},
}

// set is a class in brackets: [^a-z\d[:alpha:]&&[…]].
func (c *compiler) set(fold bool, depth int) (*runeSet, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("classes nest more than %d deep", maxNesting)
	}
	set := &runeSet{fold: fold}
	c.rest = c.rest[1:]
	if strings.HasPrefix(c.rest, "^") {
		set.negated, c.rest = true, c.rest[1:]
	}
	return set, c.members(set, fold, depth)
}

// members reads what a class holds, to the bracket that closes it.
func (c *compiler) members(set *runeSet, fold bool, depth int) error {
	for first := true; ; first = false {
		switch {
		case c.rest == "":
			return fmt.Errorf("a class is not closed")
		case c.rest[0] == ']' && first:
			return fmt.Errorf("an empty class is %w", ErrUnknown)
		case c.rest[0] == ']':
			c.rest = c.rest[1:]
			return nil
		case strings.HasPrefix(c.rest, "[:"):
			end := strings.Index(c.rest, ":]")
			if end < 0 || posix[c.rest[2:end]] == nil {
				return fmt.Errorf("class %.12q is %w", c.rest, ErrUnknown)
			}
			set.sets = append(set.sets, posix[c.rest[2:end]])
			c.rest = c.rest[end+2:]
			continue
		case c.rest[0] == '[':
			inner, err := c.set(fold, depth+1)
			if err != nil {
				return err
			}
			set.sets = append(set.sets, inner)
			continue
		case strings.HasPrefix(c.rest, "&&"):
			c.rest = c.rest[2:]
			set.and = &runeSet{fold: fold}
			return c.members(set.and, fold, depth+1)
		}
		n := len(set.runes)
		if c.rest[0] == '\\' {
			if err := c.escape(set); err != nil {
				return err
			}
			if len(set.runes) == n {
				continue // a whole class, which begins no range
			}
		} else {
			r, size := utf8.DecodeRuneInString(c.rest)
			c.rest = c.rest[size:]
			set.runes = append(set.runes, r)
		}
		if len(c.rest) < 2 || c.rest[0] != '-' || c.rest[1] == ']' {
			continue
		}
		from, rest := set.runes[n], c.rest
		c.rest = c.rest[1:]
		end := &runeSet{}
		if c.rest[0] == '\\' {
			if err := c.escape(end); err != nil {
				return err
			}
		} else {
			r, size := utf8.DecodeRuneInString(c.rest)
			c.rest = c.rest[size:]
			end.runes = []rune{r}
		}
		if len(end.runes) != 1 || end.runes[0] < from || end.runes[0] == '[' {
			return fmt.Errorf("range %.12q is %w", string(from)+rest, ErrUnknown)
		}
		set.runes = set.runes[:n]
		set.ranges = append(set.ranges, [2]rune{from, end.runes[0]})
	}
}
