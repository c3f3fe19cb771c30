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
