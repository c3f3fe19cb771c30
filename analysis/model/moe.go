package model

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"quantscope/quant/topology"
)

// Choice is what a router said of one token.
type Choice struct {
	Experts []int32 // chosen, by falling score
	Weights []float32
}

func expert(l *Layer, e int, projection string) Place {
	return Place{Kind: topology.Expert, Layer: l.Index, Expert: e, Projection: projection}
}

func router(l *Layer) Place {
	return Place{Kind: topology.Router, Layer: l.Index, Expert: -1}
}

// feedForward is a gated MLP of places over n rows.
func (r *run) feedForward(ctx context.Context, f FeedForward, place func(string) Place, x []float32, n int, out []float32) ([]float32, error) {
	gate, err := r.linear(ctx, place("gate"), f.Inner, r.spec.Hidden)
	if err != nil {
		return nil, err
	}
	up, err := r.linear(ctx, place("up"), f.Inner, r.spec.Hidden)
	if err != nil {
		return nil, err
	}
	down, err := r.linear(ctx, place("down"), r.spec.Hidden, f.Inner)
	if err != nil {
		return nil, err
	}
	r.hook(place("gate"), x, n)
	r.hook(place("up"), x, n)
	var s ffScratch
	s.gate, s.up = r.gate, r.up
	out, err = r.gated(f, gate, up, down, x, n, &s, out, r.o.Threads, place("down"))
	r.gate, r.up = s.gate, s.up
	return out, err
}

type ffScratch struct{ gate, up []float32 }

func (r *run) gated(f FeedForward, gate, up, down linear, x []float32, n int, s *ffScratch, out []float32, threads int, at Place) (_ []float32, err error) {
	if s.gate, err = r.applyOn(gate, x, n, s.gate, threads); err != nil {
		return nil, err
	}
	if s.up, err = r.applyOn(up, x, n, s.up, threads); err != nil {
		return nil, err
	}
	f.Act.apply(s.gate, s.up)
	r.round(s.gate)
	r.hook(at, s.gate, n)
	return r.applyOn(down, s.gate, n, out, threads)
}

// moe is a layer of experts over the normed input x of n rows.
func (r *run) moe(ctx context.Context, l *Layer, x []float32, n int) ([]float32, error) {
	m := l.MoE
	choices, err := r.route(ctx, l, x, n)
	if err != nil {
		return nil, err
	}
	if r.o.Routed != nil {
		r.o.Routed(r.candidate, l.Index, r.logits, choices)
	}
	tokens := make([][]int32, m.Experts) // by expert: rows, and which of a row's choices
	slots := make([][]int32, m.Experts)
	for t := range choices {
		for j, e := range choices[t].Experts {
			tokens[e], slots[e] = append(tokens[e], int32(t)), append(slots[e], int32(j))
		}
	}
	r.out = grow(r.out, n*r.spec.Hidden)
	clear(r.out)
	if err := r.experts(ctx, l, x, choices, tokens, slots); err != nil {
		return nil, err
	}
	r.round(r.out)
	if m.Shared > 0 {
		shared := func(p string) Place {
			return Place{Kind: topology.SharedExpert, Layer: l.Index, Expert: -1, Projection: p}
		}
		y, err := r.feedForward(ctx, FeedForward{m.Shared, m.Act}, shared, x, n, r.q)
		if err != nil {
			return nil, err
		}
		r.q = y
		for i := range r.out {
			r.out[i] += y[i]
		}
		r.round(r.out)
	}
	return r.out, nil
}

// expertWave is how many experts are read before they run beside each other.
const expertWave = 16

