package views

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"quantscope/analysis/calibrate"
	"quantscope/sessions"
)

// calibTotals is what the calibration of a variant comes to so far.
type calibTotals struct {
	experts, inactive, below int // below: of fewer tokens than their down projection has columns
	matrices, ran, fell      int
	chosen                   int   // not calibrated because the person said so
	weights, fellWeights     int64 // of the matrices so far
	codes, changed           int64 // of those that were calibrated
	units, of, again         int   // done, of all, read back
	rank                     calibrate.RankBound
	end                      *sessions.CalibrateEnd
}

// totals adds up what calibration did under a variant; ok is false where it was
// never calibrated.
func (s *Scene) totals(variant int) (c calibTotals, ok bool) {
	v := s.tradesOf(variant)
	if v.newest == nil {
		return c, false
	}
	setup := &v.newest.Setup
	c.rank, c.end, c.units, c.of = setup.Rank, v.newest.End, len(v.newest.Units), len(setup.Units)
	for i := range v.newest.Units {
		if v.newest.Units[i].Again {
			c.again++
		}
	}
	for _, k := range v.counts {
		c.experts += len(k.Expert)
		for _, n := range k.Expert {
			if n == 0 {
				c.inactive++
			}
		}
	}
	for t, tr := range v.trade {
		if tr == nil {
			continue
		}
		tensor := &s.State.Tensors[t]
		weights := int64(tensor.Rows) * int64(tensor.Cols)
		c.matrices++
		c.weights += weights
		if tensor.Role.Expert >= 0 && belowRank(tr) && tensor.Role.Projection == "down" {
			c.below++
		}
		switch {
		case fellBack(tr):
			c.fell++
			c.fellWeights += weights
		case tr.Chosen:
			c.chosen++
		default:
			c.ran++
			c.codes += tr.Codes
			c.changed += tr.Changed
		}
	}
	return c, true
}

// tokenWords says in w cells how the text reached the experts: 3 of 64 experts
// inactive, 12 below rank; T 98,304 ≥ 16·128/2 = 1,024 needed: met.
func (c *calibTotals) tokenWords(w int) string {
	r := &c.rank
	text := fmt.Sprintf("%s of %s inactive, %s below rank", thousands(c.inactive), plural(c.experts, "expert"), thousands(c.below))
	switch {
	case c.experts == 0 && r.Experts == 0:
		return fmt.Sprintf("T %s; the model has no experts", thousands(r.Tokens))
	case c.experts == 0:
		text = "nothing counted yet"
	}
	if r.Experts == 0 {
		return text
	}
	sign, verdict := "≥", "met"
	if !r.Met() {
		sign, verdict = "<", "NOT met"
	}
	bound := func(need string) string {
		return fmt.Sprintf("%s; T %s %s %s: %s", text, thousands(r.Tokens), sign, need, verdict)
	}
	formula, need := fmt.Sprintf("%d·%d/%d", r.Inner, r.Experts, r.TopK), thousands(r.Need)
	return fitting(w, bound(formula+" = "+need+" needed"), bound(formula+" needed"), bound(need+" needed"), bound(need), text+"; rank bound "+verdict, text)
}

// runWords says in w cells how many matrices are calibrated and what became of the
// others. A gate that failed is said first.
func (c *calibTotals) runWords(w int) string {
	text := ""
	if c.end != nil && c.end.Gate != "" {
		text = "fidelity gate FAILED: " + Clean(c.end.Gate) + "; "
	}
	text += fmt.Sprintf("%s of %s calibrated", thousands(c.ran), thousands(c.matrices))
	of := ""
	if c.fell > 0 {
		text += fmt.Sprintf(", %s fell back (%s %%", thousands(c.fell), percent(share(c.fellWeights, c.weights)))
		of = " of weights)"
	}
	rest := ""
	if c.chosen > 0 {
		rest += fmt.Sprintf(", %s left out as asked", thousands(c.chosen))
	}
	changed := ""
	if v := share(c.changed, c.codes); isNumber(v) {
		changed = fmt.Sprintf("; %s %% of codes changed", percent(v))
	}
	short := strings.TrimSuffix(of, " of weights)")
	if of != "" {
		short += ")"
	}
	return fitting(w, text+of+rest+changed, text+short+rest+changed, text+short+rest, text+short)
}

