package gates

import (
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/gates/suite"
	"quantscope/analysis/stats"
)

// root is the probe whose cases a probe asks, at other settings perhaps.
func (a *analysis) root(probe int) int {
	like := a.Probes[probe].Like
	for i := range a.Probes {
		if like != "" && a.Probes[i].ID == like {
			return i
		}
	}
	return probe
}

// item is what a pair of answers is about: passes of one case, and the same case of
// sibling probes, hang together, so a test that took them for separate ones would be
// surer than it may.
type item struct{ root, number int }

// pairs are all arms against the baseline: each probe's, then all in sum. A probe that
// asks for the baseline's own answer is no test of which is better, as the baseline
// cannot fail it: its need says how much may differ, and it is in no sum. Neither is one
// that measures acceptance, which asks for tokens alone.
func (a *analysis) pairs() []Pair {
	var out []Pair
	for arm := 1; arm < len(a.Arms); arm++ {
		from := len(out)
		for p := range a.Probes {
			out = append(out, a.pair(arm, p))
		}
		ps := make([]float64, 0, len(a.Probes))
		for _, p := range out[from:] {
			if a.Probes[p.Probe].Against {
				p.P = math.NaN()
			}
			ps = append(ps, p.P)
		}
		for i, adjusted := range stats.Holm(ps) {
			out[from+i].Adjusted = adjusted
			if a.Probes[i].Against {
				out[from+i].Adjusted = out[from+i].P
			}
		}
		sum := a.pair(arm, -1)
		sum.Adjusted = sum.P
		out = append(out, sum)
	}
	noise := map[int]int{}
	for _, p := range out {
		if p.Arm == a.Placebo() {
			noise[p.Probe] = p.OnlyBase + p.OnlyArm
		}
	}
	for i := range out {
		p := &out[i]
		p.Noise = -1
		if n, ok := noise[p.Probe]; ok && p.Arm != a.Placebo() {
			p.Noise = n
		}
		if p.Adjusted <= 1-a.level && p.OnlyBase+p.OnlyArm > p.Noise && !a.against(p.Probe) {
			p.Worse, p.Better = p.Difference < 0, p.Difference > 0
		}
		p.Verdict = a.verdict(p)
	}
	return out
}

// against says that a probe asks for the baseline's own answers.
func (a *analysis) against(probe int) bool { return probe >= 0 && a.Probes[probe].Against }

// pair holds an arm against the baseline on a probe, or on all of them (-1). An
// answer that did not come on either side says nothing of the model and is left out.
func (a *analysis) pair(arm, probe int) Pair {
	out := Pair{Probe: probe, Arm: arm}
	ahead := map[item]int{} // passes of the arm less those of the baseline
	for _, r := range a.byArm[arm] {
		if probe >= 0 && r.Probe != probe || probe < 0 && (a.Probes[r.Probe].Against || a.Probes[r.Probe].Measure) {
			continue
		}
		k := r.Key()
		k.Arm = a.Baseline()
		base := a.by[k]
		if base == nil || erred(base) || erred(r) {
			continue
		}
		at := item{a.root(r.Probe), r.Case}
		switch b, c := base.Verdict.Passed, r.Verdict.Passed; {
		case b && c:
			out.Both++
			ahead[at] += 0
		case b:
			out.OnlyBase++
			ahead[at]--
		case c:
			out.OnlyArm++
			ahead[at]++
		default:
			out.Neither++
			ahead[at] += 0
		}
	}
	out.Cases = len(ahead)
	for _, n := range ahead {
		switch {
		case n < 0:
			out.Fewer++
		case n > 0:
			out.More++
		}
	}
	out.P, _ = stats.McNemar(out.Fewer, out.More)
	answers := float64(out.Both + out.OnlyBase + out.OnlyArm + out.Neither)
	scale := float64(out.Cases) / answers
	out.Difference, out.Low, out.High = stats.PairedShares(scale*float64(out.Both), scale*float64(out.OnlyBase),
		scale*float64(out.OnlyArm), scale*float64(out.Neither), a.level)
	out.Band = band(out.Cases, out.Fewer+out.More, a.level)
	return out
}

// verdict is the sentence of a pair.
func (a *analysis) verdict(p *Pair) string {
	n := p.Both + p.OnlyBase + p.OnlyArm + p.Neither
	if n == 0 {
		if p.Probe < 0 && !slices.ContainsFunc(a.Probes, func(q suite.Probe) bool { return !q.Against && !q.Measure }) {
			return "no probe is of a kind that is summed"
		}
		return "nothing is answered by both yet"
	}
	differ := p.OnlyBase + p.OnlyArm
	shares := fmt.Sprintf("%d of %d against %d of %d", p.Both+p.OnlyArm, n, p.Both+p.OnlyBase, n)
	if differ == 0 {
		return fmt.Sprintf("the same verdict on all answers: %s; %s", shares, a.bandText(p))
	}
	if a.against(p.Probe) {
		text := fmt.Sprintf("other answers than the baseline's in %d of %d", differ, n)
		if p.Noise >= 0 {
			text += fmt.Sprintf(", its own again in %d", p.Noise)
		}
		return text + "; what it needs says how many may be"
	}
	var head string
	switch {
	case p.Worse:
		head = "worse"
	case p.Better:
		head = "better"
	case p.Adjusted <= 1-a.level:
		head = fmt.Sprintf("within noise, as the baseline differs from itself in %d answers and this in %d", p.Noise, differ)
	default:
		head = "no difference shown"
	}
	text := fmt.Sprintf("%s: %s, %+.3f (%+.3f to %+.3f), p %s", head, shares, p.Difference, p.Low, p.High, pText(p.P))
	if p.Probe >= 0 && p.Adjusted != p.P {
		text += fmt.Sprintf(", %s over all probes", pText(p.Adjusted))
	}
	if p.Noise >= 0 && (p.Worse || p.Better) {
		text += fmt.Sprintf("; the baseline differs from itself in %d answers, this in %d", p.Noise, differ)
	}
	return text + "; " + a.bandText(p)
}

func (a *analysis) bandText(p *Pair) string {
	if math.IsNaN(p.Band) {
		return fmt.Sprintf("%d cases are too few to tell any difference", p.Cases)
	}
	text := fmt.Sprintf("%d cases tell a difference from %.3f up", p.Cases, p.Band)
	if p.Probe < 0 && p.Band > statedEffect {
		text += fmt.Sprintf(", and %g takes %d", statedEffect, p.size(a.level))
	}
	return text
}

func pText(p float64) string {
	switch {
	case math.IsNaN(p):
		return "not there"
	case p < 1e-4:
		return fmt.Sprintf("%.1e", p)
	}
	return fmt.Sprintf("%.4f", p)
}
