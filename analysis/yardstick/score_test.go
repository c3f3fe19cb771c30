package yardstick

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// array reads a tensor as f64.
func array(t *testing.T, ck *checkpoint.Checkpoint, name string) []float64 {
	t.Helper()
	x, ok := ck.Lookup(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	raw := make([]byte, x.Size)
	if err := ck.ReadAt(context.Background(), x, 0, raw); err != nil {
		t.Fatal(err)
	}
	out := make([]float64, x.Elements())
	for i := range out {
		switch x.DType {
		case checkpoint.F64:
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		case checkpoint.F32:
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		case checkpoint.I32:
			out[i] = float64(int32(binary.LittleEndian.Uint32(raw[4*i:])))
		case checkpoint.I64:
			out[i] = float64(int64(binary.LittleEndian.Uint64(raw[8*i:])))
		default:
			t.Fatalf("%s is %s", name, x.DType)
		}
	}
	return out
}

func convert[T float32 | int32](x []float64) []T {
	out := make([]T, len(x))
	for i, v := range x {
		out[i] = T(v)
	}
	return out
}

func open(t *testing.T, path string) *checkpoint.Checkpoint {
	t.Helper()
	ck, err := checkpoint.Open("testdata/" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	return ck
}

// near is the tolerance of the golden divergences.
func near(got, want float64) bool {
	return math.IsInf(want, 1) && math.IsInf(got, 1) || math.Abs(got-want) <= 1e-12+1e-9*math.Abs(want)
}

func TestGoldenScores(t *testing.T) {
	for _, name := range []string{"kl_main", "kl_edge"} {
		ck := open(t, name+".safetensors")
		p, q, targets := convert[float32](array(t, ck, "p_logits")), convert[float32](array(t, ck, "q_logits")), array(t, ck, "targets")
		v := len(p) / len(targets)
		want := map[string][]float64{}
		for _, k := range []string{"kl_p_q", "kl_q_p", "nll_p", "nll_q", "top1_p", "top1_q", "entropy_p"} {
			want[k] = array(t, ck, k)
		}
		for _, set := range kernels.Available() {
			for i := range targets {
				s := Compare(set, p[i*v:(i+1)*v], q[i*v:(i+1)*v], int32(targets[i]))
				for k, got := range map[string]float64{
					"kl_p_q": s.KL, "kl_q_p": s.Reverse, "nll_p": s.NLLP, "nll_q": s.NLLQ, "entropy_p": s.Entropy,
					"top1_p": float64(s.TopP), "top1_q": float64(s.TopQ),
				} {
					if !near(got, want[k][i]) {
						t.Errorf("%s %s row %d %s: %v, want %v", set.Name, name, i, k, got, want[k][i])
					}
				}
			}
		}
	}
}

// given reads logits and their tokens. Files without tokens have targets only,
// whose first token does not matter.
func given(t *testing.T, path, logits string) Logits {
	t.Helper()
	ck := open(t, path)
	l := Logits{Label: path, Values: convert[float32](array(t, ck, logits))}
	if _, ok := ck.Lookup("tokens"); ok {
		l.Tokens = convert[int32](array(t, ck, "tokens"))
	} else {
		l.Tokens = append([]int32{0}, convert[int32](array(t, ck, "targets"))...)
	}
	l.Columns = len(l.Values) / (len(l.Tokens) - 1)
	return l
}

// one is a report on one chunk of given logits.
func one(t *testing.T, ref Logits, cands []Logits, tokens int) *Report {
	t.Helper()
	s, c, err := ScoreLogits(kernels.Best(), ref, cands, tokens)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Analyze(context.Background(), s, []*Chunk{c}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGoldenSummary(t *testing.T) {
	var want struct {
		Mean, Max   float64
		Percentiles map[string]float64
		Reverse     float64 `json:"reverse_mean"`
		Top1        float64 `json:"top1_agreement"`
		NLLP        float64 `json:"mean_nll_p"`
		NLLQ        float64 `json:"mean_nll_q"`
		PPLP        float64 `json:"ppl_p"`
		PPLQ        float64 `json:"ppl_q"`
		RMS         float64 `json:"rms_delta_p_target"`
		Argmax      int
	}
	data, err := os.ReadFile("testdata/kl_main.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	r := one(t, given(t, "kl_main.safetensors", "p_logits"), []Logits{given(t, "kl_main.safetensors", "q_logits")}, 0)
	s := r.Results[0].All
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"mean", s.KL, want.Mean}, {"median", s.Median, want.Percentiles["50"]}, {"p90", s.P90, want.Percentiles["90"]},
		{"p99", s.P99, want.Percentiles["99"]}, {"p99.9", s.P999, want.Percentiles["99.9"]}, {"max", s.Max, want.Max},
		{"reverse", s.Reverse, want.Reverse}, {"top-1", s.Top1, want.Top1}, {"nll", s.NLL, want.NLLQ}, {"reference's nll", s.RefNLL, want.NLLP},
		{"ppl", s.PPL, want.PPLQ}, {"reference's ppl", s.RefPPL, want.PPLP}, {"rms Δp", s.RMSdP, want.RMS},
		{"worst", float64(r.Results[0].Worst[0].At), float64(want.Argmax)}, {"worst KL", r.Results[0].Worst[0].KL, want.Max},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if !math.IsNaN(s.KLErr) || !strings.Contains(s.Why, "one chunk") {
		t.Errorf("standard error of one chunk: %v, %q", s.KLErr, s.Why)
	}
}

func TestPaddedVocabulary(t *testing.T) {
	base, cand := given(t, "C33-padded-vocab/base.safetensors", "logits"), given(t, "C33-padded-vocab/candidate.safetensors", "logits")
	r := one(t, base, []Logits{cand}, 133)
	if s := r.Results[0].All; !near(s.KL, 0.012620190019569766) || !near(s.Top1, 0.8333333333333334) {
		t.Errorf("mean KL %v, top-1 %v over the real tokens", s.KL, s.Top1)
	}
	if r.Setup.VocabRef != 133 || len(r.Setup.Notes) != 1 || !strings.Contains(r.Setup.Notes[0], "152") || !strings.Contains(r.Setup.Notes[0], "136") || !strings.Contains(r.Setup.Notes[0], "133") {
		t.Errorf("%d tokens, notes %q", r.Setup.VocabRef, r.Setup.Notes)
	}
	for _, tokens := range []int{0, 140} {
		_, _, err := ScoreLogits(kernels.Best(), base, []Logits{cand}, tokens)
		if !errors.Is(err, ErrVocabulary) || !strings.Contains(err.Error(), "152") || !strings.Contains(err.Error(), "136") {
			t.Errorf("tokenizer of %d: %v", tokens, err)
		}
	}
}

func TestLogitsThatAreNoNumbers(t *testing.T) {
	r := one(t, given(t, "C34-nan-logits/base.safetensors", "logits"), []Logits{given(t, "C34-nan-logits/candidate.safetensors", "logits")}, 0)
	s := r.Results[0].All
	if s.NaN != 2 || s.Positions != 8 || !near(s.KL, 0.03810606521494089) || !strings.Contains(s.Why, "2 positions") {
		t.Errorf("%d NaN, %d positions, mean %v, %q", s.NaN, s.Positions, s.KL, s.Why)
	}
	g := r.Gates[0]
	if g.Name != "finite" || g.Passed || !strings.Contains(g.Message, "position 3") || !strings.Contains(g.Message, "position 7") || !strings.Contains(g.Message, "2 of 10") {
		t.Errorf("%+v", g)
	}
}

func TestShiftedTokens(t *testing.T) {
	_, _, err := ScoreLogits(kernels.Best(), given(t, "C36-shifted/base.safetensors", "logits"), []Logits{given(t, "C36-shifted/candidate.safetensors", "logits")}, 0)
	if !errors.Is(err, ErrTokens) || !strings.Contains(err.Error(), "position 1: 17 against 30") {
		t.Error(err)
	}
	if err := SameTokens([]int32{1, 2}, []int32{1, 2, 3}); !errors.Is(err, ErrTokens) {
		t.Error(err)
	}
}

func TestReferenceWithoutNumbers(t *testing.T) {
	base := given(t, "C34-nan-logits/candidate.safetensors", "logits")
	_, _, err := ScoreLogits(kernels.Best(), base, nil, 0)
	if !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), "position 3") {
		t.Error(err)
	}
}

// Rounding makes no divergence negative, both ways, of distributions that are
// nearly the same.
func TestNoNegativeDivergence(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	p, q := make([]float32, 300), make([]float32, 300)
	for range 400 {
		for i := range p {
			p[i] = float32(4 * r.NormFloat64())
			q[i] = p[i]
		}
		q[r.IntN(len(q))] += 1e-6
		for _, set := range kernels.Available() {
			if s := Compare(set, p, q, 0); !(s.KL >= 0 && s.KL < 1e-9 && s.Reverse >= 0 && s.Reverse < 1e-9) {
				t.Fatalf("%s: %g and %g", set.Name, s.KL, s.Reverse)
			}
		}
	}
}
