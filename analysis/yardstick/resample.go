package yardstick

import (
	"math"
	"math/rand/v2"
	"slices"

	"quantscope/analysis/stats"
)

// resamples is how many there are of each interval.
const resamples = 2000

// draw makes the resamples that all intervals of a report share: of each corpus'
// C chunks C−1 are drawn with replacement, and each drawn one counts C/(C−1) times
// (Rao and Wu 1988), so that the variance of few chunks is not too small. The
// generator is PCG-DXSM with the seed.
func (t *table) draw(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	t.weights = make([][]float64, resamples)
	for b := range t.weights {
		w := make([]float64, len(t.chunks))
		for _, stratum := range t.strata {
			n := len(stratum)
			if n < 2 {
				for _, k := range stratum {
					w[k] = 1
				}
				continue
			}
			for range n - 1 {
				w[stratum[r.IntN(n)]] += float64(n) / float64(n-1)
			}
		}
		t.weights[b] = w
	}
}

// interval is a figure with its 95 % interval, and the two-sided probability of one
// as far from 0, which is below 0.05 where the interval leaves out 0.
type interval struct{ at, low, high, p float64 }

// ratio is Σ sum/Σ n over chunks. Its interval is that of the resamples' percentiles,
// wider by Student's t over the normal quantile: few chunks do not know how much
// chunks vary, and of two, percentiles alone hold the true figure one time in two.
func (t *table) ratio(sum, n []float64) interval {
	return t.resampled(func(w []float64) float64 {
		var a, b float64
		for k, v := range w {
			a += v * sum[k]
			b += v * n[k]
		}
		return a / b
	}, func(at float64) float64 { return t.freedom(sum, n, at) })
}

// freedom is how many degrees of freedom the variance of a ratio has, by
// Satterthwaite's rule (1946) over the corpora: (Σ v)²/Σ v²/(C−1), v being a corpus'
// part of the variance. A corpus that varies more than others counts for most.
func (t *table) freedom(sum, n []float64, ratio float64) float64 {
	var all, squares float64
	for _, stratum := range t.strata {
		c := float64(len(stratum))
		if c < 2 {
			continue
		}
		var s, s2 float64
		for _, k := range stratum {
			r := sum[k] - ratio*n[k]
			s += r
			s2 += r * r
		}
		v := c / (c - 1) * max(s2-s*s/c, 0)
		all += v
		squares += v * v / (c - 1)
	}
	return all * all / squares
}

// normal95 is the normal quantile of 95 % intervals.
const normal95 = 1.959963984540054

// resampled is a figure of chunks that count so many times; freedom are the degrees
// of freedom of its variance, NaN where it does not vary.
func (t *table) resampled(of func(weights []float64) float64, freedom func(at float64) float64) interval {
	ones := make([]float64, len(t.chunks))
	for i := range ones {
		ones[i] = 1
	}
	nan := math.NaN()
	out := interval{of(ones), nan, nan, nan}
	if len(t.chunks) < 2 || math.IsNaN(out.at) {
		return out
	}
	values := make([]float64, 0, len(t.weights))
	for _, w := range t.weights {
		if v := of(w); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	if len(values) < 2 {
		return out
	}
	slices.Sort(values)
	df, wider := freedom(out.at), 1.0
	if df > 0 && !math.IsInf(df, 1) {
		wider = stats.StudentQuantile(0.975, df) / normal95
	}
	below := max(out.at-stats.Quantile(values, 0.025), 0)
	above := max(stats.Quantile(values, 0.975)-out.at, 0)
	out.low, out.high = out.at-wider*below, out.at+wider*above
	// The half towards 0 is so many standard errors long.
	half := below
	if out.at < 0 {
		half = above
	}
	switch {
	case out.at == 0:
		out.p = 1
	case wider == 1 || half == 0:
		out.p = 0
	default:
		out.p, _ = stats.StudentTail(math.Abs(out.at)*normal95/half, df)
		out.p *= 2
	}
	out.p = max(out.p, 2/float64(len(values)+1)) // resamples do not tell more
	return out
}
