package yardstick

import (
	"fmt"
	"math"
)

// rulerMargin is how many times the floor a mean KL must be to be told apart from
// the ruler's own error.
const rulerMargin = 2

// gates are the verdicts that scores alone give; Complete adds those of the checks.
func (t *table) gates(r *Report) []Gate {
	var out []Gate
	add := func(name string, of int, passed bool, format string, args ...any) {
		out = append(out, Gate{Name: name, Of: of, Passed: passed, Message: fmt.Sprintf(format, args...)})
	}
	if t.positions == 0 {
		return nil
	}
	ruler := math.NaN()
	for i, p := range t.s.Candidates {
		if p.Floor {
			ruler = r.Results[i].All.KL
		}
	}
	for i, p := range t.s.Candidates {
		all := &r.Results[i].All
		if all.NaN > 0 || all.Infinite > 0 {
			add("finite", i, false, "%s: %s", p.Label, t.notFinite(i))
		} else {
			add("finite", i, true, "%s: all %d positions have finite figures", p.Label, all.Positions)
		}
		if p.Floor {
			continue
		}
		if p.Baseline >= 0 {
			out = append(out, t.fidelity(i, p.Baseline))
		}
		if p.Tokenizer != "" {
			add("tokenizer", i, true, "%s: %s; the corpora are ids, so both read the same tokens", p.Label, p.Tokenizer)
		}
		if c := t.s.Ceiling; c > 0 {
			add("kl-ceiling", i, all.KL <= c && all.NaN == 0 && all.Infinite == 0, "%s: mean KL %.4g, at most %.4g is asked for", p.Label, all.KL, c)
		}
		switch {
		case math.IsNaN(ruler) || math.IsNaN(all.KL):
		case all.KL == 0 && all.Positions > 0:
			add("floor", i, true, "%s: no position differs from the reference by a bit", p.Label)
		case all.KL < rulerMargin*ruler:
			add("floor", i, true, "%s: mean KL %.3g is not told apart from the ruler, whose floor is %.3g", p.Label, all.KL, ruler)
		default:
			add("floor", i, true, "%s: mean KL %.3g is %.3g times the floor", p.Label, all.KL, all.KL/ruler)
		}
	}
	return out
}

// notFinite says how many positions of a candidate have no finite figures, and
// which come first.
func (t *table) notFinite(candidate int) string {
	var text string
	var nan, infinite, named int
	for _, c := range t.chunks {
		for i := range c.Rows[candidate] {
			r := &c.Rows[candidate][i]
			switch {
			case r.nan():
				nan++
			case math.IsInf(r.KL, 1):
				infinite++
			default:
				continue
			}
			if named++; named <= 8 {
				if text != "" {
					text += ", "
				}
				text += fmt.Sprintf("%s chunk %d position %d", t.s.Corpora[c.Corpus].Name, c.Index, c.First+i)
			}
		}
	}
	if named > 8 {
		text += ", …"
	}
	return fmt.Sprintf("%d of %d positions are not a number and %d have an infinite KL; they are in no mean: %s", nan, t.positions, infinite, text)
}

// fidelity fails a candidate that was to be calibrated and is its baseline.
func (t *table) fidelity(i, base int) Gate {
	p := t.pair(base, i)
	a, b := &t.s.Candidates[base], &t.s.Candidates[i]
	g := Gate{Name: "fidelity", Of: i, Passed: !p.Equal}
	size := fmt.Sprintf("%.4g bits a weight against %.4g", b.BitsPerWeight, a.BitsPerWeight)
	if p.Equal {
		g.Message = fmt.Sprintf("%s equals its baseline %s at every position: %s, ΔKL 0, ΔNLL 0 [0, 0], the same first choices; its calibration did nothing", b.Label, a.Label, size)
		return g
	}
	g.Message = fmt.Sprintf("%s differs from its baseline %s: %s, ΔKL %+.3g [%+.3g, %+.3g], ΔNLL %+.3g [%+.3g, %+.3g]",
		b.Label, a.Label, size, p.DKL, p.Low, p.High, p.DNLL, p.NLow, p.NHigh)
	return g
}

// Complete adds what cannot be computed from scores, and the gates that follow from
// it. nil and none are left out.
func (r *Report) Complete(sane *Sanity, probes []Probe) {
	r.Probes = probes
	if sane == nil {
		return
	}
	r.Sane = sane
	if len(sane.Norms) > 0 {
		r.Gates = append(r.Gates,
			Gate{"determinism", -1, sane.Deterministic, sane.again()},
			Gate{"magnitude", -1, sane.Grows && sane.Moved, sane.Message})
	}
	for i := range r.Gates {
		g := &r.Gates[i]
		if g.Of < 0 || g.Of >= len(r.Results) {
			continue
		}
		switch all := &r.Results[g.Of].All; {
		case g.Name == "finite" && !g.Passed && g.Of < len(sane.NonFinite) && sane.NonFinite[g.Of] != "":
			g.Message += "; its hidden states are not finite from " + sane.NonFinite[g.Of]
		case g.Name == "floor" && all.KL == 0:
			r.nothing(g, sane)
		}
	}
}

// nothing decides what a divergence of exactly 0 everywhere means.
func (r *Report) nothing(g *Gate, sane *Sanity) {
	for _, c := range sane.Same {
		if c == g.Of {
			g.Message += ": its weights are the reference's, value for value"
			return
		}
	}
	g.Passed = false
	g.Message += ", but its weights differ: they were not used"
}
