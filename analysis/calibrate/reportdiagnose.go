package calibrate

import (
	"fmt"
	"math"
	"strings"
)

// Advice is what would help a calibrated mixture of experts most.
type Advice string

// Kinds of advice.
const (
	MoreText     Advice = "more text"
	OtherText    Advice = "other text" // what it says does not hold for held-out text
	BetterSolver Advice = "a better solver"
	NoAdvice     Advice = "nothing to say" // no expert's down projection was calibrated by a Hessian
)

// Diagnostic holds a full calibration against one of gate and up alone. The inputs
// of gate and up are those of all tokens, those of an expert's down projection only
// what is routed to it: where text is short, it is short there.
type Diagnostic struct {
	Rank    RankBound `json:"rank"`
	Experts Spread    `json:"experts"`
	Downs   Means     `json:"downs"`  // of the full run
	Others  Means     `json:"others"` // of the full run

	// Mean KL divergences from the reference on held-out text, in nats; NaN where
	// they were not measured.
	Baseline Float `json:"baseline"`
	GateUp   Float `json:"gateUp"`
	Full     Float `json:"full"`
}

// NewDiagnostic takes what is in a full run's outcome.
func NewDiagnostic(full *Outcome) Diagnostic {
	return Diagnostic{Rank: full.Rank, Experts: full.Experts, Downs: full.Downs, Others: full.Others, Baseline: undefined, GateUp: undefined, Full: undefined}
}

// mostDamp is the share of a solution from which on damping is most of it.
const mostDamp = 0.5

// Advice is more text where damping, not text, decides most of what down
// projections become: where it is more than half of the solution of the middle one,
// or most of their Hessians are singular.
func (d *Diagnostic) Advice() Advice {
	switch {
	case d.Downs.Matrices == 0 || math.IsNaN(float64(d.Downs.DampShare)):
		return NoAdvice
	case float64(d.Downs.DampShare) > mostDamp || 2*d.Downs.Deficient > d.Downs.Matrices:
		return MoreText
	case d.misled():
		return OtherText
	}
	return BetterSolver
}

// misled says whether calibrating took the variant away from the reference where
// it was measured.
func (d *Diagnostic) misled() bool { return d.Baseline > 0 && d.Full > d.Baseline }

// Gain is the share of the divergence of gate and up alone that calibrating all
// takes away; NaN where it was not measured.
func (d *Diagnostic) Gain() Float {
	if d.GateUp == 0 {
		return undefined
	}
	return (d.GateUp - d.Full) / d.GateUp
}

// Sentence is what the diagnostic implies, with the figures that it rests on.
func (d *Diagnostic) Sentence() string {
	a := d.Advice()
	if a == NoAdvice {
		return "nothing to say of down projections: no routed expert's was calibrated by a Hessian"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: down projections have %s tokens each (median) for %s columns; damping is %.0f %% of their solution", a, count(d.Downs.Tokens), count(d.Downs.Columns), 100*float64(d.Downs.DampShare))
	if d.Downs.Deficient > 0 {
		fmt.Fprintf(&b, ", and %d of %d Hessians are singular", d.Downs.Deficient, d.Downs.Matrices)
	}
	switch {
	case a == BetterSolver:
		b.WriteString(", so the text decides them, and more of it would change little")
	case a == OtherText:
		b.WriteString(", so the text decides them, but it is not like what was measured on: text of more kinds is wanted")
	}
	if d.misled() {
		fmt.Fprintf(&b, "; the divergence is %.1f %% above the baseline's", 100*float64(d.Full/d.Baseline-1))
	}
	switch g := float64(d.Gain()); {
	case math.IsNaN(g):
		base, out := float64(d.Downs.BaseOut2), float64(d.Downs.Out2)
		if base > 0 {
			fmt.Fprintf(&b, "; their output error is %s by %.1f %% on the text itself", word(base-out, "lower", "higher"), 100*math.Abs(base-out)/base)
		}
	default:
		fmt.Fprintf(&b, "; calibrating them as well as gate and up %s %.1f %% of the divergence", word(g, "takes away", "adds"), 100*math.Abs(g))
	}
	return b.String()
}

func word(v float64, up, down string) string {
	if v < 0 {
		return down
	}
	return up
}

// count is a number of things, which a median may be the half of.
func count(v float64) string {
	if v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}
