package stats

import "math"

// Paired gathers what two treatments did to the same items, one pair at a time.
// The zero Paired is empty.
type Paired struct {
	N                  int // pairs whose two values are finite
	Wins, Ties, Losses int // of the second; all are 0 where no value is better
	LeftOut            int // pairs of which a value is not finite
	SumA, SumB         float64
}

// Add takes in a pair. worse is +1 where a larger value is worse, -1 where a
// smaller one is, 0 where neither is.
func (p *Paired) Add(a, b float64, worse int) {
	d := b - a
	if math.IsNaN(d) || math.IsInf(d, 0) {
		p.LeftOut++
		return
	}
	p.N++
	p.SumA += a
	p.SumB += b
	switch d *= float64(worse); {
	case worse == 0:
	case d < 0:
		p.Wins++
	case d > 0:
		p.Losses++
	default:
		p.Ties++
	}
}

// Change is (ΣB − ΣA)/|ΣA|, the relative change of the mean; NaN where there is
// no pair or ΣA is 0.
func (p *Paired) Change() float64 {
	if p.N == 0 {
		return math.NaN()
	}
	return RelativeChange(p.SumA, p.SumB)
}

// RelativeChange is (b − a)/|a|; 0 where both are 0, NaN where only a is.
func RelativeChange(a, b float64) float64 {
	switch {
	case a == b && !math.IsInf(a, 0):
		return 0
	case a == 0:
		return math.NaN()
	}
	return (b - a) / math.Abs(a)
}

// MeanChange is the change from a to b over pairs with an interval at the level: the
// mean of b − a, or if relative the change of the mean, (Σb − Σa)/|Σa|. The interval is
// that of Student's t with n−1 degrees of freedom, of a relative change on the ratio
// Σb/Σa made linear, with the standard error √(Σ(b − a·Σb/Σa)²/(n(n−1)))/|ā| (Cochran
// 1977, section 6.4). It says how far the change would move over other pairs like
// these, and covers few of them too, where resamples do not.
//
// The change is NaN of no pairs, of sides that differ in number, and where it has
// nothing to be relative to; the ends are NaN too of one pair, and where they leave the range.
func MeanChange(a, b []float64, relative bool, level float64) (change, low, high float64) {
	nan := math.NaN()
	if len(a) != len(b) || len(a) == 0 {
		return nan, nan, nan
	}
	// Divided by n before adding, so that no sum leaves the range.
	n := float64(len(a))
	var meanA, meanB, mean float64
	for i := range a {
		meanA += a[i] / n
		meanB += b[i] / n
		mean += (b[i] - a[i]) / n
	}
	ratio, scale, centre := 1.0, 1.0, mean // residuals are b − ratio·a − centre, in units of scale
	change = mean
	if relative {
		change = RelativeChange(meanA, meanB)
		if meanA != 0 {
			ratio, scale, centre = meanB/meanA, math.Abs(meanA), 0
		}
	}
	if len(a) < 2 || !isFinite(change) {
		return change, nan, nan
	}
	var squares float64
	for i := range a {
		d := (b[i] - ratio*a[i] - centre) / scale
		squares += d * d
	}
	reach := StudentQuantile((1+level)/2, n-1) * math.Sqrt(squares/(n*(n-1)))
	if !isFinite(reach) {
		return change, nan, nan
	}
	return change, change - reach, change + reach
}
