package recipe

import (
	"cmp"
	"regexp"
	"slices"
	"sort"
	"strings"

	"quantscope/quant/topology"
)

// nameIndex finds what patterns match: names that are written out by a look-up,
// others among the names that begin as they do.
type nameIndex struct {
	all     []nameOf         // every name that stands for a matrix, sorted
	byName  map[string]int   // matrices by their own name
	byOther map[string][]int // by their tensor's name and by the module's
}

type nameOf struct {
	name   string
	matrix int
}

func newNameIndex(matrices []topology.Matrix) *nameIndex {
	ix := &nameIndex{all: make([]nameOf, 0, 2*len(matrices)), byName: make(map[string]int, len(matrices)), byOther: make(map[string][]int, len(matrices))}
	for i := range matrices {
		m := &matrices[i]
		ix.byName[m.Name] = i
		ix.all = append(ix.all, nameOf{m.Name, i})
		names := [2]string{m.Tensor}
		if holdsWeight(&m.Role) {
			names[1] = module(m.Tensor, &m.Role)
		}
		for k, n := range names {
			if n != "" && n != m.Name && (k == 0 || n != m.Tensor) {
				ix.byOther[n] = append(ix.byOther[n], i)
				ix.all = append(ix.all, nameOf{n, i})
			}
		}
	}
	slices.SortFunc(ix.all, func(a, b nameOf) int { return cmp.Or(strings.Compare(a.name, b.name), a.matrix-b.matrix) })
	return ix
}

// each calls f with the matrices that each pattern matches, ascending.
func (ix *nameIndex) each(patterns []string, f func(pattern string, hits []int)) error {
	for _, p := range patterns {
		hits, err := ix.match(p)
		if err != nil {
			return err
		}
		f(p, hits)
	}
	return nil
}

func (ix *nameIndex) match(pattern string) ([]int, error) {
	m, err := ParseTarget(pattern)
	if err != nil {
		return nil, err
	}
	prefix := ""
	switch m := m.(type) {
	case *glob:
		literal, whole := m.literal()
		for _, name := range []string{pattern, literal} {
			if i, ok := ix.byName[name]; ok && (whole || name == pattern) {
				return []int{i}, nil
			}
		}
		if whole {
			return ix.byOther[literal], nil
		}
		if len(ix.byOther[pattern]) == 0 { // else it is a name with brackets, as it is
			prefix = literal
		}
	case regexTarget:
		if re, err := regexp.Compile(m.text[len(regexPrefix):]); err == nil {
			prefix, _ = re.LiteralPrefix()
		}
	}
	var hits []int
	from := sort.Search(len(ix.all), func(k int) bool { return ix.all[k].name >= prefix })
	for _, n := range ix.all[from:] {
		if !strings.HasPrefix(n.name, prefix) {
			break
		}
		if m.Match(n.name) {
			hits = append(hits, n.matrix)
		}
	}
	slices.Sort(hits)
	return slices.Compact(hits), nil
}

// literal is what a glob begins with, and whether that is all of it.
func (g *glob) literal() (prefix string, whole bool) {
	var b strings.Builder
	for _, p := range g.parts {
		if p.star || p.any || p.class != nil {
			return b.String(), false
		}
		b.WriteRune(p.lit)
	}
	return b.String(), true
}
