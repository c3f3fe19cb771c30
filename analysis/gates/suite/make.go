package suite

import (
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Generator makes cases from a seed.
type Generator struct {
	Name    string
	About   string // one sentence, for docs/suites.md
	Args    []Arg
	Lengths bool // goes by lengths; else they are refused
	Depths  bool // likewise
	one     func(g *draw) (Case, error)
}

// Generators lists them by name.
func Generators() []Generator {
	return []Generator{arithmetic, callsites, edits, needles, repeats, scripts, toolCalls, conversations}
}

// makeSpec is what is made: n cases of each length and depth. Every case is drawn
// from a stream of its own, so that neither n nor keep changes any of them.
type makeSpec struct {
	at      *yaml.Node
	gen     *Generator
	args    map[string]any
	seed    uint64
	n       int
	lengths []int // about tokens: 4 bytes are one
	depths  []float64
	keep    []span // of the cases by number; nil: all
}

type span struct{ from, to int } // both included

// maxLength bounds a context, in tokens.
const maxLength = 4 << 20

func (p *parser) makeSpec(n *yaml.Node, what string) (*makeSpec, error) {
	m := &makeSpec{at: n, n: 1}
	what += ": make"
	var name, keep string
	if err := p.fields(n, what, map[string]field{
		"generator": p.text(what+": generator", &name), "args": p.object(what+": args", &m.args),
		"seed": p.seed(what+": seed", &m.seed), "n": p.count(what+": n", 1, maxCases, &m.n), "keep": p.text(what+": keep", &keep),
		"lengths": func(n *yaml.Node) error {
			return p.each(n, what+": lengths", 1000, func(n *yaml.Node) error {
				var v int
				err := p.count(what+": lengths", 1, maxLength, &v)(n)
				m.lengths = append(m.lengths, v)
				return err
			})
		},
		"depths": func(n *yaml.Node) error {
			return p.each(n, what+": depths", 1000, func(n *yaml.Node) error {
				var v float64
				err := p.number(what+": depths", 0, 1, &v)(n)
				m.depths = append(m.depths, v)
				return err
			})
		},
	}); err != nil {
		return nil, err
	}
	all := Generators()
	i := slices.IndexFunc(all, func(g Generator) bool { return g.Name == name })
	if i < 0 {
		var known []string
		for _, g := range all {
			known = append(known, g.Name)
		}
		return nil, p.fail(n, "%s: unknown generator %q; known are %s", what, name, list(known))
	}
	m.gen = &all[i]
	switch err := checkArgs(m.args, m.gen.Args); {
	case err != nil:
		return nil, p.fail(n, "%s: args: %v", what, err)
	case m.lengths != nil && !m.gen.Lengths:
		return nil, p.fail(n, "%s: generator %s does not go by lengths", what, name)
	case m.depths != nil && !m.gen.Depths:
		return nil, p.fail(n, "%s: generator %s does not go by depths", what, name)
	}
	if keep != "" {
		var err error
		if m.keep, err = spans(keep); err != nil {
			return nil, p.fail(n, "%s: keep: %v", what, err)
		}
		if last := m.keep[len(m.keep)-1].to; last >= m.count() {
			return nil, p.fail(n, "%s: keep: there is no case %d: %d are made", what, last, m.count())
		}
	}
	if m.count() > maxCases {
		return nil, p.fail(n, "%s: %d cases are more than there may be (%d)", what, m.count(), maxCases)
	}
	return m, nil
}

func (m *makeSpec) count() int { return m.n * max(len(m.lengths), 1) * max(len(m.depths), 1) }

// spans reads numbers and ranges that rise: "0-4,7".
func spans(text string) ([]span, error) {
	var out []span
	for _, part := range strings.Split(text, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(from)
		b := a
		if ranged && err == nil {
			b, err = strconv.Atoi(to)
		}
		if err != nil || a < 0 || b < a || len(out) > 0 && a <= out[len(out)-1].to {
			return nil, fmt.Errorf("%q is no list of numbers and ranges that rise, such as 0-4,7", short(text))
		}
		out = append(out, span{a, b})
	}
	return out, nil
}

// cases makes them; most bounds their bytes in all.
func (m *makeSpec) cases(most int64) ([]Case, error) {
	keep := m.keep
	if keep == nil {
		keep = []span{{0, m.count() - 1}}
	}
	var need int64
	for _, l := range m.lengths {
		need += 4 * int64(l) * int64(m.n) * int64(max(len(m.depths), 1))
	}
	if need > most {
		return nil, fmt.Errorf("cases would take %d bytes, more than there may be (%d)", need, most)
	}
	var out []Case
	for _, s := range keep {
		for i := s.from; i <= s.to; i++ {
			c, err := m.one(i)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// one makes the case of a number: lengths change slowest, then depths.
func (m *makeSpec) one(i int) (Case, error) {
	g := &draw{args: m.args, gen: m.gen, rand: rand.NewPCG(m.seed, uint64(i)), i: i}
	id := strconv.Itoa(i)
	depths := max(len(m.depths), 1)
	if m.lengths != nil {
		g.length = m.lengths[i/(depths*m.n)]
		id += fmt.Sprintf(".%d", g.length)
	}
	if m.depths != nil {
		g.depth = m.depths[i/m.n%depths]
		id += fmt.Sprintf(".%g", g.depth)
	}
	c, err := m.gen.one(g)
	if err != nil {
		return c, err
	}
	c.ID, c.Depth = id, g.depth
	if m.lengths != nil {
		c.Tokens = g.length
	}
	return c, nil
}

// draw is what one case is drawn from. The stream is PCG-DXSM of the seed and the
// case's number, and a number below n is the high half of its product with n, so a
// case is the same in any version of the language's library.
type draw struct {
	gen    *Generator
	args   map[string]any
	rand   *rand.PCG
	i      int // of the case
	length int // about tokens; 0: not gone by
	depth  float64
}

// below is 0 to n−1. Its bias is under n/2⁶⁴.
func (g *draw) below(n int) int {
	hi, _ := bits.Mul64(g.rand.Uint64(), uint64(n))
	return int(hi)
}

// between is from a to b, both included.
func (g *draw) between(a, b int) int { return a + g.below(b-a+1) }

func pick[T any](g *draw, of []T) T { return of[g.below(len(of))] }

// shuffle orders anew (Fisher and Yates).
func shuffle[T any](g *draw, of []T) {
	for i := len(of) - 1; i > 0; i-- {
		j := g.below(i + 1)
		of[i], of[j] = of[j], of[i]
	}
}

func (g *draw) arg(name string) any {
	if v, ok := g.args[name]; ok {
		return v
	}
	for _, a := range g.gen.Args {
		if a.Name == name {
			return a.Default
		}
	}
	return nil
}

func (g *draw) text(name string) string { s, _ := g.arg(name).(string); return s }

func (g *draw) count(name string) int { f, _ := g.arg(name).(float64); return int(f) }

// words is the argument's list; of is what it is without one.
func (g *draw) words(name string, of []string) []string {
	list, ok := g.arg(name).([]any)
	if !ok {
		return of
	}
	var out []string
	for _, w := range list {
		if s, ok := w.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// name makes a word that is none, of two or three syllables.
func (g *draw) name() string {
	var b strings.Builder
	for range g.between(2, 3) {
		b.WriteByte("bdfgklmnprstvz"[g.below(14)])
		b.WriteByte("aeiou"[g.below(5)])
	}
	return b.String()
}

// names makes n different ones that are none of but.
func (g *draw) names(n int, but map[string]bool) []string {
	var out []string
	for len(out) < n {
		s := g.name()
		for len(out) >= 1000 && but[s] { // small words run out
			s += g.name()
		}
		if !but[s] {
			but[s] = true
			out = append(out, s)
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
