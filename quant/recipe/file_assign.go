package recipe

import (
	"fmt"
	"slices"

	"quantscope/quant/topology"
)

// FromAssignment makes a recipe of an assignment: choice is the index of each
// matrix's group in groups, -1 for the source's bytes. Groups need no targets;
// those without a matrix are left out, and the others keep their order. What keeps
// the source's bytes is exempted or ignored, so that a plan need not ask whether it
// was forgotten. Patterns
// are few where whole layers, runs of experts or projections belong together,
// and match nothing beyond the matrices given. Resolve of the result, over the
// same matrices, gives the assignment back; where names make that impossible
// there is an error.
func FromAssignment(matrices []topology.Matrix, choice []int, groups []Group) (*File, error) {
	if len(choice) != len(matrices) {
		return nil, fmt.Errorf("%w: %d choices for %d matrices", ErrFile, len(choice), len(matrices))
	}
	names := make([][]string, len(groups))
	var kept []string
	for i, c := range choice {
		switch {
		case c >= len(groups) || c < -1:
			return nil, fmt.Errorf("%w: matrix %q: group %d of %d", ErrFile, matrices[i].Name, c, len(groups))
		case c < 0:
			kept = append(kept, matrices[i].Name)
		default:
			names[c] = append(names[c], matrices[i].Name)
		}
	}
	targets := make([][]string, len(groups))
	largest := 0
	for g := range groups {
		targets[g] = patterns(names[g])
		if len(names[g]) > len(names[largest]) {
			largest = g
		}
	}
	var exemptions []string
	if len(kept) > 0 && len(groups) > 0 && len(names[largest]) > 0 {
		all := make([]string, 0, len(kept)+len(names[largest]))
		for i, c := range choice {
			if c < 0 || c == largest {
				all = append(all, matrices[i].Name)
			}
		}
		wide, without := patterns(all), patterns(kept)
		if length(wide)+length(without) < length(targets[largest]) {
			targets[largest], exemptions = wide, without
		}
	}
	f := assemble(groups, targets, exemptions)
	if len(exemptions) == 0 {
		f.Ignore = patterns(kept)
	}
	if f.gives(matrices, choice, groups) {
		return f, nil
	}
	// Names so alike that a pattern of one matches another: each by itself.
	for g := range groups {
		targets[g] = nil
		for _, n := range names[g] {
			s := shape{template: template{[]string{n}}}
			targets[g] = append(targets[g], s.pattern())
		}
	}
	f = assemble(groups, targets, nil)
	for _, n := range kept {
		s := shape{template: template{[]string{n}}}
		f.Ignore = append(f.Ignore, s.pattern())
	}
	if f.gives(matrices, choice, groups) {
		return f, nil
	}
	return nil, fmt.Errorf("%w: the names of the matrices cannot be told apart by patterns", ErrFile)
}

// length is what a list of patterns costs a reader.
func length(patterns []string) int {
	n := 0
	for _, p := range patterns {
		n += 10 + len(p)
	}
	return n
}

func assemble(groups []Group, targets [][]string, exemptions []string) *File {
	f := &File{Exemptions: exemptions}
	for g := range groups {
		if len(targets[g]) > 0 {
			f.Groups = append(f.Groups, Group{Targets: targets[g], Scheme: groups[g].Scheme, Methods: slices.Clone(groups[g].Methods)})
		}
	}
	return f
}

// gives says whether a recipe stands for an assignment.
func (f *File) gives(matrices []topology.Matrix, choice []int, groups []Group) bool {
	r, err := f.Resolve(matrices)
	if err != nil || len(r.Overlaps) > 0 {
		return false
	}
	used := make([]bool, len(groups))
	for _, c := range choice {
		if c >= 0 {
			used[c] = true
		}
	}
	place := make([]int, len(groups)) // in f.Groups
	n := 0
	for g := range groups {
		place[g] = n
		if used[g] {
			n++
		}
	}
	for i, c := range choice {
		if want := c; want >= 0 && r.Group[i] != place[want] || want < 0 && r.Group[i] >= 0 {
			return false
		}
	}
	return true
}
