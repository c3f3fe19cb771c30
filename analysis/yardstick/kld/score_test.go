package kld

import (
	"math"
	"strings"
	"testing"
)

// Two tokens of equal largest probability: the first is the choice, on both sides.
// What the reference gives less than e^-16 is in no sum.
func TestCompare(t *testing.T) {
	var row Row
	if _, err := row.Set([]float32{0, 3, 3, -20}, -1); err != nil {
		t.Fatal(err)
	}
	s := Compare(&row, []float32{5, 5, 1, -90}, 2)
	if s.Top != 0 || s.TopBase != 1 || s.NaN {
		t.Errorf("choices %d and %d", s.Top, s.TopBase)
	}
	z := math.Exp(0) + 2*math.Exp(3) + math.Exp(-13)
	q := 2*math.Exp(5) + math.Exp(1) + math.Exp(-90)
	want := 0.0
	for _, x := range [][2]float64{{0, 5}, {3, 5}, {3, 1}} {
		p := math.Exp(x[0]) / z
		want += p * (math.Log(p) - (x[1] - math.Log(q)))
	}
	if math.Abs(s.KL-want) > 1e-3 {
		t.Errorf("KL is %g, want %g", s.KL, want)
	}
	if nll := math.Log(q) - 1; math.Abs(float64(s.NLL)-nll) > 1e-6 {
		t.Errorf("−ln q is %g, want %g", s.NLL, nll)
	}
	if dp := math.Exp(1)/q - math.Exp(3)/z; math.Abs(float64(s.DP)-dp) > 1e-4 {
		t.Errorf("q − p is %g, want %g", s.DP, dp)
	}
}

// A token with ln p a little above −16 is in the sum, one a little below is not.
func TestCutOff(t *testing.T) {
	for _, c := range []struct{ logit, want float64 }{{-15.6, math.Exp(-15.6) * 1e6}, {-15.99, math.Exp(-15.99) * 1e6}, {-16.01, 0}, {-16.4, 0}} {
		row := Row{Scale: 1, Least: float32(c.logit), Codes: []uint16{0, 16}} // the other one's ln p is near 0
		s := Compare(&row, []float32{-1e6, 0}, 1)
		rest := math.Exp(float64(row.LogProb(1))) * float64(row.LogProb(1))
		if math.Abs(s.KL-rest-c.want) > 1e-3*(c.want+0.01) {
			t.Errorf("ln p of %g adds %g, want %g", c.logit, s.KL-rest, c.want)
		}
	}
}

func TestLogitsThatAreNotNumbers(t *testing.T) {
	var row Row
	if _, err := row.Set([]float32{0, 1, 2}, -1); err != nil {
		t.Fatal(err)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	var s Statistics
	for _, logits := range [][]float32{{nan, 1, 2}, {0, nan, 2}, {0, 1, inf}, {-inf, -inf, -inf}} {
		score := Compare(&row, logits, 0)
		if !score.NaN {
			t.Errorf("%v passes: %+v", logits, score)
		}
		s.Add(score)
	}
	for range MinCount {
		s.Add(Compare(&row, []float32{0, 1.5, 2}, 0))
	}
	if s.NaN != 4 || s.Count != MinCount || math.IsNaN(s.KL().Value) {
		t.Errorf("%d left out of %d, KL %v", s.NaN, s.Count, s.KL())
	}
	var b strings.Builder
	if err := s.Print(&b); err != nil || !strings.Contains(b.String(), "Left out  : 4 positions whose logits are not numbers\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
	// One candidate that excludes what the reference allows.
	if x := Compare(&row, []float32{0, float32(math.Inf(-1)), 2}, 0); !math.IsInf(x.KL, 1) || x.NaN {
		t.Errorf("an excluded token: %+v", x)
	}
}

func TestPercentiles(t *testing.T) {
	o := sorted([]float32{4, 1, 3, 2})
	for f, want := range map[float32]float64{0: 1, 1: 4, .5: 2.5, .25: 1.75} {
		if got := o.at(f); got != want {
			t.Errorf("at %g: %g, want %g", f, got, want)
		}
	}
	if o.median() != 2.5 || sorted([]float32{5}).median() != 5 || sorted([]float32{5}).at(.999) != 5 {
		t.Error("medians")
	}
}

func TestFixed(t *testing.T) {
	for want, got := range map[string]string{
		"      -nan": fixed(math.NaN(), 10, 6), "       inf": fixed(math.Inf(1), 10, 6), "-inf": fixed(math.Inf(-1), 3, 1),
		" -0.000": fixed(-0.0001, 7, 3), "12345.7": fixed(12345.67, 2, 1),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Up to ten positions llama-perplexity gives no errors.
func TestErrorsOfFew(t *testing.T) {
	var s Statistics
	for i := range 11 {
		s.Add(Score{KL: float64(i), NLL: 1, NLLBase: 1})
		want := 0.0
		if i == 10 { // of 0 to 10: variance 10, √(10/10)
			want = 1
		}
		if got := s.KL(); got.Value != float64(i)/2 || got.Err != want {
			t.Errorf("%d positions: %+v, want an error of %g", i+1, got, want)
		}
	}
}
