package views

import (
	"math"
	"strings"
)

// ratioApart is how far a ratio is from 1, the same for a half and for two; 0 for
// what is no ratio.
func ratioApart(ratio float64) float64 {
	if a := math.Abs(math.Log(ratio)); isNumber(a) {
		return a
	}
	return 0
}

// auditRatio writes a ratio with as many digits as show that it is not 1.
func auditRatio(r float64) string {
	switch d := math.Abs(r - 1); {
	case !isNumber(r):
		return "–"
	case r == 1:
		return "1"
	case r >= 100 || r < 0.01:
		return compact(r)
	case d < 1e-6:
		return number("%.9f", r)
	case d < 5e-4:
		return number("%.6f", r)
	case r >= 10:
		return number("%.2f", r)
	}
	return number("%.4f", r)
}

// auditBar draws a span of ratios over a logarithmic axis whose middle is 1 and
// whose ends are e^±limit, in w cells. A single value is drawn from the middle.
// Without a span there is the axis alone.
func auditBar(th *Theme, lo, mean, hi, limit float64, w int) string {
	if w < 3 {
		return spaces(w)
	}
	half := (w - 1) / 2
	at := func(r float64) int {
		f := math.Log(r) / limit
		if !isNumber(f) {
			return half
		}
		return half + int(math.Round(min(max(f, -1), 1)*float64(half)))
	}
	from, to, mark := half, half-1, -1
	if limit > 0 && lo > 0 && hi > 0 && (lo != 1 || hi != 1) {
		from, to, mark = at(lo), at(hi), at(mean)
	}
	var b, run strings.Builder
	ink := ""
	put := func(sign, in string) { // cells of one ink are painted together
		if in != ink && run.Len() > 0 {
			b.WriteString(th.paint(run.String(), ink))
			run.Reset()
		}
		ink = in
		run.WriteString(sign)
	}
	for x := range 2*half + 1 {
		switch {
		case x == mark:
			put("●", th.ink.accent)
		case x == half:
			put("│", th.ink.dim)
		case x >= from && x <= to:
			put("━", th.ink.accent)
		default:
			put("·", th.ink.faint)
		}
	}
	return b.String() + th.paint(run.String(), ink)
}

// auditAxis is the title over ratio bars: the ends and the middle.
func auditAxis(limit float64, w int) string {
	if w < 3 {
		return ""
	}
	half := (w - 1) / 2
	if !(limit > 0) {
		return spaces(half) + "1"
	}
	left, right := auditRatio(math.Exp(-limit)), auditRatio(math.Exp(limit))
	if Width(left)+2 > half || Width(right)+2 > half {
		return spaces(half) + "1"
	}
	return left + spaces(half-Width(left)) + "1" + FitRight(right, half)
}
