package views

import (
	"fmt"
	"math"

	"quantscope/analysis/yardstick"
)

// klFigure writes a KL divergence or another figure of nats: 0.0186, 3.1e−07, ∞.
func klFigure(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "∞"
	case a == 0:
		return "0"
	case a < 5e-5:
		return number("%.1e", v)
	case a >= 10:
		return number("%.2f", v)
	}
	return number("%.4f", v)
}

// klShort is a figure in at most six cells: 1.91, 0.142, 0.0186, 3e−07, ∞.
func klShort(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "∞"
	case a == 0:
		return "0"
	case a < 5e-5:
		return number("%.0e", v)
	case a < 0.1:
		return number("%.4f", v)
	case a < 1:
		return number("%.3f", v)
	case a < 100:
		return number("%.2f", v)
	}
	return compact(v)
}

// klMean writes a mean with its standard error, to as many digits as the error
// has a meaning for.
func klMean(v, se float64) string {
	if !isNumber(v) || math.Abs(v) < 5e-5 || !isNumber(se) {
		return klFigure(v)
	}
	digits := 4
	if se > 0 {
		digits = min(max(int(math.Ceil(-math.Log10(se)-0.02)), 4), 6)
	}
	if math.Abs(v) >= 10 {
		digits = min(digits, 2)
	}
	return number(fmt.Sprintf("%%.%df", digits), v) + number(fmt.Sprintf(" ±%%.%df", digits), se)
}

// klShare writes a share of positions: 0.921.
func klShare(v float64) string {
	if !isNumber(v) {
		return "–"
	}
	return number("%.3f", v)
}

// klPPL writes a perplexity.
func klPPL(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.IsInf(v, 0):
		return "∞"
	case v >= 1e4:
		return compact(v)
	case v >= 100:
		return number("%.1f", v)
	}
	return number("%.2f", v)
}

// klChange writes a difference with its sign, with as many digits as show it.
func klChange(v float64) string {
	switch a := math.Abs(v); {
	case !isNumber(v):
		return "–"
	case a == 0:
		return "0"
	case a < 5e-5:
		return signed("%+.1e", v)
	case a >= 10:
		return signed("%+.2f", v)
	}
	return signed("%+.4f", v)
}

// klInterval is a 95 % interval: [−0.0046, −0.0036]; "" where there is none.
func klInterval(lo, hi float64) string {
	if !isNumber(lo) || !isNumber(hi) {
		return ""
	}
	return "[" + klChange(lo) + ", " + klChange(hi) + "]"
}

// klSentence says in a sentence how B stands to A.
func klSentence(s *yardstick.Setup, p *yardstick.Pair) string {
	if p.A < 0 || p.A >= len(s.Candidates) || p.B < 0 || p.B >= len(s.Candidates) {
		return ""
	}
	a, b := Clean(s.Candidates[p.A].Label), Clean(s.Candidates[p.B].Label)
	over := "over " + plural(p.Chunks, "chunk")
	by := number("%.4f", math.Abs(p.DKL))
	if v := math.Abs(p.DKL); v > 0 && v < 5e-5 {
		by = number("%.1e", v)
	}
	lo, hi := p.Low, p.High
	if p.DKL < 0 {
		lo, hi = -p.High, -p.Low
	}
	within := by + " [" + klFigure(lo) + ", " + klFigure(hi) + "]"
	switch verdict := p.Verdict(); verdict {
	case yardstick.Equal:
		return fmt.Sprintf("%s and %s are equal in every position, bit for bit, %s.", a, b, over)
	case yardstick.Better, yardstick.Worse:
		return fmt.Sprintf("%s is %s than %s by %s nats a token, lower in %s of %s.", b, verdict, a, within, thousands(p.Wins), plural(p.Chunks, "chunk"))
	case yardstick.Undecided:
		return fmt.Sprintf("%s against %s: %s nats a token; %s there is no interval.", b, a, klChange(p.DKL), over)
	}
	return fmt.Sprintf("%s and %s are not told apart: %s %s nats a token, %s.", b, a, klChange(p.DKL), klInterval(p.Low, p.High), over)
}

// means are the mean KL of both sides: 0.0227 → 0.0186.
func (c *KLCompared) means() string { return klFigure(c.KLA) + " → " + klFigure(c.KLB) }

// words are the means and half of the interval of their paired difference.
func (c *KLCompared) words() string {
	switch reach := (c.Pair.High - c.Pair.Low) / 2; {
	case c.Pair.Equal:
		return c.means() + ", equal"
	case isNumber(reach):
		return c.means() + " ±" + klFigure(reach)
	}
	return c.means()
}

// sentence says what the change of KL is worth.
func (c *KLCompared) sentence() string {
	switch c.Pair.Verdict() {
	case yardstick.Equal:
		return "KL to the reference is the same in every position"
	case yardstick.Better:
		return "KL to the reference falls " + c.words()
	case yardstick.Worse:
		return "KL to the reference rises " + c.words()
	}
	return "KL to the reference cannot be told apart: " + c.words()
}
