package calibrate

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestGate(t *testing.T) {
	for _, c := range []struct {
		o    Outcome
		text string
	}{
		{Outcome{Variant: "v", Matrices: 3}, "none of 3 matrices was calibrated"},
		{Outcome{Variant: "v", Baseline: "b", Matrices: 3, Calibrated: 2, Codes: 100}, "0 of 100 codes and parameters of 2 calibrated matrices are not those of b"},
		{Outcome{Variant: "code2+sym+imatrix", Baseline: "code2+sym", Matrices: 3, Calibrated: 2, Codes: 100}, "are not those of code2+sym; imatrix chooses nothing but the codebook"},
		{Outcome{Variant: "code2+imatrix+gptq", Baseline: "code2", Matrices: 3, Calibrated: 2, Codes: 100}, "are not those of code2\n"},
		{Outcome{Variant: "nvfp4+imatrix", Baseline: "nvfp4", Matrices: 3, Calibrated: 2, Codes: 100}, "are not those of nvfp4\n"},
		{Outcome{Variant: "v", Matrices: 3, Calibrated: 2, Codes: 100, Changed: 1}, ""},
	} {
		err := c.o.Gate()
		if end, ok := strings.CutSuffix(c.text, "\n"); ok && err != nil { // the end of the line
			if c.text = end; !strings.HasSuffix(err.Error(), end) {
				t.Errorf("%+v: %v", c.o, err)
			}
		}
		if (c.text == "") != (err == nil) || err != nil && (!errors.Is(err, ErrFidelity) || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

func TestMeansOf(t *testing.T) {
	nan := Float(math.NaN())
	m := MeansOf([]Trade{
		{Out2: 0.1, BaseOut2: 0.2, Rel2: 0.4, BaseRel2: 0.3, Tokens: 10, N: 4, Rank: 4, DampShare: 0.1},
		{Out2: 0.3, BaseOut2: 0.4, Rel2: 0.6, BaseRel2: 0.5, Tokens: 20, N: 8, Rank: 7, DampShare: 0.5},
		{Out2: nan, BaseOut2: nan, Rel2: 0.8, BaseRel2: 0.7, Tokens: 30, N: 8, Rank: -1, DampShare: nan},
		{Out2: 9, Why: "fell back"}, {Out2: 9, Chosen: true},
	})
	near := func(got Float, want float64) bool { return math.Abs(float64(got)-want) < 1e-12 }
	if m.Matrices != 3 || !near(m.Out2, 0.2) || !near(m.BaseOut2, 0.3) || !near(m.Rel2, 0.6) || !near(m.BaseRel2, 0.5) || m.Tokens != 20 || m.Columns != 8 || m.Deficient != 1 || !near(m.DampShare, 0.3) {
		t.Errorf("%+v", m)
	}
	if m := MeansOf(nil); m.Matrices != 0 || !math.IsNaN(float64(m.Out2)) || !math.IsNaN(m.Tokens) || !math.IsNaN(float64(m.DampShare)) {
		t.Errorf("of nothing: %+v", m)
	}
}

func TestLines(t *testing.T) {
	o := Outcome{
		Variant: "int4-g128+gptq", Baseline: "int4-g128", Matrices: 10, Calibrated: 6, Chosen: 1, Codes: 2000, Changed: 100, Params: 4000, FellBack: 1000,
		Fallbacks: []Fallback{{0, "int4-g128", "a"}, {1, "int4-g128", "a"}, {2, "f8_e4m3", "b"}},
		Rank:      RankBound{Inner: 128, Experts: 16, TopK: 2, Tokens: 1000, Need: 1024},
		Experts:   Spread{Experts: 16, Inactive: 1, Deficient: 2, Min: 0, Median: 120.5, Max: 400},
		All:       Means{Matrices: 6, Out2: 0.01, BaseOut2: 0.02, Rel2: 0.04, BaseRel2: 0.03},
		Downs:     Means{Matrices: 4, Deficient: 1, DampShare: 0.25},
		Warnings:  []string{"w"},
	}
	want := []string{
		"int4-g128+gptq: 6 of 10 matrices calibrated, 100 of 2000 codes changed (5 %)",
		"1 matrices stay at int4-g128 as asked",
		"output error 0.02 → 0.01 of the outputs, weight error 0.03 → 0.04 of the weights (means of squares, baseline → calibrated)",
		"tokens of an expert: 0 least, 120.5 median, 400 most; 1 of 16 experts inactive, 2 given fewer tokens than columns",
		"rank bound: 1000 tokens, and experts of 128 inner channels, 2 of 16 a token, need 1024: not met: evenly chosen experts are given 125 tokens each, and their down projections have 128 columns",
		"damping is 25.0 % of the solution of experts' down projections (median), 3 of 4 are of full rank",
		"3 of 10 matrices fell back, 25 % of the parameters:",
		"  2 are int4-g128: a",
		"  1 are f8_e4m3: b",
		"warning: w",
	}
	if got := o.Lines(); !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if o.FellBackShare() != 0.25 || (&Outcome{}).FellBackShare() != 0 {
		t.Error("the share of fallbacks is another")
	}
	dense := (&Outcome{Variant: "v", Matrices: 1}).Lines()
	for _, l := range dense {
		if strings.Contains(l, "expert") || strings.Contains(l, "rank") {
			t.Errorf("of a dense model: %s", l)
		}
	}
}

func TestDiagnostic(t *testing.T) {
	nan := Float(math.NaN())
	for _, c := range []struct {
		name   string
		d      Diagnostic
		advice Advice
		text   string
	}{
		{"damping is most", Diagnostic{Downs: Means{Matrices: 16, Tokens: 48, Columns: 128, DampShare: 0.66}, GateUp: 0.010, Full: 0.0098}, MoreText,
			"more text: down projections have 48 tokens each (median) for 128 columns; damping is 66 % of their solution; calibrating them as well as gate and up takes away 2.0 % of the divergence"},
		{"most are singular", Diagnostic{Downs: Means{Matrices: 16, Deficient: 9, Tokens: 100.5, Columns: 128, DampShare: 0.4}, GateUp: nan, Full: nan}, MoreText,
			"more text: down projections have 100.5 tokens each (median) for 128 columns; damping is 40 % of their solution, and 9 of 16 Hessians are singular"},
		{"half are singular", Diagnostic{Downs: Means{Matrices: 16, Deficient: 8, Tokens: 200, Columns: 128, DampShare: 0.5}, GateUp: nan, Full: nan}, BetterSolver,
			"a better solver: down projections have 200 tokens each (median) for 128 columns; damping is 50 % of their solution, and 8 of 16 Hessians are singular, so the text decides them, and more of it would change little"},
		{"text is enough", Diagnostic{Downs: Means{Matrices: 80, Tokens: 12036, Columns: 128, DampShare: 0.016}, GateUp: 0.01, Full: 0.012}, BetterSolver,
			"a better solver: down projections have 12036 tokens each (median) for 128 columns; damping is 2 % of their solution, so the text decides them, and more of it would change little; calibrating them as well as gate and up adds 20.0 % of the divergence"},
		{"without a measurement", Diagnostic{Downs: Means{Matrices: 80, Tokens: 12036, Columns: 128, DampShare: 0.016, BaseOut2: 0.01, Out2: 0.007}, GateUp: nan, Full: nan}, BetterSolver,
			"more of it would change little; their output error is lower by 30.0 % on the text itself"},
		{"no experts", Diagnostic{Downs: Means{DampShare: nan}, GateUp: 1, Full: 1}, NoAdvice, "nothing to say of down projections"},
		{"no Hessians", Diagnostic{Downs: Means{Matrices: 3, DampShare: nan}}, NoAdvice, "nothing to say of down projections"},
	} {
		if got := c.d.Advice(); got != c.advice || !strings.Contains(c.d.Sentence(), c.text) {
			t.Errorf("%s: %s: %s", c.name, got, c.d.Sentence())
		}
	}
}
