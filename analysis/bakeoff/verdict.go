package bakeoff

import (
	"fmt"
	"math"
	"strings"

	"quantscope/analysis/landscape"
)

// verdict is a lever in one sentence with its figures.
func verdict(l *Lever, base string, m Metric) string {
	o := l.Whole()
	switch {
	case o.N == 0:
		return fmt.Sprintf("%s: none of %d tensors can be compared", l.Variant, o.Tensors)
	case l.SameAsBase:
		return fmt.Sprintf("FELL BACK? %s equals %s exactly on all %d tensors: it did not run, or does nothing here", l.Variant, base, o.N)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s on %d of %d tensors (%d worse", l.Variant, better(m), base, o.Wins, o.N, o.Losses)
	if o.Ties > 0 {
		fmt.Fprintf(&b, ", %d equal", o.Ties)
	}
	fmt.Fprintf(&b, "): %s %s", m.Name, Change(m, o.MeanChange))
	if o.WorstChange.Defined() && o.Losses > 0 {
		fmt.Fprintf(&b, ", at worst %s", Change(m, landscape.Exact(o.WorstChange.V)))
	}
	if o.Test.P.Defined() {
		fmt.Fprintf(&b, ", p %s", P(o.Test))
	}
	if d, e := o.BaseClipping.Deep, o.Clipping.Deep; d.Defined() && e.Defined() && d.V != e.V {
		fmt.Fprintf(&b, ", deep-clipped blocks %.2f → %.2f %%", 100*d.V, 100*e.V)
	}
	switch {
	case l.Bytes < 0 || l.BaseBytes <= 0:
	case l.Bytes == l.BaseBytes:
		b.WriteString(", same bytes")
	default:
		fmt.Fprintf(&b, ", bytes %+.2f %%", 100*(float64(l.Bytes)/float64(l.BaseBytes)-1))
	}
	if r := l.of(string(Random)); r != nil && len(l.Outcomes) > 2 && r.N > 0 {
		fmt.Fprintf(&b, "; of those drawn at random, which stand for all, %d of %d and %s", r.Wins, r.N, Change(m, r.MeanChange))
	}
	if left := o.Tensors - o.N; left > 0 {
		fmt.Fprintf(&b, "; %d of %d tensors not compared", left, o.Tensors)
	}
	b.WriteString("; " + conclusion(o, m))
	return b.String()
}

// of is the outcome over a stratum, nil where there is none.
func (l *Lever) of(stratum string) *Outcome {
	for i := range l.Outcomes {
		if l.Outcomes[i].Stratum == stratum {
			return &l.Outcomes[i]
		}
	}
	return nil
}

func better(m Metric) string {
	if m.Worse < 0 {
		return "has a higher " + m.Name + " than"
	}
	return "has a lower " + m.Name + " than"
}

// conclusion says whether the change of the mean is beyond chance. Mean and ranks can
// disagree, where few tensors lose much; then both are said.
func conclusion(o *Outcome, m Metric) string {
	v := o.MeanChange
	switch {
	case o.N < leastPairs || !v.Defined():
		return undecided(o)
	case o.Ties == o.N:
		return "no difference at all"
	case !v.HasInterval(): // every pair says the same
		v.Low, v.High = v.V, v.V
	}
	side := 0
	if low, high := v.Low*float64(m.Worse), v.High*float64(m.Worse); max(low, high) < 0 {
		side = 1
	} else if min(low, high) > 0 {
		side = -1
	}
	ranked := o.Test.P.Defined() && o.Test.P.V < 1-landscape.Confidence
	rank := 1
	if (o.Test.Plus > o.Test.Minus) == (m.Worse > 0) {
		rank = -1
	}
	switch {
	case side == 0 && !ranked:
		return "no difference that could not be chance"
	case side > 0 && (!ranked || rank > 0):
		return "better"
	case side < 0 && (!ranked || rank < 0):
		return "worse"
	case side == 0 && rank > 0:
		return "better on most tensors, not in the mean"
	case side == 0:
		return "worse on most tensors, not in the mean"
	case side > 0:
		return "better in the mean, worse on most tensors"
	}
	return "worse in the mean, better on most tensors"
}

// undecided says why nothing can be concluded.
func undecided(o *Outcome) string {
	if o.N < leastPairs {
		return "too few tensors to say more"
	}
	return "no change can be given: " + o.MeanChange.Why
}

// Change writes a change with its interval: a percentage where the metric's
// changes are relative.
func Change(m Metric, v landscape.Value) string {
	if !v.Defined() {
		return "–"
	}
	one := func(x float64) string {
		if m.Relative {
			return fmt.Sprintf("%+.2f", 100*x)
		}
		return fmt.Sprintf("%+.6f", x)
	}
	text := one(v.V)
	if m.Relative {
		text += " %"
	}
	if v.HasInterval() {
		text += " [" + one(v.Low) + ", " + one(v.High) + "]"
	}
	return text
}

// P writes the p of a test, also where it underflows.
func P(t Test) string {
	switch {
	case !t.P.Defined():
		return "–"
	case t.P.V >= 0.001:
		return fmt.Sprintf("%.3f", t.P.V)
	}
	exponent := math.Floor(t.Log10P.V)
	mantissa := math.Round(10*math.Pow(10, t.Log10P.V-exponent)) / 10
	if mantissa == 10 {
		mantissa, exponent = 1, exponent+1
	}
	return fmt.Sprintf("%.1fe%.0f", mantissa, exponent)
}
