package model

import (
	"fmt"
	"math"
	"slices"
)

// NonFiniteError says where a pass met a value that is not finite.
type NonFiniteError struct {
	What            string // embedding, output
	Layer           int    // -1 of embeddings
	Chunk, Position int
	Channel         int
	Value           float32
}

func (e *NonFiniteError) Error() string {
	where := ""
	if e.Layer >= 0 {
		where = fmt.Sprintf("layer %d: ", e.Layer)
	}
	return fmt.Sprintf("%s%s of chunk %d, position %d, channel %d is %g", where, e.What, e.Chunk, e.Position, e.Channel, e.Value)
}

// measure sums the squares of every row of hidden states. A sum in f64 of f32
// squares is finite where all of the row is.
func (r *run) measure(x []float32) {
	h := r.spec.Width()
	r.squares = slices.Grow(r.squares[:0], len(x)/h)[:len(x)/h]
	for t := range r.squares {
		r.squares[t] = r.o.Set.SumSquares(x[t*h:][:h])
	}
}

// rms is the root mean square of all rows that are finite.
func (r *run) rms() float64 {
	var sum float64
	n := 0
	for _, s := range r.squares {
		if finite64(s) {
			sum, n = sum+s, n+1
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return math.Sqrt(sum / float64(n) / float64(r.spec.Width()))
}

// finite looks for rows of hidden states that are not finite in sequences where
// none was before; met is called with the first of each.
func (r *run) finite(x []float32, broken []bool, layer int, what string, met func(*NonFiniteError) error) error {
	for i, s := range r.seqs {
		if broken[i] {
			continue
		}
		t := slices.IndexFunc(r.squares[s.first:s.first+s.n], func(v float64) bool { return !finite64(v) })
		if t < 0 {
			continue
		}
		broken[i] = true
		row := x[(s.first+t)*r.spec.Width():][:r.spec.Width()]
		c := slices.IndexFunc(row, func(v float32) bool { return !finite64(float64(v)) })
		if err := met(&NonFiniteError{what, layer, s.chunk, s.past + t, c, row[c]}); err != nil {
			return err
		}
	}
	return nil
}

func finite64(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
