package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Bootstrap is an estimate with a percentile interval from resamples.
type Bootstrap struct {
	Estimate      float64 // of the sample itself
	Low, High     float64
	StandardError float64 // standard deviation of the resamples, divisor n−1
	AboveZero     float64 // share of the resamples above 0
	Resamples     int     // that gave a finite figure
	NotFinite     int     // that did not, or pairs left out of a paired mean
	Why           string  // why there is none; figures are NaN then
}

// MaxResamples bounds the resamples of one bootstrap.
const MaxResamples = 1_000_000

// BootstrapCI resamples n items with replacement and takes a figure of each
// resample. stat gets the indices of the items, in a slice that it must not
// keep; it is asked for the items in order first. The generator is PCG-DXSM with
// the seed, so the same arguments give the same interval.
func BootstrapCI(n int, seed uint64, resamples int, stat func(idx []int) float64, level float64) Bootstrap {
	if n < 1 || resamples < 2 || resamples > MaxResamples {
		return noBootstrap("nothing to resample")
	}
	idx := make([]int, n)
	for i := range idx {
		idx[i] = i
	}
	estimate := stat(idx)
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	values := make([]float64, resamples)
	for k := range values {
		for i := range idx {
			idx[i] = r.IntN(n)
		}
		values[k] = stat(idx)
	}
	return summarize(estimate, values, level)
}

// BootstrapPaired resamples pairs by given indices, one resample a row, and
// takes the mean of x − y of each. A pair that is not finite is refused, since
// the indices count it.
func BootstrapPaired(x, y []float64, indices [][]int, level float64) Bootstrap {
	if len(x) != len(y) {
		return noBootstrap("the two sides differ in number")
	}
	if len(x) == 0 || len(indices) < 2 {
		return noBootstrap("nothing to resample")
	}
	d := make([]float64, len(x))
	for i := range d {
		if d[i] = x[i] - y[i]; !isFinite(d[i]) {
			return noBootstrap("a pair is not finite")
		}
	}
	values := make([]float64, len(indices))
	for k, row := range indices {
		if len(row) == 0 {
			return noBootstrap("a resample is empty")
		}
		var sum float64
		for _, i := range row {
			if i < 0 || i >= len(d) {
				return noBootstrap("an index lies outside the pairs")
			}
			sum += d[i]
		}
		values[k] = sum / float64(len(row))
	}
	return summarize(meanOf(d), values, level)
}

func noBootstrap(why string) Bootstrap {
	nan := math.NaN()
	return Bootstrap{Estimate: nan, Low: nan, High: nan, StandardError: nan, AboveZero: nan, Why: why}
}

func summarize(estimate float64, values []float64, level float64) Bootstrap {
	sorted := sortedFinite(values)
	switch {
	case !(level > 0 && level < 1):
		return noBootstrap("the level lies outside 0 to 1")
	case !isFinite(estimate):
		return noBootstrap("the figure of the sample is not finite")
	case len(sorted) < 2:
		return noBootstrap("fewer than two resamples are finite")
	}
	_, variance, _, _ := Moments(sorted)
	above, _ := slices.BinarySearchFunc(sorted, 0, func(v, zero float64) int {
		if v > zero {
			return 1
		}
		return -1
	})
	return Bootstrap{
		Estimate: estimate, StandardError: math.Sqrt(variance),
		Low: Quantile(sorted, (1-level)/2), High: Quantile(sorted, (1+level)/2),
		AboveZero: float64(len(sorted)-above) / float64(len(sorted)),
		Resamples: len(sorted), NotFinite: len(values) - len(sorted),
	}
}
