package bias

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"quantscope/analysis/yardstick"
)

// madeUp is a run of candidates without weights: biases of their streams by layer, and
// KL by chunk.
func madeUp(layers int, cands ...madeUpCandidate) *found {
	f := &found{setup: &Setup{Layers: layers, Draws: draws}}
	for c, k := range cands {
		f.setup.Candidates = append(f.setup.Candidates, yardstick.Party{Label: k.label})
		f.weights = append(f.weights, &Weights{Candidate: c, Layer: -1, Tensors: 3, RelL2: k.rel, Bias: k.abs / 10, AbsBias: k.abs, AbsNull: 0.002, Positive: 0.5})
		for l, b := range k.bias {
			f.rows = append(f.rows, &Row{c, l, Residual, Flow{Positions: 100, Rel: 0.2, Bias: b, Gain: -0.01, Shift: math.Abs(b), Null: 0.01, NullMax: 0.02}})
		}
		if len(k.kl) > 0 {
			d := &Divergence{Candidate: c, Positions: 99, StdErr: 0.01, Top1: 0.5, Chunks: k.kl}
			for _, v := range k.kl {
				d.KL += v / float64(len(k.kl))
			}
			f.kl = append(f.kl, d)
		}
	}
	return f
}

type madeUpCandidate struct {
	label    string
	rel, abs float64
	bias, kl []float64
}

// TestVerdicts: sentences say what was found whichever way it falls, and only of
// candidates whose errors are about equal do they compare.
func TestVerdicts(t *testing.T) {
	low, high := []float64{0.001, -0.002, 0.003}, []float64{0.01, 0.02, 0.04}
	for name, c := range map[string]struct {
		f    *found
		want []string
		not  string
	}{
		"more bias and more KL": {madeUp(3, madeUpCandidate{"even", 0.31, 0.001, low, []float64{0.1, 0.12, 0.11}}, madeUpCandidate{"leaning", 0.312, 0.05, high, []float64{0.3, 0.31, 0.33}}),
			[]string{
				"even: weights off by 0.31 with a sign bias of +0.0001 (0.001 of a matrix on average, by chance 0.002, 50 % positive); the stream after the last layer off by 0.2, bias +0.003, gain −0.01, bias beside it +0.003, shift 0.003 (by chance 0.01); KL 0.11 ±0.01 nats, the same first choice at 50.0 % of positions",
				"at about equal weight error (0.31 of even, 0.312 of leaning) a matrix has a sign bias of 0.001 against 0.05 on average",
				"the stream's |bias| is larger under leaning in 3 of 3 layers (after the last +0.003 against +0.04)",
				"its shift under leaning in 3 of 3 layers (0.003 against 0.04, by chance 0.01)",
				"KL 0.11 against 0.313, more under leaning: +0.203 [+0.165, +0.241] over 3 chunks",
				"leaning has more bias and more KL",
			}, ""},
		"more bias and less KL": {madeUp(3, madeUpCandidate{"even", 0.31, 0.001, low, []float64{0.3, 0.31, 0.33}}, madeUpCandidate{"leaning", 0.312, 0.05, high, []float64{0.1, 0.12, 0.11}}),
			[]string{"more under even: −0.203", "leaning has more bias and less KL"}, ""},
		"no difference of KL": {madeUp(3, madeUpCandidate{"even", 0.31, 0.001, low, []float64{0.3, 0.31, 0.33}}, madeUpCandidate{"leaning", 0.312, 0.05, high, []float64{0.33, 0.3, 0.31}}),
			[]string{"not told apart", "leaning has more bias, and KL does not tell them apart"}, ""},
		"no difference of bias": {madeUp(3, madeUpCandidate{"a", 0.31, 0.001, []float64{0.1, 0.1, 0.1}, []float64{0.1, 0.12, 0.11}}, madeUpCandidate{"b", 0.312, 0.001, []float64{0.05, 0.05, 0.11}, []float64{0.3, 0.31, 0.33}}),
			[]string{"larger under a in 2 of 3 layers", "neither has more bias both at most layers and after the last"}, ""},
		"not equal": {madeUp(3, madeUpCandidate{"a", 0.31, 0.001, low, []float64{0.1, 0.2}}, madeUpCandidate{"b", 0.35, 0.001, high, []float64{0.3, 0.3}}),
			[]string{"a: weights off by 0.31", "b: weights off by 0.35"}, "about equal"},
		"half a run": {madeUp(3, madeUpCandidate{"a", 0.31, 0.001, low[:1], nil}, madeUpCandidate{"b", 0.31, 0.001, high[:2], nil}),
			[]string{"a: weights off by 0.31", "larger under b in 1 of 1 layers"}, "KL"},
		"one chunk": {madeUp(1, madeUpCandidate{"a", 0.31, 0.001, low[:1], []float64{1}}, madeUpCandidate{"b", 0.31, 0.001, high[:1], []float64{2}}),
			[]string{"KL 1 against 2, of one chunk, which has no interval"}, "has more bias"},
	} {
		text := strings.Join(c.f.report().Verdicts, "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, text)
			}
		}
		if c.not != "" && strings.Contains(text, c.not) {
			t.Errorf("%s: %q is in\n%s", name, c.not, text)
		}
	}
}

// TestVerdictsOfTheOdd: what is not finite, of another shape or not there yet is said,
// and nothing panics.
func TestVerdictsOfTheOdd(t *testing.T) {
	nan := math.NaN()
	f := madeUp(1, madeUpCandidate{"x", nan, nan, []float64{nan}, []float64{nan, 1}})
	f.weights[0].NonFinite, f.weights[0].Shapes = 7, 2
	f.rows[0].Flow = Flow{NonFinite: 100, Rel: nan, Bias: nan, Gain: nan, Shift: nan, Null: nan, NullMax: nan}
	f.kl[0].NonFinite = 12
	text := strings.Join(f.report().Verdicts, "\n")
	for _, want := range []string{"7 elements not finite", "2 matrices of other shapes left out", "no position of the stream is finite after the last layer (100 are not)", "12 positions without a finite KL"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	empty := Analyze(&Setup{Layers: 3, Candidates: make([]yardstick.Party, 2)}, nil, nil, nil)
	if len(empty.Verdicts) != 0 || len(empty.Pairs) != 0 || empty.Last(0) != nil || empty.Total(1) != nil {
		t.Errorf("of nothing: %+v", empty)
	}
	if _, err := json.Marshal(empty); err != nil {
		t.Error(err)
	}
}
