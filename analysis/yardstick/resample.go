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

// interval is a figure with its 95 % percentile interval, and the two-sided
// probability, by the same resamples, of one as far from 0.
type interval struct{ at, low, high, p float64 }

// ratio is Σ sum/Σ n over chunks.
func (t *table) ratio(sum, n []float64) interval {
	return t.resampled(func(w []float64) float64 {
		var a, b float64
		for k, v := range w {
			a += v * sum[k]
			b += v * n[k]
		}
		return a / b
	})
}

// resampled is a figure of chunks that count so many times.
func (t *table) resampled(of func(weights []float64) float64) interval {
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
	var below, above int
	for _, w := range t.weights {
		v := of(w)
		if math.IsNaN(v) {
			continue
		}
		if v <= 0 {
			below++
		}
		if v >= 0 {
			above++
		}
		values = append(values, v)
	}
	if len(values) < 2 {
		return out
	}
	slices.Sort(values)
	out.low, out.high = stats.Quantile(values, 0.025), stats.Quantile(values, 0.975)
	out.p = min(2*float64(min(below, above)+1)/float64(len(values)+1), 1)
	return out
}
