package yardstick

import "math"

// Verdict is how B of a pair stands to A, in a word that tables and sentences use.
type Verdict string

// Verdicts.
const (
	Equal        Verdict = "equal"          // in every row, bit for bit
	Undecided    Verdict = "no interval"    // figures are missing; Pair.Why says which
	Better       Verdict = "better"         // the whole interval of the mean KL of B − A is below 0
	Worse        Verdict = "worse"          // above it
	NotToldApart Verdict = "not told apart" // 0 is within
)

// Verdict decides by the 95 % interval.
func (p *Pair) Verdict() Verdict {
	switch {
	case p.Equal:
		return Equal
	case math.IsNaN(p.DKL) || !finite(p.Low) || !finite(p.High):
		return Undecided
	case p.High < 0:
		return Better
	case p.Low > 0:
		return Worse
	}
	return NotToldApart
}
