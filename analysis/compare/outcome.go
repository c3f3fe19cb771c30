package compare

import (
	"math"

	"quantscope/analysis/landscape"
	"quantscope/analysis/stats"
)

// outcome counts and averages pairs.
//
// The interval of the change is Student's with n−1 degrees of freedom: of a mean
// difference as usual, of a relative change on the ratio ΣB/ΣA made linear, with
// the standard error √(Σ(b − a·ΣB/ΣA)²/(n(n−1)))/|ā| (Cochran 1977, section
// 6.4). It says how far the change would move over other tensors like these.
func outcome(m Metric, pairs []pair) Outcome {
	var o Outcome
	n := float64(len(pairs))
	if len(pairs) == 0 {
		o.MeanA, o.MeanB, o.Change = landscape.Undefined(noPairs), landscape.Undefined(noPairs), landscape.Undefined(noPairs)
		return o
	}
	// Halved by n before adding, so that no sum leaves the range.
	var meanA, meanB, mean float64
	for _, p := range pairs {
		meanA += p.a / n
		meanB += p.b / n
		d := p.b - p.a
		mean += d / n
		switch d *= float64(m.Worse); {
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
	ratio, scale := 1.0, 1.0 // residuals are b − ratio·a − centre, in units of scale
	centre := mean
	o.Change = landscape.Exact(mean)
	if m.Relative {
		o.Change.V = stats.RelativeChange(meanA, meanB)
		if math.IsNaN(o.Change.V) {
			o.Change = landscape.Undefined("the mean of A is 0")
			return o
		}
		if math.IsInf(o.Change.V, 0) {
			o.Change = landscape.Undefined(outOfRange)
			return o
		}
		if meanA != 0 {
			ratio, scale, centre = meanB/meanA, math.Abs(meanA), 0
		}
	}
	if len(pairs) < 2 {
		return o
	}
	var squares float64
	for _, p := range pairs {
		d := (p.b - ratio*p.a - centre) / scale
		squares += d * d
	}
	reach := stats.StudentQuantile((1+landscape.Confidence)/2, n-1) * math.Sqrt(squares/(n*(n-1)))
	if isFinite(reach) {
		o.Change.Low, o.Change.High = o.Change.V-reach, o.Change.V+reach
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