// experts adds every chosen expert's output, weighed, to r.out: experts in
// ascending order for each token, so that the sum does not depend on threads.
func (r *run) experts(ctx context.Context, l *Layer, x []float32, choices []Choice, tokens, slots [][]int32) error {
	m, h := l.MoE, r.spec.Hidden
	type job struct {
		e              int
		gate, up, down linear
		in, out        []float32
	}
	var jobs []job
	flush := func() error {
		var next atomic.Int64
		var wg sync.WaitGroup
		var once sync.Once
		var failed error
		inner := 1
		workers := min(max(r.o.Threads, 1), len(jobs))
		if len(jobs) < r.o.Threads {
			workers, inner = 1, r.o.Threads
		}
		for range workers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				var s ffScratch
				for {
					i := int(next.Add(1)) - 1
					if i >= len(jobs) {
						return
					}
					j := &jobs[i]
					var err error
					if j.out, err = r.gated(m.FeedForward, j.gate, j.up, j.down, j.in, len(tokens[j.e]), &s, j.out, inner, expert(l, j.e, "down")); err != nil {
						once.Do(func() { failed = err })
						return
					}
				}
			}()
		}
		wg.Wait()
		if failed != nil {
			return failed
		}
		for i := range jobs {
			j := &jobs[i]
			for k, t := range tokens[j.e] {
				w := choices[t].Weights[slots[j.e][k]]
				y, to := j.out[k*h:][:h], r.out[int(t)*h:][:h]
				for c, v := range y {
					to[c] += w * v
				}
			}
		}
		jobs = jobs[:0]
		return nil
	}
	for e := range m.Experts {
		if len(tokens[e]) == 0 {
			continue
		}
		j := job{e: e, in: make([]float32, len(tokens[e])*h)}
		for k, t := range tokens[e] {
			copy(j.in[k*h:], x[int(t)*h:][:h])
		}
		var err error
		if j.gate, err = r.linear(ctx, expert(l, e, "gate"), m.Inner, h); err != nil {
			return err
		}
		if j.up, err = r.linear(ctx, expert(l, e, "up"), m.Inner, h); err != nil {
			return err
		}
		if j.down, err = r.linear(ctx, expert(l, e, "down"), h, m.Inner); err != nil {
			return err
		}
		r.hook(expert(l, e, "gate"), j.in, len(tokens[e]))
		r.hook(expert(l, e, "up"), j.in, len(tokens[e]))
		if jobs = append(jobs, j); len(jobs) == expertWave {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// route chooses the experts of each row.
func (r *run) route(ctx context.Context, l *Layer, x []float32, n int) ([]Choice, error) {
	m := l.MoE
	w, err := r.linear(ctx, router(l), m.Experts, r.spec.Hidden)
	if err != nil {
		return nil, err
	}
	exact := *r // routers run in f32 in every peer
	exact.o.BF16 = false
	if r.logits, err = exact.apply(w, x, n, r.logits); err != nil {
		return nil, err
	}
	var bias []float32
	if m.Correction {
		if bias, err = r.vector(ctx, router(l), "e_score_correction_bias", m.Experts); err != nil {
			return nil, err
		}
	}
	choices := make([]Choice, n)
	score, by := make([]float32, m.Experts), make([]float32, m.Experts)
	for t := range n {
		m.scores(score, r.logits[t*m.Experts:][:m.Experts])
		copy(by, score)
		for e, b := range bias {
			by[e] += b
		}
		choices[t] = m.choose(score, by)
	}
	return choices, nil
}

// scores turns logits into scores.
func (m *MoE) scores(score, logits []float32) {
	if m.Sigmoid {
		for e, v := range logits {
			score[e] = sigmoid(v)
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
// groups of experts only the best take part, a group being as good as its two
// best experts together. Of equal ones the first is better.
func (m *MoE) choose(score, by []float32) Choice {
	if m.Groups > 1 {
		m.mask(by)
	}
	order := best(by, m.TopK)
	c := Choice{Experts: order, Weights: make([]float32, len(order))}
	var sum float64
	for i, e := range order {
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
	return c
}

// mask takes the experts of all but the best groups out of the choice.
func (m *MoE) mask(by []float32) {
	size := m.Experts / m.Groups
	sums := make([]float32, m.Groups)
	for g := range sums {
		for _, e := range best(by[g*size:(g+1)*size], 2) {
			sums[g] += by[g*size+int(e)]
		}
	}
	keep := best(sums, m.TopGroups)
	for g := range sums {
		if !slices.Contains(keep, int32(g)) {
			for e := range size {
				by[g*size+e] = float32(math.Inf(-1))
			}
		}
	}
}

// best are the indices of the k largest values, the largest first.
func best(values []float32, k int) []int32 {
	order := make([]int32, len(values))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(values[b], values[a]) })
	return order[:min(k, len(order))]
}
