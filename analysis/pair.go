package analysis

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Figure is a published number with what its digits leave open: 0.0951 stands
// for anything in [0.09505, 0.09515].
type Figure struct {
	Value  float64
	Lo, Hi float64
}

// ParseFigure reads a decimal number as it was printed. Half a unit of the last
// printed digit is its uncertainty.
func ParseFigure(s string) (Figure, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return Figure{}, fmt.Errorf("%q is not a finite decimal number", s)
	}
	mantissa, exp := strings.ToLower(s), 0
	if i := strings.IndexByte(mantissa, 'e'); i >= 0 {
		if exp, err = strconv.Atoi(mantissa[i+1:]); err != nil {
			return Figure{}, fmt.Errorf("%q is not a decimal number", s)
		}
		mantissa = mantissa[:i]
	}
	digits := 0
	if i := strings.IndexByte(mantissa, '.'); i >= 0 {
		digits = len(mantissa) - i - 1
	}
	half := 0.5 * math.Pow(10, float64(exp-digits))
	return Figure{v, v - half, v + half}, nil
}

// PairVerdict says whether a published relative error and cosine can belong to
// one quantization.
type PairVerdict string

// Verdicts on a pair.
const (
	PairConsistent PairVerdict = "consistent" // with ‖q‖ ≈ ‖w‖, as rounding leaves it
	PairNormChange PairVerdict = "needs a norm change"
	PairImpossible PairVerdict = "impossible"
)

// Pair is the check of a relative l2 error against a cosine.
//
// With r = ‖q‖/‖w‖, rel² = 1 + r² − 2·r·cos holds for any w and q. Two cases
// bound what a quantizer does: q is the best multiple of its direction
// (r = cos, rel² = 1 − cos²), or the error is uncorrelated with the source
// (r = 1/cos, rel² = 1/cos² − 1). Between them rel² ≈ 2(1−cos). Below the first
// no r exists; above the second the norm must have moved by more than the error
// explains.
type Pair struct {
	RelL2     float64     `json:"rel_l2"`
	Cos       float64     `json:"cos"`
	Rel2      float64     `json:"rel2"`
	Expected2 float64     `json:"expected_rel2"` // 2(1−cos)
	ExpectedL float64     `json:"expected_rel_l2"`
	Ratio     float64     `json:"ratio"`                // rel2 / expected; 0 where nothing is expected
	Lower2    float64     `json:"lowest_rel2"`          // 1 − cos²
	Upper2    float64     `json:"highest_rel2"`         // 1/cos² − 1
	NormRatio *float64    `json:"norm_ratio,omitempty"` // the r nearest to 1 that makes the pair true; absent where none does
	Verdict   PairVerdict `json:"verdict"`
	Hint      string      `json:"hint,omitempty"`
}

// CheckPair checks a published pair. Rel is ‖w−q‖/‖w‖ and must be ≥ 0; cos must
// be in (0, 1].
func CheckPair(rel, cos Figure) (Pair, error) {
	if rel.Value < 0 {
		return Pair{}, fmt.Errorf("relative error %g is negative", rel.Value)
	}
	if cos.Value <= 0 || cos.Value > 1 {
		return Pair{}, fmt.Errorf("cosine %g is not in (0, 1]", cos.Value)
	}
	p := Pair{RelL2: rel.Value, Cos: cos.Value, Rel2: rel.Value * rel.Value, Expected2: 2 * (1 - cos.Value)}
	p.ExpectedL = math.Sqrt(p.Expected2)
	p.Lower2 = 1 - cos.Value*cos.Value
	p.Upper2 = 1/(cos.Value*cos.Value) - 1
	if p.Expected2 > 0 {
		p.Ratio = p.Rel2 / p.Expected2
	}
	if d := cos.Value*cos.Value - 1 + p.Rel2; d >= 0 {
		r := cos.Value + math.Sqrt(d)
		if low := cos.Value - math.Sqrt(d); math.Abs(low-1) < math.Abs(r-1) {
			r = low
		}
		p.NormRatio = &r
	}
	p.Verdict = pairVerdict(rel, cos)
	if p.Verdict != PairConsistent {
		p.Hint = pairHint(rel, cos)
	}
	return p, nil
}

// pairVerdict compares the interval of rel² with the band that the interval of
// the cosine allows.
func pairVerdict(rel, cos Figure) PairVerdict {
	lo := max(rel.Lo, 0)
	rel2Lo, rel2Hi := lo*lo, rel.Hi*rel.Hi
	cosLo, cosHi := max(cos.Lo, math.SmallestNonzeroFloat64), min(cos.Hi, 1)
	switch {
	case rel2Hi < 1-cosHi*cosHi:
		return PairImpossible
	case rel2Lo > 1/(cosLo*cosLo)-1:
		return PairNormChange
	}
	return PairConsistent
}

// pairHint tries the usual mistakes of a table and names the one that fits.
func pairHint(rel, cos Figure) string {
	sqrt := func(f Figure) Figure {
		return Figure{math.Sqrt(f.Value), math.Sqrt(max(f.Lo, 0)), math.Sqrt(f.Hi)}
	}
	percent := Figure{rel.Value / 100, rel.Lo / 100, rel.Hi / 100}
	switch {
	case pairVerdict(sqrt(rel), cos) == PairConsistent:
		return "the error fits this cosine as rel2 = ‖w−q‖²/‖w‖², not as rel_l2"
	case pairVerdict(percent, cos) == PairConsistent:
		return "the error fits this cosine as a percentage"
	case pairVerdict(sqrt(percent), cos) == PairConsistent:
		return "the error fits this cosine as rel2 in percent"
	}
	return ""
}
