package calibrate

import (
	"slices"

	"quantscope/analysis/model"
)

// NewRankBound is the bound for so many tokens of text, of the layer that needs
// most. Experts that are chosen evenly are each given T·top_k/n_experts tokens, and
// a Hessian of fewer tokens than it has columns is singular.
func NewRankBound(s *model.Spec, tokens int64) RankBound {
	b := RankBound{Tokens: tokens}
	for _, layers := range [][]model.Layer{s.Layers, s.MTP} {
		for i := range layers {
			m := layers[i].MoE
			if m == nil {
				continue
			}
			k := int64(max(min(m.TopK, m.Experts), 1))
			need := (int64(m.Inner)*int64(m.Experts) + k - 1) / k
			if need > b.Need {
				b.Inner, b.Experts, b.TopK, b.Need = m.Inner, m.Experts, m.TopK, need
			}
		}
	}
	return b
}

// Inactive are the experts that no token was routed to.
func (c *Counts) Inactive() []int { return c.below(1) }

// Deficient are the experts that were given tokens, but fewer than the columns of
// their down projections: their Hessians are singular.
func (c *Counts) Deficient(columns int) []int {
	return slices.DeleteFunc(c.below(int64(columns)), func(e int) bool { return c.Expert[e] == 0 })
}

func (c *Counts) below(n int64) []int {
	var out []int
	for e, k := range c.Expert {
		if k < n {
			out = append(out, e)
		}
	}
	return out
}

// Spread is how tokens were shared out among the experts of some layers.
type Spread struct {
	Experts   int     `json:"experts"`
	Inactive  int     `json:"inactive"`  // that no token was routed to
	Deficient int     `json:"deficient"` // that were given some, but fewer than the columns of their down projections
	Min       int64   `json:"min"`       // tokens of an expert
	Median    float64 `json:"median"`
	Max       int64   `json:"max"`
}

// SpreadOf is that of all experts of the layers, whose down projections have so
// many columns.
func SpreadOf(counts []Counts, columns int) Spread {
	var s Spread
	var all []int64
	for i := range counts {
		all = append(all, counts[i].Expert...)
		s.Inactive += len(counts[i].Inactive())
		s.Deficient += len(counts[i].Deficient(columns))
	}
	if s.Experts = len(all); s.Experts == 0 {
		return s
	}
	slices.Sort(all)
	n := len(all)
	s.Min, s.Max, s.Median = all[0], all[n-1], (float64(all[(n-1)/2])+float64(all[n/2]))/2
	return s
}
