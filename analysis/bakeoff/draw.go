package bakeoff

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"quantscope/analysis/landscape"
)

// Sample is what was drawn.
type Sample struct {
	Seed   uint64
	Items  []int // of the table, each once, in its order
	Strata []Stratum
	// LeftOut is how many tensors of the table could not be measured under the base
	// variant, or have no finite figures. They are in no stratum.
	LeftOut int
	// Pending is how many the base session has not measured yet. They can be in any
	// stratum but worst.
	Pending int
}

// Stratum is a part of a sample.
type Stratum struct {
	Spec  Spec
	Of    int   // how many it was drawn of
	Items []int // of the table, in its order
}

// Draw draws a sample of a table's items; base is the arm whose rel2 says which
// are the worst. A stratum that is larger than what there is is refused, and so
// is one of a layer, projection or expert that is not there.
func Draw(t *landscape.Table, base int, specs []Spec, seed uint64) (*Sample, error) {
	if base < 0 || base >= len(t.Arms) || len(t.Arms[base].Samples) != len(t.Items) {
		return nil, fmt.Errorf("no arm %d to draw by", base)
	}
	s := &Sample{Seed: seed}
	samples := t.Arms[base].Samples
	var pool, measured []int
	for i := range t.Items {
		switch x := &samples[i]; {
		case x.State == landscape.Pending:
			s.Pending++
			pool = append(pool, i)
		case x.State == landscape.Failed || !isFinite(x.Rel2):
			s.LeftOut++
		default:
			pool, measured = append(pool, i), append(measured, i)
		}
	}
	chosen := map[int]bool{}
	for _, spec := range specs {
		of, err := s.candidates(t, spec, pool, measured)
		if err != nil {
			return nil, err
		}
		n := spec.N
		if n == All {
			n = len(of)
		}
		switch {
		case len(of) == 0:
			return nil, fmt.Errorf("stratum %s: there is no such tensor", spec)
		case n > len(of):
			return nil, fmt.Errorf("stratum %s: there are only %d%s", spec, len(of), s.without(spec))
		}
		st := Stratum{Spec: spec, Of: len(of)}
		if spec.Kind == Worst {
			slices.SortStableFunc(of, func(a, b int) int { return cmp.Compare(samples[b].Rel2, samples[a].Rel2) })
			st.Items = of[:n]
		} else {
			st.Items = draw(of, n, seed, spec.Name())
		}
		slices.Sort(st.Items)
		for _, i := range st.Items {
			chosen[i] = true
		}
		s.Strata = append(s.Strata, st)
	}
	for i := range t.Items {
		if chosen[i] {
			s.Items = append(s.Items, i)
		}
	}
	return s, nil
}

// candidates are the items that a stratum may take, in a slice of its own.
func (s *Sample) candidates(t *landscape.Table, spec Spec, pool, measured []int) ([]int, error) {
	var level func(it *landscape.Item) string
	switch spec.Kind {
	case Worst:
		return slices.Clone(measured), nil
	case Random:
		return slices.Clone(pool), nil
	case Layer:
		level = func(it *landscape.Item) string { return number(it.Role.Layer) }
	case Expert:
		level = func(it *landscape.Item) string { return number(it.Role.Expert) }
	case Projection:
		level = func(it *landscape.Item) string { return it.Role.Projection }
	default:
		return nil, fmt.Errorf("stratum %q is not known (%s)", spec.Kind, forms)
	}
	var of []int
	for _, i := range pool {
		if level(&t.Items[i]) == spec.Level {
			of = append(of, i)
		}
	}
	if len(of) > 0 {
		return of, nil
	}
	known := map[string]bool{}
	for i := range t.Items {
		if l := level(&t.Items[i]); l != "" {
			known[l] = true
		}
	}
	if known[spec.Level] {
		return nil, fmt.Errorf("stratum %s: none of its tensors could be measured under the base variant", spec)
	}
	return nil, fmt.Errorf("stratum %s: the session has no %s %s (known: %s)", spec, spec.Kind, spec.Level, list(known))
}

// without says why there are no more, where that is not plain.
func (s *Sample) without(spec Spec) string {
	var why []string
	if s.LeftOut > 0 {
		why = append(why, fmt.Sprintf("%d could not be measured under the base variant", s.LeftOut))
	}
	if s.Pending > 0 && spec.Kind == Worst {
		why = append(why, fmt.Sprintf("%d are not measured yet", s.Pending))
	}
	if len(why) == 0 {
		return ""
	}
	return " (of all tensors, " + strings.Join(why, " and ") + ")"
}

// number is a layer's or expert's, "" for none.
func number(n int) string {
	if n < 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// list is known levels in order, cut where they are many; runs of numbers are
// drawn together.
func list(known map[string]bool) string {
	if len(known) == 0 {
		return "none"
	}
	var numbers []int
	var words []string
	for w := range known {
		if n, err := strconv.Atoi(w); err == nil {
			numbers = append(numbers, n)
		} else {
			words = append(words, w)
		}
	}
	slices.Sort(numbers)
	slices.Sort(words)
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if j > i {
			parts = append(parts, fmt.Sprintf("%d to %d", numbers[i], numbers[j]))
		} else {
			parts = append(parts, strconv.Itoa(numbers[i]))
		}
		i = j + 1
	}
	parts = append(parts, words...)
	const most = 30
	if len(parts) > most {
		parts = append(parts[:most], "…")
	}
	return strings.Join(parts, ", ")
}

// draw takes n of a list at random, without putting back. Each stratum has a
// generator of its own, PCG-DXSM with the seed and the FNV-1a of its name.
func draw(of []int, n int, seed uint64, name string) []int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	r := rand.New(rand.NewPCG(seed, h.Sum64()))
	for i := range n {
		j := i + r.IntN(len(of)-i)
		of[i], of[j] = of[j], of[i]
	}
	return of[:n]
}

// Overlap is how many tensors two strata share.
type Overlap struct {
	A string `json:"a"`
	B string `json:"b"`
	N int    `json:"n"`
}

// Overlaps are the strata that share tensors.
func (s *Sample) Overlaps() []Overlap {
	out := []Overlap{}
	for i := range s.Strata {
		in := map[int]bool{}
		for _, t := range s.Strata[i].Items {
			in[t] = true
		}
		for j := i + 1; j < len(s.Strata); j++ {
			n := 0
			for _, t := range s.Strata[j].Items {
				if in[t] {
					n++
				}
			}
			if n > 0 {
				out = append(out, Overlap{s.Strata[i].Spec.Name(), s.Strata[j].Spec.Name(), n})
			}
		}
	}
	return out
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
