package yardstick

import (
	"context"
	"math"
	"testing"

	"quantscope/quant/checkpoint"
)

func array(t *testing.T, ck *checkpoint.Checkpoint, name string) []float64 {
	t.Helper()
	x, ok := ck.Lookup(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	raw := make([]byte, x.Elements()*int64(x.DType.Bits())/8)
	if err := ck.ReadAt(context.Background(), x, 0, raw); err != nil {
		t.Fatal(err)
	}
	out := make([]float64, x.Elements())
	if x.DType == checkpoint.F64 {
		for i := range out {
			var u uint64
			for b := range 8 {
				u |= uint64(raw[8*i+b]) << (8 * b)
			}
			out[i] = math.Float64frombits(u)
		}
		return out
	}
	f := make([]float32, len(out))
	if err := checkpoint.DecodeF32(f, x.DType, raw); err != nil {
		t.Fatal(err)
	}
	for i, v := range f {
		out[i] = float64(v)
	}
	return out
}

func TestGoldenKL(t *testing.T) {
	for _, name := range []string{"kl_main", "kl_edge"} {
		ck, err := checkpoint.Open("/work/shared/golden/" + name + ".safetensors")
		if err != nil {
			t.Fatal(err)
		}
		p, q := array(t, ck, "p_logits"), array(t, ck, "q_logits")
		targets := array(t, ck, "targets")
		n := len(targets)
		v := len(p) / n
		f := func(x []float64) []float32 {
			out := make([]float32, len(x))
			for i := range x {
				out[i] = float32(x[i])
			}
			return out
		}
		near := func(what string, i int, got, want float64) {
			if math.IsInf(want, 1) && math.IsInf(got, 1) {
				return
			}
			if d := math.Abs(got - want); !(d <= 1e-12+1e-9*math.Abs(want)) {
				t.Errorf("%s row %d %s: %v, want %v", name, i, what, got, want)
			}
		}
		wants := map[string][]float64{}
		for _, k := range []string{"kl_p_q", "kl_q_p", "nll_p", "nll_q", "top1_p", "top1_q", "entropy_p"} {
			wants[k] = array(t, ck, k)
		}
		for i := range n {
			s := Compare(f(p[i*v:(i+1)*v]), f(q[i*v:(i+1)*v]), int32(targets[i]))
			near("kl", i, s.KL, wants["kl_p_q"][i])
			near("reverse", i, s.Reverse, wants["kl_q_p"][i])
			near("nll p", i, s.NLLP, wants["nll_p"][i])
			near("nll q", i, s.NLLQ, wants["nll_q"][i])
			near("entropy", i, s.Entropy, wants["entropy_p"][i])
			near("top p", i, float64(s.TopP), wants["top1_p"][i])
			near("top q", i, float64(s.TopQ), wants["top1_q"][i])
		}
	}
}
