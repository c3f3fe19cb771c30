package compare

import (
	"math"

	"quantscope/analysis/landscape"
	"quantscope/analysis/stats"
)

// outcome counts and averages pairs; see stats.MeanChange for the interval.
func outcome(m Metric, pairs []pair) Outcome {
	var o Outcome
	n := float64(len(pairs))
	if len(pairs) == 0 {
		o.MeanA, o.MeanB, o.Change = landscape.Undefined(noPairs), landscape.Undefined(noPairs), landscape.Undefined(noPairs)
		return o
	}
	var meanA, meanB float64
	x, y := make([]float64, len(pairs)), make([]float64, len(pairs))
	for i, p := range pairs {
		x[i], y[i] = p.a, p.b
		meanA += p.a / n // divided before adding, so that no sum leaves the range
		meanB += p.b / n
		switch d := (p.b - p.a) * float64(m.Worse); {
		case m.Worse == 0:
		case d < 0:
			o.Wins++
		case d > 0:
			o.Losses++
		default:
			o.Ties++
		}
	}
	o.MeanA, o.MeanB = landscape.Exact(meanA), landscape.Exact(meanB)
	switch change, low, high := stats.MeanChange(x, y, m.Relative, landscape.Confidence); {
	case math.IsNaN(change):
		o.Change = landscape.Undefined("the mean of A is 0")
	case math.IsInf(change, 0):
		o.Change = landscape.Undefined(outOfRange)
	default:
		o.Change = landscape.Value{V: change, Low: low, High: high}
	}
	return o
}

// bins is how many a distribution has.
const bins = 40

// quantiles that a distribution quotes.
var quantiles = []float64{0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1}

// distribution bins changes in ascending order. The bins span the middle 98 %, so
// that one outlier does not put all else into one bin.
func distribution(changes []float64) Distribution {
	d := Distribution{Quantiles: []Quantile{}, Counts: []int{}}
	if len(changes) == 0 {
		d.Why = "no pair has a change that is defined"
		return d
	}
	for _, q := range quantiles {
		d.Quantiles = append(d.Quantiles, Quantile{q, stats.Quantile(changes, q)})
	}
	d.Low, d.High = stats.Quantile(changes, 0.01), stats.Quantile(changes, 0.99)
	width := (d.High - d.Low) / bins
	if !(width > 0) || math.IsInf(width, 0) { // all alike, or further apart than figures reach
		d.Low, d.High = changes[0], changes[len(changes)-1]
		d.Counts = []int{len(changes)}
		return d
	}
	d.Counts = make([]int, bins)
	for _, c := range changes {
		switch {
		case c < d.Low:
			d.Below++
		case c > d.High:
			d.Above++
		default:
			d.Counts[min(bins-1, int((c-d.Low)/width))]++
		}
	}
	return d
}
