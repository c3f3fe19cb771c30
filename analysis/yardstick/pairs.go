package yardstick

import (
	"context"
	"fmt"
	"math"
)

// pairs compares candidates: each with its baseline, with what it is derived from,
// each with the best one and each with the next in the order given. The first of a
// pair is the baseline, the origin, the best or the earlier one.
func (t *table) pairs(results []Result) []Pair {
	var out []Pair
	seen := map[[2]int]bool{}
	add := func(a, b int) {
		if a >= 0 && b >= 0 && a != b && !seen[[2]int{a, b}] && !seen[[2]int{b, a}] {
			seen[[2]int{a, b}] = true
			out = append(out, t.pair(a, b))
		}
	}
	best, last := -1, -1
	for i, p := range t.s.Candidates {
		if p.Floor || p.Of >= 0 {
			continue
		}
		s := &results[i].All
		if s.NaN == 0 && s.Infinite == 0 && s.Positions > 0 && (best < 0 || s.KL < results[best].All.KL) {
			best = i
		}
	}
	for i, p := range t.s.Candidates {
		if !p.Floor {
			add(p.Baseline, i)
			add(p.Of, i)
		}
	}
	for i, p := range t.s.Candidates {
		if p.Floor || p.Of >= 0 {
			continue
		}
		add(last, i)
		add(best, i)
		last = i
	}
	return out
}

// ComparePair compares any two candidates of a measurement as Analyze does.
func ComparePair(ctx context.Context, s *Setup, chunks []*Chunk, a, b int, seed uint64) (Pair, error) {
	if n := len(s.Candidates); a < 0 || a >= n || b < 0 || b >= n {
		return Pair{}, fmt.Errorf("yardstick: candidates %d and %d of %d", a, b, n)
	}
	t, err := newTable(s, chunks)
	if err != nil {
		return Pair{}, err
	}
	if err := ctx.Err(); err != nil {
		return Pair{}, err
	}
	t.draw(seed)
	return t.pair(a, b), nil
}

// pair compares b with a, position by position.
func (t *table) pair(a, b int) Pair {
	n := len(t.chunks)
	p := Pair{A: a, B: b, Equal: true}
	kl, nll := make([]float64, n), make([]float64, n)
	nKL, nNLL := make([]float64, n), make([]float64, n)
	for k, c := range t.chunks {
		x, y := c.Rows[a], c.Rows[b]
		for i := range x {
			if !x[i].equal(&y[i]) {
				p.Equal = false
			}
			d, e := y[i].KL-x[i].KL, y[i].NLL-x[i].NLL
			if finite(d) {
				kl[k] += d
				nKL[k]++
			} else {
				p.Left++
			}
			if finite(e) {
				nll[k] += e
				nNLL[k]++
			}
		}
		if nKL[k] > 0 {
			p.Chunks++
		}
		if kl[k] < 0 {
			p.Wins++
		}
	}
	d, e := t.ratio(kl, nKL), t.ratio(nll, nNLL)
	p.DKL, p.Low, p.High, p.P = d.at, d.low, d.high, d.p
	p.DNLL, p.NLow, p.NHigh = e.at, e.low, e.high
	switch {
	case p.Chunks == 0:
		p.Equal = p.Equal && n > 0
		p.Why = "no position with figures of both"
	case p.Chunks < 2:
		p.Why = "one chunk has no interval"
	case p.Left > 0:
		p.Why = fmt.Sprintf("%d positions without a finite figure of both are left out", p.Left)
	}
	return p
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// equal compares bits, so that a NaN equals itself.
func (r *Row) equal(o *Row) bool {
	return r.Top == o.Top && math.Float64bits(r.KL) == math.Float64bits(o.KL) &&
		math.Float64bits(r.Reverse) == math.Float64bits(o.Reverse) && math.Float64bits(r.NLL) == math.Float64bits(o.NLL)
}
