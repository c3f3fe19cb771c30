package yardstick

import "math"

// Running is the mean KL of one candidate while chunks come, with the standard
// error that a report of the same chunks states; see Analyze.
type Running struct {
	strata    map[int][]runningChunk // by corpus
	sum       float64
	positions int64
}

type runningChunk struct {
	sum float64
	n   int64
}

// Add takes in the rows of a chunk. Rows without a finite KL are left out.
func (r *Running) Add(corpus int, rows []Row) {
	var c runningChunk
	for i := range rows {
		if kl := rows[i].KL; !rows[i].nan() && finite(kl) {
			c.sum += kl
			c.n++
		}
	}
	if c.n == 0 {
		return
	}
	if r.strata == nil {
		r.strata = map[int][]runningChunk{}
	}
	r.strata[corpus] = append(r.strata[corpus], c)
	r.sum += c.sum
	r.positions += c.n
}

// Mean is NaN before the first chunk.
func (r *Running) Mean() float64 {
	if r.positions == 0 {
		return math.NaN()
	}
	return r.sum / float64(r.positions)
}

// StdErr is NaN while a corpus has fewer than two chunks, since its spread is not
// known then.
func (r *Running) StdErr() float64 {
	if r.positions == 0 {
		return math.NaN()
	}
	mean := r.Mean()
	var variance float64
	for _, chunks := range r.strata {
		n := float64(len(chunks))
		if n < 2 {
			return math.NaN()
		}
		var sum, sum2 float64
		for _, c := range chunks {
			d := c.sum - mean*float64(c.n)
			sum += d
			sum2 += d * d
		}
		variance += n / (n - 1) * max(sum2-sum*sum/n, 0)
	}
	return math.Sqrt(variance) / float64(r.positions)
}
