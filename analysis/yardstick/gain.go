package yardstick

import (
	"fmt"
	"math"
)

// Gain is how a candidate stands to its baseline: the part of the baseline's mean
// KL that is gone, with its 95 % interval. Negative where there is more.
type Gain struct {
	Base          int // candidate
	Verdict       Verdict
	At, Low, High float64 // shares of the baseline's mean KL, which is taken as it was measured; NaN where there is none
	Pair          *Pair
}

// Gain compares a candidate with its baseline; false where it has none, or where
// nothing was scored.
func (r *Report) Gain(candidate int) (Gain, bool) {
	if candidate < 0 || candidate >= len(r.Setup.Candidates) {
		return Gain{}, false
	}
	base := r.Setup.Candidates[candidate].Baseline
	for i := range r.Pairs {
		if p := &r.Pairs[i]; base >= 0 && p.A == base && p.B == candidate {
			return r.GainOf(p), true
		}
	}
	return Gain{}, false
}

// GainOf is that of the second of a pair over the first, whatever that is to it.
func (r *Report) GainOf(p *Pair) Gain {
	g := Gain{Base: p.A, Verdict: p.Verdict(), At: math.NaN(), Low: math.NaN(), High: math.NaN(), Pair: p}
	for k := range r.Results {
		if kl := r.Results[k].All.KL; r.Results[k].Candidate == p.A && kl > 0 && finite(kl) {
			g.At, g.Low, g.High = -p.DKL/kl, -p.High/kl, -p.Low/kl
		}
	}
	return g
}

// String is the verdict in words, the baseline unnamed.
func (g Gain) String() string {
	percent := func(x float64) string {
		if !finite(x) {
			return "–"
		}
		return fmt.Sprintf("%.1f %%", 100*x)
	}
	interval := func(low, high float64) string { return fmt.Sprintf("[%s, %s]", percent(low), percent(high)) }
	switch g.Verdict {
	case Equal:
		return "equals its baseline at every position"
	case Undecided:
		return "not compared with its baseline: " + g.Pair.Why
	case Better:
		return fmt.Sprintf("better than its baseline by %s of the KL %s", percent(g.At), interval(g.Low, g.High))
	case Worse:
		return fmt.Sprintf("worse than its baseline by %s of the KL %s", percent(-g.At), interval(-g.High, -g.Low))
	}
	return fmt.Sprintf("not shown to be better than its baseline: %s of the KL %s", percent(g.At), interval(g.Low, g.High))
}
