package bias

import (
	"fmt"
	"math"
	"strings"
)

// verdict says in a sentence what was found of a candidate, "" before there is
// anything.
func (r *Report) verdict(c int) string {
	p := &r.Setup.Candidates[c]
	var say []string
	w, last, d := r.Total(c), r.Last(c), r.DivergenceOf(c)
	switch {
	case w == nil:
	case w.Tensors == 0 && w.Shapes == 0:
		say = append(say, "the reference's weights")
	default:
		text := fmt.Sprintf("weights off by %s with a sign bias of %s (%s of a matrix on average, by chance %s, %.0f %% positive)",
			figure(w.RelL2), signed(w.Bias), figure(w.AbsBias), figure(w.AbsNull), 100*w.Positive)
		if w.NonFinite > 0 {
			text += fmt.Sprintf(", %d elements not finite", w.NonFinite)
		}
		if w.Shapes > 0 {
			text += fmt.Sprintf(", %d matrices of other shapes left out", w.Shapes)
		}
		say = append(say, text)
	}
	switch {
	case last == nil:
	case last.Rel == 0:
		say = append(say, "the stream is the reference's after the last layer")
	case !finite(last.Rel):
		say = append(say, fmt.Sprintf("no position of the stream is finite after the last layer (%d are not)", last.NonFinite))
	default:
		text := fmt.Sprintf("the stream after the last layer off by %s, bias %s, gain %s, bias beside it %s, shift %s (by chance %s)",
			figure(last.Rel), signed(last.Bias), signed(last.Gain), signed(last.Rest()), figure(last.Shift), figure(last.Null))
		if last.NonFinite > 0 {
			text += fmt.Sprintf(", %d positions not finite", last.NonFinite)
		}
		say = append(say, text)
	}
	if d != nil {
		text := "KL " + figure(d.KL)
		if finite(d.StdErr) && d.KL > 0 {
			text += " ±" + figure(d.StdErr)
		}
		text += fmt.Sprintf(" nats, the same first choice at %.1f %% of positions", 100*d.Top1)
		if d.NonFinite > 0 {
			text += fmt.Sprintf(", %d positions without a finite KL", d.NonFinite)
		}
		say = append(say, text)
	}
	if len(say) == 0 {
		return ""
	}
	return p.Label + ": " + strings.Join(say, "; ")
}

// Sentence says in a sentence what a pair differs in. It tells what was counted and
// measured, not what is the cause of what.
func (r *Report) Sentence(p *Pair) string {
	a, b := r.Setup.Candidates[p.A].Label, r.Setup.Candidates[p.B].Label
	say := []string{fmt.Sprintf("at about equal weight error (%s of %s, %s of %s) a matrix has a sign bias of %s against %s on average",
		figure(p.RelA), a, figure(p.RelB), b, figure(p.AbsA), figure(p.AbsB))}
	if p.Layers > 0 {
		say = append(say,
			fmt.Sprintf("the stream's |bias| is larger under %s (after the last %s against %s)", side(a, b, p.BiasA, p.BiasB, p.Layers), signed(p.LastA.Bias), signed(p.LastB.Bias)),
			fmt.Sprintf("its shift under %s (%s against %s, by chance %s)", side(a, b, p.ShiftA, p.ShiftB, p.Layers), figure(p.LastA.Shift), figure(p.LastB.Shift), figure(max(p.LastA.Null, p.LastB.Null))))
	}
	if finite(p.DKL) {
		da, db := r.DivergenceOf(p.A), r.DivergenceOf(p.B)
		text := fmt.Sprintf("KL %s against %s", figure(da.KL), figure(db.KL))
		of := fmt.Sprintf("%s [%s, %s] over %d chunks", signed(p.DKL), signed(p.Low), signed(p.High), p.Chunks)
		switch {
		case p.Chunks < 2:
			text += ", of one chunk, which has no interval"
		case !p.Apart():
			text += ", not told apart: " + of
		case p.DKL > 0:
			text += ", more under " + b + ": " + of
		default:
			text += ", more under " + a + ": " + of
		}
		say = append(say, text)
		if p.Layers > 0 && p.Chunks > 1 {
			say = append(say, p.together(a, b))
		}
	}
	return strings.Join(say, "; ")
}

// together says whether the side with more bias through depth is the one with more KL.
func (p *Pair) together(a, b string) string {
	more := 0 // −1: A has more bias at most layers and after the last, 1: B
	la, lb := math.Abs(p.LastA.Bias), math.Abs(p.LastB.Bias)
	switch {
	case 2*p.BiasA > p.Layers && la > lb:
		more = -1
	case 2*p.BiasB > p.Layers && lb > la:
		more = 1
	}
	name := a
	if more > 0 {
		name = b
	}
	switch {
	case more == 0:
		return "neither has more bias both at most layers and after the last"
	case !p.Apart():
		return name + " has more bias, and KL does not tell them apart"
	case more > 0 == (p.DKL > 0):
		return name + " has more bias and more KL"
	}
	return name + " has more bias and less KL"
}

// side says at how many layers which of two is larger.
func side(a, b string, n, m, of int) string {
	if m > n {
		a, n = b, m
	}
	return fmt.Sprintf("%s in %d of %d layers", a, n, of)
}

// figure writes a figure with three digits.
func figure(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case v != 0 && math.Abs(v) < 1e-4:
		return strings.Replace(fmt.Sprintf("%.1e", v), "-", "−", -1)
	}
	return strings.Replace(fmt.Sprintf("%.3g", v), "-", "−", -1)
}

// signed is a figure with its sign.
func signed(v float64) string {
	if v > 0 {
		return "+" + figure(v)
	}
	return figure(v)
}
