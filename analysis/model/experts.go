package model

import (
	"context"
	"fmt"
	"slices"
)

// experts is where a layer's routed experts come from.
type experts struct {
	lend *handles
	rd   reader // without its source
	kept []func()

	all *kept // that has them, in decoding; what is above is not used then
	at  *keptLayer
}

// routing are the rows of every expert, in ascending order, and how much each
// counts.
type routing struct {
	first  []int // of an expert in rows; one more than experts
	rows   []int32
	weight []float32
}

func (r *run) routing(m *MoE) routing {
	g := routing{first: make([]int, m.Experts+1)}
	for _, c := range r.choices {
		for _, e := range c.Experts {
			g.first[e+1]++
		}
	}
	for e := range m.Experts {
		g.first[e+1] += g.first[e]
	}
	g.rows, g.weight = make([]int32, g.first[m.Experts]), make([]float32, g.first[m.Experts])
	next := slices.Clone(g.first)
	for t, c := range r.choices {
		for j, e := range c.Experts {
			g.rows[next[e]], g.weight[next[e]] = int32(t), c.Weights[j]
			next[e]++
		}
	}
	return g
}

// count is how many rows an expert has.
func (g *routing) count(e int) int { return g.first[e+1] - g.first[e] }

// wave are experts that are in memory together.
type wave struct {
	e    []int
	of   []gated
	from Source
}

// waves shares the experts that have rows, and are wanted, out to as many bytes of weights as a
// wave may have.
func (r *run) waves(l *Layer, g *routing) []wave {
	m, limit := l.MoE, r.o.Wave
	if limit <= 0 {
		limit = defaultWave
	}
	most := max(int(min(limit/max(expertBytes(r.spec, m), 1), int64(m.Experts))), 1)
	var out []wave
	for e := range m.Experts {
		if g.count(e) == 0 || !r.wantsExpert(l, e) {
			continue
		}
		if k := len(out); k == 0 || len(out[k-1].e) == most {
			out = append(out, wave{})
		}
		w := &out[len(out)-1]
		w.e = append(w.e, e)
	}
	return out
}

// expertBytes is the size of an expert that is stored in 16 bits.
func expertBytes(s *Spec, m *MoE) int64 { return 3 * 2 * int64(s.Hidden) * int64(m.Inner) }

// read brings the experts of a wave into memory.
func (x *experts) read(l *Layer, w *wave) error {
	w.from = x.lend.get()
	rd := x.rd
	rd.src = w.from
	w.of = make([]gated, len(w.e))
	for i, e := range w.e {
		var err error
		if w.of[i], err = rd.expert(l, e); err != nil {
			return err
		}
	}
	return nil
}

// back gives a wave's memory back, unless others use what is in it.
func (x *experts) back(w *wave, keep bool) {
	w.of = nil
	if !x.lend.forks() || w.from == nil {
		return // released with the layer
	}
	from := w.from
	if keep {
		x.kept = append(x.kept, func() { x.lend.put(from) })
		return
	}
	x.lend.put(from)
}

// experts adds every chosen expert's output, weighed, to r.out: experts in
// ascending order for each row, so that the sum does not depend on threads or on
// waves.
func (r *run) experts(ctx context.Context, b *body, x *experts) error {
	if !r.look {
		r.out = grow(r.out, r.rows*r.spec.Hidden)
		clear(r.out)
	}
	g := r.routing(b.l.MoE)
	if x.all != nil {
		return r.keptExperts(ctx, b, x, &g)
	}
	waves := r.waves(b.l, &g)
	lends := len(waves) == 1
	if !lends {
		x.rd.lent = nil
	}
	var ahead *future[struct{}]
	read := func(k int) {
		ahead = async(func() (struct{}, error) { return struct{}{}, x.read(b.l, &waves[k]) })
	}
	if len(waves) > 0 {
		read(0)
	}
	for k := range waves {
		w := &waves[k]
		_, err := ahead.wait()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			x.back(w, false)
			return err
		}
		if k+1 < len(waves) {
			read(k + 1)
		}
		if err := r.waveOf(b, w, &g); err != nil {
			if k+1 < len(waves) {
				ahead.wait()
			}
			return err
		}
		x.back(w, lends)
	}
	return nil
}

