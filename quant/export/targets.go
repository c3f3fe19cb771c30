package export

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// targetsOf is the list of targets of the stores that are asked for, as
// compressed-tensors takes it: expressions where they match those modules and no
// other of the checkpoint, names elsewhere.
func (b *planner) targetsOf(want func(*stored) bool) []string {
	if b.universe == nil {
		b.universe = b.moduleNames()
	}
	return Targets(b.modulesOf(want), b.universe)
}

// moduleNames lists everything that a pattern could be taken to mean: the modules
// of all tensors, those that hold modules, and those of experts that are taken
// apart.
func (b *planner) moduleNames() []string {
	names := map[string]bool{"lm_head": true}
	add := func(name string) {
		for name != "" && !names[name] {
			names[name] = true
			name = parent(name)
		}
	}
	for _, m := range b.Modules {
		add(m)
	}
	for i := range b.model.Tensors {
		name := b.model.Tensors[i].Name
		add(strings.TrimSuffix(name, weightSuffix))
		add(parent(name))
	}
	return slices.Sorted(maps.Keys(names))
}

// Targets says a list of modules in as few targets of compressed-tensors as
// expressions over numbers and last parts of names allow. Every expression is held
// against all names: it matches modules of the list alone, from the start of the
// name to its end. What no expression says is listed by name.
func Targets(modules, all []string) []string {
	left := make(map[string]bool, len(modules))
	for _, m := range modules {
		left[m] = true
	}
	var out []string
	for _, f := range familiesOf(modules, all) {
		for _, expr := range []string{f.loose(), f.expression()} {
			if expr == "" {
				continue
			}
			if said, ok := saysOnly(expr, left, all); ok && len(said) > 1 {
				out = append(out, "re:"+expr)
				for _, m := range said {
					delete(left, m)
				}
				break
			}
		}
	}
	slices.Sort(out)
	return append(out, slices.Sorted(maps.Keys(left))...)
}

// saysOnly lists what an expression matches; it is false where that is not of left
// alone.
func saysOnly(expr string, left map[string]bool, all []string) ([]string, bool) {
	re, err := regexp.Compile("^(?:" + expr + ")")
	if err != nil {
		return nil, false
	}
	var said []string
	for _, name := range all {
		if !re.MatchString(name) {
			continue
		}
		if !left[name] {
			return nil, false
		}
		said = append(said, name)
	}
	return said, true
}

// family is modules whose names differ in their numbers and last parts: all
// numbers of the one go with all of the other.
type family struct {
	shape   string // of the names but for the last part, # for a number
	numbers []string
	last    []string
}

// familiesOf finds families that make up the modules between them, in order.
func familiesOf(modules, all []string) []family {
	type head struct{ shape, last string }
	collect := func(names []string) map[head][][]string {
		out := map[head][][]string{}
		for _, name := range names {
			shape, numbers, last := apart(name)
			out[head{shape, last}] = append(out[head{shape, last}], numbers)
		}
		return out
	}
	whole := collect(all)
	byNumbers := map[[2]string]*family{} // by shape and what stands for the numbers
	var list []*family
	heads := collect(modules)
	for _, h := range slices.SortedFunc(maps.Keys(heads), func(a, b head) int {
		return cmp.Or(strings.Compare(a.shape, b.shape), strings.Compare(a.last, b.last))
	}) {
		numbers := alternatives(heads[h], whole[h])
		key := [2]string{h.shape, strings.Join(numbers, " ")}
		f := byNumbers[key]
		if f == nil {
			f = &family{shape: h.shape, numbers: numbers}
			byNumbers[key] = f
			list = append(list, f)
		}
		f.last = append(f.last, h.last)
	}
	out := make([]family, len(list))
	for i, f := range list {
		out[i] = *f
	}
	return out
}

// apart takes a name apart: numbers that are whole parts become #.
func apart(name string) (shape string, numbers []string, last string) {
	parts := strings.Split(name, ".")
	last = parts[len(parts)-1]
	parts = parts[:len(parts)-1]
	for i, p := range parts {
		if isNumber(p) {
			numbers = append(numbers, p)
			parts[i] = "#"
		}
	}
	return strings.Join(parts, "."), numbers, last
}

// alternatives says for each place of a number which stand there: \d+ where that
// are all that do in whole.
func alternatives(mine, whole [][]string) []string {
	if len(mine) == 0 {
		return nil
	}
	out := make([]string, len(mine[0]))
	for i := range out {
		have, all := map[string]bool{}, map[string]bool{}
		for _, n := range mine {
			have[n[i]] = true
		}
		for _, n := range whole {
			all[n[i]] = true
		}
		out[i] = oneOf(slices.Collect(maps.Keys(have)))
		if len(have) == len(all) && len(have) > 1 {
			out[i] = `\d+`
		}
	}
	return out
}

// oneOf is an expression for any of some numbers.
func oneOf(numbers []string) string {
	slices.SortFunc(numbers, func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
	})
	if len(numbers) == 1 {
		return numbers[0]
	}
	return "(" + strings.Join(numbers, "|") + ")"
}

// expression matches the family.
func (f *family) expression() string { return "^" + f.from(f.shape, f.numbers) }

// loose is expression with anything before the layers, where servers put prefixes
// of their own; "" where there are no layers.
func (f *family) loose() string {
	i := strings.Index(f.shape, "layers.#")
	if i < 0 || i > 0 && f.shape[i-1] != '.' {
		return ""
	}
	return `.*\b` + f.from(f.shape[i:], f.numbers[strings.Count(f.shape[:i], "#"):])
}

func (f *family) from(shape string, numbers []string) string {
	var b strings.Builder
	for _, part := range strings.Split(shape, ".") {
		switch {
		case part == "":
			continue
		case part == "#":
			b.WriteString(numbers[0])
			numbers = numbers[1:]
		default:
			b.WriteString(regexp.QuoteMeta(part))
		}
		b.WriteString(`\.`)
	}
	last := make([]string, len(f.last))
	for i, l := range f.last {
		last[i] = regexp.QuoteMeta(l)
	}
	if len(last) == 1 {
		return b.String() + last[0] + "$"
	}
	return b.String() + "(" + strings.Join(last, "|") + ")$"
}
