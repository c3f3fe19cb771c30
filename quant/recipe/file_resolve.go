package recipe

import (
	"fmt"

	"quantscope/quant/topology"
)

// Resolution is what a recipe says of the matrices of a checkpoint.
type Resolution struct {
	Group      []int // by matrix: index of its group, -1 where it keeps the source's bytes
	Matched    []int // by group: matrices it stores
	Ignored    int   // matrices that ignore takes out of a group
	Exempted   int   // matrices that exemptions take out of a group
	Untargeted int   // matrices that no group matches
	Overlaps   []Overlap
	NoMatch    []NoMatch

	// Matrices that each pattern matches, ascending: by group and pattern, and by
	// pattern.
	Targets            [][][]int
	Ignore, Exemptions [][]int
}

// Overlap is a matrix that two groups match. It has the first one's scheme in
// Resolution.Group, and no recipe with an overlap should be run.
type Overlap struct {
	Matrix        string
	First, Second int // groups
}

// NoMatch is a pattern that matches no matrix; an exemption that takes nothing out
// of a group is one as well.
type NoMatch struct {
	Where   string // groups[0], ignore, exemptions
	Pattern string
}

// Err is the first thing that keeps a recipe from being run, with the number of
// the others: an overlap, a pattern of a group or an exemption that matches
// nothing. What ignore names need not be among the matrices. Nil for a clean one.
func (r *Resolution) Err() error {
	var missing []NoMatch
	for _, n := range r.NoMatch {
		if n.Where != "ignore" {
			missing = append(missing, n)
		}
	}
	switch {
	case len(r.Overlaps) > 0:
		o := r.Overlaps[0]
		return fmt.Errorf("%w: groups %d and %d both match %q (matrices that two groups match: %d)", ErrFile, o.First+1, o.Second+1, o.Matrix, len(r.Overlaps))
	case len(missing) > 0:
		return fmt.Errorf("%w: patterns that match nothing: %d, the first %q in %s", ErrFile, len(missing), missing[0].Pattern, missing[0].Where)
	}
	return nil
}

// Resolve finds the group of every matrix. Patterns are held against a matrix's
// name, its tensor's name, and that name without its parameter; a pattern that
// is the name of a matrix, written out, means that one alone. The error is of a
// pattern's form.
func (f *File) Resolve(matrices []topology.Matrix) (*Resolution, error) {
	ix := newNameIndex(matrices)
	out := &Resolution{Group: make([]int, len(matrices)), Matched: make([]int, len(f.Groups))}
	for i := range out.Group {
		out.Group[i] = -1
	}
	overlapping := map[int]Overlap{}
	for g := range f.Groups {
		out.Targets = append(out.Targets, make([][]int, 0, len(f.Groups[g].Targets)))
		err := ix.each(f.Groups[g].Targets, func(pattern string, hits []int) {
			out.Targets[g] = append(out.Targets[g], hits)
			if len(hits) == 0 {
				out.NoMatch = append(out.NoMatch, NoMatch{fmt.Sprintf("groups[%d]", g), pattern})
			}
			for _, i := range hits {
				switch out.Group[i] {
				case -1:
					out.Group[i] = g
				case g:
				default:
					if _, ok := overlapping[i]; !ok {
						overlapping[i] = Overlap{matrices[i].Name, out.Group[i], g}
					}
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range out.Group {
		if out.Group[i] < 0 {
			out.Untargeted++
		}
	}
	for _, part := range []struct {
		where    string
		patterns []string
		count    *int
		hits     *[][]int
	}{{"ignore", f.Ignore, &out.Ignored, &out.Ignore}, {"exemptions", f.Exemptions, &out.Exempted, &out.Exemptions}} {
		taken := map[int]bool{}
		err := ix.each(part.patterns, func(pattern string, hits []int) {
			*part.hits = append(*part.hits, hits)
			any := part.where == "ignore" && len(hits) > 0
			for _, i := range hits {
				any = any || out.Group[i] >= 0
				taken[i] = true
			}
			if !any {
				out.NoMatch = append(out.NoMatch, NoMatch{part.where, pattern})
			}
		})
		if err != nil {
			return nil, err
		}
		for i := range taken {
			if out.Group[i] >= 0 {
				out.Group[i] = -1
				*part.count++
			}
			delete(overlapping, i)
		}
	}
	for i := range matrices {
		if o, ok := overlapping[i]; ok {
			out.Overlaps = append(out.Overlaps, o)
		}
		if g := out.Group[i]; g >= 0 {
			out.Matched[g]++
		}
	}
	return out, nil
}
