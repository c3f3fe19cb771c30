package yardstick

import (
	"math"
	"strings"
	"testing"
)

// A gain is the part of the baseline's KL that is gone, its interval turned round
// with the sign.
func TestGain(t *testing.T) {
	report := func(base int, kl float64, pairs ...Pair) *Report {
		r := &Report{Setup: &Setup{Candidates: []Party{{Baseline: -1}, {Baseline: base}, {Baseline: -1}}}, Pairs: pairs}
		for i := range r.Setup.Candidates {
			r.Results = append(r.Results, Result{Candidate: i, All: Summary{KL: kl}})
		}
		return r
	}
	for _, c := range []struct {
		name          string
		r             *Report
		verdict       Verdict
		at, low, high float64
		says          string
	}{
		{"better", report(0, 0.02, Pair{A: 0, B: 1, DKL: -0.004, Low: -0.005, High: -0.001}), Better, 0.2, 0.05, 0.25, "better than its baseline by 20.0 % of the KL [5.0 %, 25.0 %]"},
		{"worse", report(0, 0.02, Pair{A: 2, B: 1}, Pair{A: 0, B: 1, DKL: 0.004, Low: 0.001, High: 0.005}), Worse, -0.2, -0.25, -0.05, "worse than its baseline by 20.0 % of the KL [5.0 %, 25.0 %]"},
		{"not shown", report(0, 0.02, Pair{A: 0, B: 1, DKL: -0.001, Low: -0.002, High: 0.001}), NotToldApart, 0.05, -0.05, 0.1, "not shown to be better than its baseline: 5.0 % of the KL [-5.0 %, 10.0 %]"},
		{"equal", report(0, 0.02, Pair{A: 0, B: 1, Equal: true}), Equal, 0, 0, 0, "equals its baseline at every position"},
		{"one chunk", report(0, 0.02, Pair{A: 0, B: 1, DKL: -0.001, Low: math.NaN(), High: math.NaN(), Why: "one chunk has no interval"}), Undecided, 0.05, math.NaN(), math.NaN(), "not compared with its baseline: one chunk has no interval"},
		{"exact baseline", report(0, 0, Pair{A: 0, B: 1, DKL: 0.001, Low: 0.0005, High: 0.002}), Worse, math.NaN(), math.NaN(), math.NaN(), "worse than its baseline by – of the KL [–, –]"},
	} {
		g, ok := c.r.Gain(1)
		same := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 || math.IsNaN(a) && math.IsNaN(b) }
		if !ok || g.Verdict != c.verdict || g.Base != 0 || !same(g.At, c.at) || !same(g.Low, c.low) || !same(g.High, c.high) || g.String() != c.says {
			t.Errorf("%s: %v %+v %q", c.name, ok, g, g.String())
		}
		if strings.Contains(g.String(), "\n") {
			t.Errorf("%s: more than a line", c.name)
		}
	}
	for _, of := range []int{-1, 0, 2, 3} {
		if _, ok := report(0, 1, Pair{A: 0, B: 1}).Gain(of); ok {
			t.Errorf("candidate %d has a baseline", of)
		}
	}
	if _, ok := report(2, 1, Pair{A: 0, B: 1}).Gain(1); ok {
		t.Error("a pair with another is taken for that with the baseline")
	}
}
