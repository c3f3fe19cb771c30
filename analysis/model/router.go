package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Choice is what a router said of one token.
type Choice struct {
	Experts []int32 // chosen, by falling score, or as the table of tokens has them
	Weights []float32
}

// choose makes room for the choices of all rows.
func (r *run) choose(m *MoE) {
	k := min(m.TopK, m.Experts)
	if cap(r.chosen) < r.rows*k {
		r.chosen, r.weights = make([]int32, r.rows*k), make([]float32, r.rows*k)
	}
	r.choices = slices.Grow(r.choices[:0], r.rows)[:r.rows]
	for t := range r.choices {
		r.choices[t] = Choice{r.chosen[t*k : (t+1)*k : (t+1)*k], r.weights[t*k : (t+1)*k : (t+1)*k]}
	}
}

// route chooses the experts of a tile's rows. Routers run in f32 in every peer.
func (r *run) route(s *scratch, b *body, x []float32, t *tile) error {
	m := b.l.MoE
	logits := r.logits[t.first*m.Experts:][:t.n*m.Experts]
	r.hook(b.router.at, x, t.n)
	exact := *r
	exact.bf16 = false
	if _, err := exact.apply(s, b.router, x, t.n, logits); err != nil {
		return err
	}
	s.share(t.n, m.Experts*8, func(from, to int) {
		score, by := make([]float32, m.Experts), make([]float32, m.Experts)
		for k := from; k < to; k++ {
			m.scores(score, logits[k*m.Experts:][:m.Experts])
			copy(by, score)
			for e, v := range b.correction {
				by[e] += v
			}
			c := r.choices[t.first+k]
			if b.byToken != nil {
				copy(c.Experts, b.byToken[int(r.tokens[t.first+k])*m.TopK:][:m.TopK])
				m.weigh(c, score)
			} else {
				m.choose(c, score, by)
			}
			for i, e := range c.Experts {
				if b.expertScale != nil {
					c.Weights[i] *= b.expertScale[e]
				}
			}
			if !decided(logits[k*m.Experts:][:m.Experts], by) {
				for i := range r.choices[t.first+k].Weights {
					r.choices[t.first+k].Weights[i] = float32(math.NaN())
				}
			}
		}
	})
	return nil
}

// decided says whether a router said something of every expert. Where it did not,
// other experts would be chosen and their outputs be finite, so that a damaged
// router is not seen unless the row's weights are NaN.
func decided(logits, by []float32) bool {
	for e, v := range logits {
		if v-v != 0 || by[e] != by[e] {
			return false
		}
	}
	return true
}

// scores turns logits into scores.
func (m *MoE) scores(score, logits []float32) {
	switch m.Scores {
	case SigmoidScores:
		for e, v := range logits {
			score[e] = sigmoid(v)
		}
		return
	case SqrtSoftplusScores:
		for e, v := range logits {
			x := float64(v)
			score[e] = float32(math.Sqrt(max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))))
		}
		return
	}
	most := slices.Max(logits)
	var sum float64
	for e, v := range logits {
		score[e] = exp32(v - most)
		sum += float64(score[e])
	}
	for e := range score {
		score[e] = float32(float64(score[e]) / sum)
	}
}

// choose takes the best experts by one figure and weighs them by the other. Of
// groups of experts only the best take part, a group being as good as its
// BestOfGroup best experts together. Of equal ones the first is better.
func (m *MoE) choose(c Choice, score, by []float32) {
	if m.Groups > 1 {
		m.mask(by)
	}
	best(c.Experts, by)
	m.weigh(c, score)
}

// weigh says how much each chosen expert counts.
func (m *MoE) weigh(c Choice, score []float32) {
	var sum float64
	for i, e := range c.Experts {
		c.Weights[i] = score[e]
		sum += float64(score[e])
	}
	for i := range c.Weights {
		w := float64(c.Weights[i])
		if m.Normalize {
			w /= sum + 1e-20
		}
		c.Weights[i] = float32(w) * m.Scaling
	}
}

// mask takes the experts of all but the best groups out of the choice.
func (m *MoE) mask(by []float32) {
	size := m.Experts / m.Groups
	sums := make([]float32, m.Groups)
	some := make([]int32, min(cmp.Or(m.BestOfGroup, 2), size))
	for g := range sums {
		best(some, by[g*size:(g+1)*size])
		for _, e := range some {
			sums[g] += by[g*size+int(e)]
		}
	}
	keep := make([]int32, min(m.TopGroups, m.Groups))
	best(keep, sums)
	for g := range sums {
		if !slices.Contains(keep, int32(g)) {
			for e := range size {
				by[g*size+e] = float32(math.Inf(-1))
			}
		}
	}
}

// best writes the indices of the largest values, the largest first, of equal ones
// the first; NaN is smaller than all.
func best(order []int32, values []float32) {
	n := 0
	for i, v := range values {
		at := n
		for at > 0 && less(values[order[at-1]], v) {
			at--
		}
		if at == len(order) {
			continue
		}
		n = min(n+1, len(order))
		copy(order[at+1:n], order[at:n-1])
		order[at] = int32(i)
	}
}

func less(a, b float32) bool { return a < b || a != a && b == b }

// tokenExperts is the parameter of a router that says which experts each token has.
const tokenExperts = "tid2eid"

// byToken reads the experts of each token.
func (r *list) byToken(b *body, m *MoE) {
	var table []float32
	r.values(&table, router(b.l), tokenExperts, r.spec.Vocab*m.TopK)
	b.byToken = make([]int32, len(table))
	for i, v := range table {
		if e := int32(v); v >= 0 && v < float32(m.Experts) && float32(e) == v {
			b.byToken[i] = e
		} else if r.err == nil {
			r.err = fmt.Errorf("%w: %s %s sends token %d to expert %g of %d", ErrArchitecture, router(b.l), tokenExperts, i/m.TopK, v, m.Experts)
		}
	}
}
