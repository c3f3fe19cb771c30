package exchange

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// expressions are anchored regular expressions that match the given names and none of
// the others. Few where layers, experts or projections belong together.
func expressions(names, others []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	all := make([]topology.Matrix, 0, len(names)+len(others))
	choice := make([]int, 0, cap(all))
	for g, list := range [][]string{names, others} {
		for _, n := range list {
			all = append(all, topology.Matrix{Name: n, Tensor: n, Role: topology.Role{Layer: -1, Expert: -1}})
			choice = append(choice, -g)
		}
	}
	var out []string
	f, err := recipe.FromAssignment(all, choice, []recipe.Group{{Scheme: "nvfp4"}})
	if err == nil && len(f.Exemptions) == 0 {
		for _, t := range f.Groups[0].Targets {
			out = append(out, expressionOf(t))
		}
	} else { // with exemptions, which other tools do not have
		for _, n := range names {
			out = append(out, "^"+regexp.QuoteMeta(n)+"$")
		}
	}
	return tellApart(out, names, others)
}

// tellApart wants expressions to match the names and nothing else.
func tellApart(list, names, others []string) ([]string, error) {
	re := make([]*regexp.Regexp, len(list))
	for i, e := range list {
		var err error
		if re[i], err = regexp.Compile(e); err != nil {
			return nil, err
		}
	}
	matches := func(n string) bool {
		return slices.ContainsFunc(re, func(r *regexp.Regexp) bool { return r.MatchString(n) })
	}
	for _, n := range names {
		if !matches(n) {
			return nil, fmt.Errorf("no expression matches %s: %w", n, ErrCannot)
		}
	}
	for _, n := range others {
		if matches(n) {
			return nil, fmt.Errorf("an expression for others matches %s: %w", n, ErrCannot)
		}
	}
	return list, nil
}

// expressionOf is a pattern of ours as an anchored expression. Groups that capture
// nothing are written as plain ones, which all tools know.
func expressionOf(pattern string) string {
	if expr, ok := strings.CutPrefix(pattern, "re:"); ok {
		expr = strings.ReplaceAll(expr, "(?:", "(")
		if !strings.HasPrefix(expr, "^") {
			expr = "^" + expr
		}
		if !strings.HasSuffix(expr, "$") {
			expr += "$"
		}
		return expr
	}
	var b strings.Builder
	b.WriteByte('^')
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteByte('.')
		case '[':
			end := strings.IndexByte(pattern[i:], ']')
			if end < 0 {
				b.WriteString(`\[`)
				continue
			}
			class := pattern[i+1 : i+end]
			if strings.HasPrefix(class, "!") {
				class = "^" + class[1:]
			}
			b.WriteString("[" + class + "]")
			i += end
		case '\\':
			if i+1 < len(pattern) {
				i++
				b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
			}
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	b.WriteByte('$')
	return b.String()
}

// matchPython is re.match of Python: from the start of the name, not to its end.
func matchPython(expr string) (*regexp.Regexp, error) {
	re, err := regexp.Compile("^(?:" + expr + ")")
	if err != nil {
		return nil, fmt.Errorf("expression %q cannot be read here: %w: %w", expr, err, ErrForeign)
	}
	return re, nil
}

// fnmatch is Python's: * and ? match dots too, the whole name counts.
func fnmatch(pattern string) (*regexp.Regexp, error) {
	if strings.HasPrefix(pattern, "re:") {
		return matchPython(pattern[3:])
	}
	re, err := regexp.Compile(expressionOf(strings.ReplaceAll(pattern, `\`, `\\`)))
	if err != nil {
		return nil, fmt.Errorf("pattern %q cannot be read here: %w: %w", pattern, err, ErrForeign)
	}
	return re, nil
}

// split deals the modules out: names by group of those that are stored, and the names
// of all others.
func (a *Assignment) split(list []module) (stored map[int][]string, kept []module, err error) {
	stored = map[int][]string{}
	for i := range list {
		g, err := a.groupOf(&list[i])
		if err != nil {
			return nil, nil, err
		}
		if g < 0 {
			kept = append(kept, list[i])
			continue
		}
		stored[g] = append(stored[g], list[i].name)
	}
	return stored, kept, nil
}

// otherNames are the names of the modules that are not among some.
func otherNames(list []module, names []string) []string {
	in := make(map[string]bool, len(names))
	for _, n := range names {
		in[n] = true
	}
	var out []string
	for i := range list {
		if !in[list[i].name] {
			out = append(out, list[i].name)
		}
	}
	return out
}

// noStacks refuses experts that are one parameter: tools that look for modules of
// class Linear do not find them.
func (a *Assignment) noStacks(list []module) error {
	for i := range list {
		if g, err := a.groupOf(&list[i]); err != nil {
			return err
		} else if list[i].stack && g >= 0 {
			return fmt.Errorf("%s is one parameter of all experts, no Linear: %w", list[i].name, ErrCannot)
		}
	}
	return nil
}