// notCalibrated says why a figure of calibration is not there, "" where it is.
func (s *Scene) notCalibrated() string {
	if !s.Metric.Calibrated() || s.calibrated(s.Variant) || s.Variant < 0 || s.Variant >= len(s.State.Variants) {
		return ""
	}
	return Clean(s.State.Variants[s.Variant].Name) + " is not calibrated: it has no " + strings.TrimSuffix(s.Metric.label(), " %")
}

// MetricOff is why a metric shows nothing under any variant, "" where it may.
func (s *Scene) MetricOff(m Metric) string {
	if !m.Calibrated() {
		return ""
	}
	for v := range s.State.Variants {
		if s.calibrated(v) {
			return ""
		}
	}
	return "no variant of the session is calibrated: v offers some (+gptq, +imatrix)"
}

// effective is what a matrix ran as, in at most w cells: as asked, or the name of
// what it is instead.
func effective(v *sessions.Variant, tr *calibrate.Trade, w int) string {
	if tr.Effective == "" || tr.Effective == v.Plain() {
		return "as asked"
	}
	return shortenVariant(Clean(tr.Effective), w)
}

// instead says why a matrix is not what was asked for, "" where it is.
func instead(v *sessions.Variant, tr *calibrate.Trade) string {
	switch {
	case tr == nil || tr.Why == "" && !tr.Chosen:
		return ""
	case tr.Chosen && tr.Why == "":
		return "ran as " + Clean(tr.Effective) + ", as asked"
	case tr.Effective == "" || tr.Effective == v.Plain():
		return Clean(tr.Why)
	}
	return "ran as " + Clean(tr.Effective) + ": " + Clean(tr.Why)
}

// tradeFigure is one row of what calibration did to a matrix.
type tradeFigure struct {
	label  string
	metric string // that says the same
	of     func(tr *calibrate.Trade, tokens int64) string
}

// tradeFigures are the rows, the most wanted first.
var tradeFigures = []tradeFigure{
	{"tokens", metricTokens, func(_ *calibrate.Trade, n int64) string { return thousands(n) }},
	{"tokens seen", "", func(tr *calibrate.Trade, _ int64) string { return thousands(tr.Tokens) }},
	{"needed", "", func(tr *calibrate.Trade, _ int64) string { return thousands(tr.N) }},
	{"H rank", "", func(tr *calibrate.Trade, _ int64) string {
		if tr.Rank < 0 {
			return "–"
		}
		return thousands(tr.Rank)
	}},
	{"condition", "", func(tr *calibrate.Trade, _ int64) string { return floatWords(tr.Cond) }},
	{"damping %", "damping", func(tr *calibrate.Trade, _ int64) string { return percent(float64(tr.DampShare)) }},
	{"out error²", "out2", func(tr *calibrate.Trade, _ int64) string { return floatWords(tr.Out2) }},
	{"of baseline", "", func(tr *calibrate.Trade, _ int64) string { return floatWords(tr.BaseOut2) }},
	{"out/baseline", "out_ratio", func(tr *calibrate.Trade, _ int64) string {
		if v := quotient(float64(tr.Out2), float64(tr.BaseOut2)); isNumber(v) {
			return number("%.3f", v)
		}
		return "–"
	}},
	{"changed %", "changed", func(tr *calibrate.Trade, _ int64) string { return percent(share(tr.Changed, tr.Codes)) }},
}

// floatWords writes a figure of calibration, – where it has none. Zeros at its end
// stay, so that figures below one another have as many digits.
func floatWords(v calibrate.Float) string {
	switch x := math.Abs(float64(v)); {
	case math.IsNaN(x):
		return "–"
	case x < 1e-4 || x >= 999.5:
		return compact(float64(v))
	default:
		return minus(strconv.FormatFloat(float64(v), 'f', max(2-int(math.Floor(math.Log10(x))), 0), 64))
	}
}

// tradeShort is what calibration did to a matrix in one line.
func tradeShort(th *Theme, v *sessions.Variant, tr *calibrate.Trade, tokens int64) string {
	line := th.Dim.Render("tokens ") + thousands(tokens)
	if tr.Tokens != tokens {
		line += th.Dim.Render(" seen ") + thousands(tr.Tokens)
	}
	line += th.Dim.Render(", ") + thousands(tr.N) + th.Dim.Render(" needed")
	if tr.Rank >= 0 {
		line += th.Dim.Render("  rank ") + thousands(tr.Rank) + th.Dim.Render("  cond ") + floatWords(tr.Cond) + th.Dim.Render("  damping ") + percent(float64(tr.DampShare)) + " %"
	}
	if text := instead(v, tr); text != "" {
		return line + "  " + th.Warn.Render(text)
	}
	return line
}
