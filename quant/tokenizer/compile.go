package tokenizer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// item is one thing of a pattern that repeats.
type item struct {
	min, max int // max < 0: any number
	possess  bool
	set      *runeSet
	group    [][]item // alternatives, where set is nil
	look     bool     // looks ahead only; not: must not match
	not      bool
	atomic   bool
	assert   byte // \b \B ^ $ A z, where it is neither a set nor a group
}

// Bounds of a pattern.
const (
	maxPattern = 1 << 14 // bytes
	maxNesting = 16      // groups in groups, classes in classes
	maxRepeat  = 1000    // of {n,m}
	maxProgram = 1 << 13 // instructions
)

// compile reads a pattern: the syntax of Oniguruma, which the tokenizers library
// uses, as far as split patterns have it. Errors name the piece that is not known.
func compile(text string) (*pattern, error) {
	fail := func(err error) (*pattern, error) { return nil, fmt.Errorf("pattern %.400q: %w", text, err) }
	if len(text) > maxPattern || !utf8.ValidString(text) {
		return fail(fmt.Errorf("%d bytes are no pattern: at most %d of UTF-8", len(text), maxPattern))
	}
	c := &compiler{text: text, rest: text}
	alts, err := c.alternatives(false, 0)
	switch {
	case err != nil:
		return fail(err)
	case c.rest != "":
		return fail(fmt.Errorf("a group is closed that was not opened"))
	}
	p := &pattern{}
	size := 0
	for _, a := range alts {
		prog, err := program(a)
		if err != nil {
			return fail(err)
		}
		if size += len(prog); size > maxProgram {
			return fail(fmt.Errorf("it is too large"))
		}
		p.alts = append(p.alts, alternative{prog: prog, first: firstBytes(a)})
	}
	return p.settle(), nil
}

type compiler struct{ text, rest string }

func (c *compiler) alternatives(fold bool, depth int) ([][]item, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("groups nest more than %d deep", maxNesting)
	}
	var alts [][]item
	var seq []item
	for {
		switch {
		case c.rest == "" || c.rest[0] == ')':
			return append(alts, seq), nil
		case c.rest[0] == '|':
			alts, seq = append(alts, seq), nil
			c.rest = c.rest[1:]
			continue
		case strings.HasPrefix(c.rest, "(?i)"): // to the end of this group
			fold = true
			c.rest = c.rest[4:]
			if seq != nil || alts != nil {
				return nil, fmt.Errorf("(?i) that does not begin a group is %w", ErrUnknown)
			}
			continue
		}
		it, err := c.item(fold, depth)
		if err != nil {
			return nil, err
		}
		if n := len(seq); fold && n > 0 && foldsWith(&seq[n-1], &it) {
			return nil, fmt.Errorf("a case-insensitive pair of letters that one letter may stand for is %w", ErrUnknown)
		}
		seq = append(seq, it)
	}
}

func (c *compiler) item(fold bool, depth int) (item, error) {
	it := item{min: 1, max: 1}
	var err error
	switch c.rest[0] {
	case '(':
		if err = c.group(&it, fold, depth); err != nil || it.look {
			return it, err
		}
	case '[':
		it.set, err = c.set(fold, depth)
	case '^', '$':
		it.assert, c.rest = c.rest[0], c.rest[1:]
		return it, nil
	default:
		if len(c.rest) > 1 && c.rest[0] == '\\' && strings.IndexByte("bBAz", c.rest[1]) >= 0 {
			it.assert, c.rest = c.rest[1], c.rest[2:]
			return it, nil
		}
		it.set, err = c.single(fold)
	}
	if err != nil {
		return it, err
	}
	if it.set != nil {
		if fold && !it.set.foldable() {
			return it, fmt.Errorf("a case-insensitive class of more than ASCII is %w", ErrUnknown)
		}
		it.set.settle()
	}
	return it, c.repeat(&it)
}

// foldsWith says whether two sets may match what one letter stands for.
func foldsWith(a, b *item) bool {
	return a.set != nil && b.set != nil && slices.ContainsFunc(twoInOne, func(p string) bool { return a.set.ascii[p[0]] && b.set.ascii[p[1]] })
}

func (c *compiler) group(it *item, fold bool, depth int) error {
	prefix := "("
	for _, p := range []string{"(?i:", "(?:", "(?!", "(?=", "(?>"} {
		if strings.HasPrefix(c.rest, p) {
			prefix = p
		}
	}
	switch prefix {
	case "(":
		if strings.HasPrefix(c.rest, "(?") {
			return fmt.Errorf("group %.5q is %w", c.rest, ErrUnknown)
		}
	case "(?i:":
		fold = true
	case "(?!":
		it.look, it.not = true, true
	case "(?=":
		it.look = true
	case "(?>":
		it.atomic = true
	}
	c.rest = c.rest[len(prefix):]
	alts, err := c.alternatives(fold, depth+1)
	if err != nil {
		return err
	}
	if c.rest == "" {
		return fmt.Errorf("a group is not closed")
	}
	c.rest = c.rest[1:]
	it.group = alts
	return nil
}

// single is one rune, an escape or a dot.
func (c *compiler) single(fold bool) (*runeSet, error) {
	r, size := utf8.DecodeRuneInString(c.rest)
	switch r {
	case '\\':
		set := &runeSet{fold: fold}
		return set, c.escape(set)
	case '.':
		c.rest = c.rest[1:]
		return &runeSet{negated: true, runes: []rune{'\n'}}, nil
	case '*', '+', '?', '{':
		return nil, fmt.Errorf("%q has nothing to repeat", r)
	}
	c.rest = c.rest[size:]
	return &runeSet{runes: []rune{r}, fold: fold}, nil
}

// repeat reads a quantifier.
func (c *compiler) repeat(it *item) error {
	if c.rest == "" {
		return nil
	}
	counted := false
	switch c.rest[0] {
	case '*':
		it.min, it.max = 0, -1
	case '+':
		it.max = -1
	case '?':
		it.min = 0
	case '{':
		counted = true
		end := strings.IndexByte(c.rest, '}')
		if end < 0 {
			return fmt.Errorf("a repetition is not closed")
		}
		if err := it.counts(c.rest[1:end]); err != nil {
			return err
		}
		c.rest = c.rest[end:]
	default:
		return nil
	}
	c.rest = c.rest[1:]
	switch {
	case c.rest == "":
	case c.rest[0] == '?':
		return fmt.Errorf("lazy repetition is %w", ErrUnknown)
	case counted && strings.IndexByte("+*{", c.rest[0]) >= 0, c.rest[0] == '*', c.rest[0] == '{':
		return fmt.Errorf("a repetition of a repetition is %w", ErrUnknown)
	case c.rest[0] == '+':
		it.possess = true
		c.rest = c.rest[1:]
	}
	return nil
}

// counts reads what {…} holds.
func (it *item) counts(text string) error {
	low, high, both := strings.Cut(text, ",")
	var err1, err2 error
	if it.min, err1 = strconv.Atoi(low); both && low == "" {
		it.min, err1 = 0, nil
	}
	switch {
	case !both:
		it.max = it.min
	case high == "":
		it.max = -1
	default:
		it.max, err2 = strconv.Atoi(high)
	}
	if err1 != nil || err2 != nil || it.min < 0 || it.min > maxRepeat || it.max > maxRepeat || it.max >= 0 && it.max < it.min || both && low == "" && high == "" {
		return fmt.Errorf("repetition {%s} is %w", text, ErrUnknown)
	}
	return nil
}