// keptExperts is experts where those that were read stay.
func (r *run) keptExperts(ctx context.Context, b *body, x *experts, g *routing) error {
	w := wave{e: r.chosenExperts.e[:0], of: r.chosenExperts.of[:0]}
	for e := range b.l.MoE.Experts {
		if g.count(e) == 0 {
			continue
		}
		of, err := x.all.expert(ctx, b.l, x.at, e)
		if err != nil {
			return err
		}
		w.e, w.of = append(w.e, e), append(w.of, of)
	}
	r.chosenExperts = w
	return r.waveOf(b, &w, g)
}

// expertRows is how many rows of an expert go through it at once.
const expertRows = 512

// waveOf computes the experts of a wave and adds what they say to r.out, no more
// rows at a time than there are hidden states.
func (r *run) waveOf(b *body, w *wave, g *routing) error {
	for from, to := 0, 0; from < len(w.e); from = to {
		rows := 0
		for to = from; to < len(w.e) && (to == from || rows+g.count(w.e[to]) <= max(r.rows, fewRows)); to++ {
			rows += g.count(w.e[to])
		}
		if err := r.some(b, w, g, from, to, rows); err != nil {
			return err
		}
	}
	return nil
}

// leastExperts is how many multiply-adds are worth goroutines; a product lays
// weights out at the cost of some rows.
const (
	leastExperts = 1 << 21
	layRows      = 16
)

// some are the experts from `from` to `to` of a wave, which have so many rows.
func (r *run) some(b *body, w *wave, g *routing, from, to, rows int) error {
	m, h, cost := b.l.MoE, r.spec.Hidden, r.costs(b.l)
	type job struct{ i, from, n, to int }
	var jobs []job
	first := make([]int, 0, to-from) // of an expert's rows in r.wave
	at := 0
	for i := from; i < to; i++ {
		first = append(first, at)
		n := g.count(w.e[i])
		for k := 0; k < n; k += expertRows {
			jobs = append(jobs, job{i, k, min(expertRows, n-k), at + k})
		}
		at += n
	}
	if !r.look {
		r.wave = grow(r.wave, rows*h)
	}
	// To lay an expert's weights out costs as much as some rows.
	work := (int64(rows) + layRows*int64(len(jobs))) * cost.expert
	err := r.each(len(jobs), r.o.Input == nil && len(jobs) >= r.o.Threads && work >= leastExperts, func(k int, s *scratch) error {
		j := jobs[k]
		e := w.e[j.i]
		s.x = grow(s.x, j.n*h)
		for i, t := range g.rows[g.first[e]+j.from:][:j.n] {
			copy(s.x[i*h:(i+1)*h], r.normed[int(t)*h:])
		}
		var y []float32
		if !r.look {
			y = r.wave[j.to*h : (j.to+j.n)*h]
		}
		if err := r.gated(s, m.FeedForward, &w.of[j.i], s.x, j.n, y); err != nil {
			return fmt.Errorf("expert %d: %w", e, err)
		}
		r.did(s, cost.expert*int64(j.n))
		return nil
	})
	if err != nil || r.look {
		return err
	}
	parts := max(min(r.o.Threads, r.rows/64), 1)
	return r.each(parts, parts > 1, func(p int, _ *scratch) error {
		low, high := p*r.rows/parts, (p+1)*r.rows/parts
		for i, at := range first {
			e := w.e[from+i]
			rows := g.rows[g.first[e]:g.first[e+1]]
			lo, _ := slices.BinarySearch(rows, int32(low))
			for k := lo; k < len(rows) && int(rows[k]) < high; k++ {
				r.o.Set.AddScaled(r.out[int(rows[k])*h:][:h], r.wave[(at+k)*h:][:h], g.weight[g.first[e]+k])
			}
		}
		return nil
	})
}
