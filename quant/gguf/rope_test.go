package gguf

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"quantscope/kernels"
)

// The divisors of any model by the rule give the rule back, exactly where enough
// of them lie between its bounds, and else one that gives the same divisors.
func TestLlama3Divisors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := llama3{
			factor: float64(rapid.SampledFrom([]int{2, 4, 8, 16, 32}).Draw(t, "factor")), low: 1,
			high:     float64(rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "high")),
			original: float64(rapid.SampledFrom([]int{64, 512, 4096, 8192, 32768}).Draw(t, "original")),
		}
		theta := rapid.SampledFrom([]float64{10000, 500000, 1e6}).Draw(t, "theta")
		n := rapid.SampledFrom([]int{8, 16, 32, 64}).Draw(t, "frequencies")
		wave := func(i int) float64 { return 2 * math.Pi * math.Pow(theta, float64(i)/float64(n)) }
		divisors := make([]float32, n)
		between := 0
		for i := range divisors {
			divisors[i] = float32(want.at(wave(i)))
			if divisors[i] != 1 && float64(divisors[i]) != want.factor {
				between++
			}
		}
		got, ok := llama3Of(divisors, theta)
		switch {
		case float64(divisors[n-1]) != want.factor && divisors[n-1] == 1:
			return // nothing is divided
		case float64(divisors[n-1]) != want.factor:
			return // the last frequency is between the bounds, so that the factor cannot be seen
		case !ok:
			t.Fatalf("%v of %+v are refused", divisors, want)
		case between >= 2 && got != want:
			t.Fatalf("%+v, want %+v", got, want)
		}
		if !got.meets(divisors, wave) {
			t.Fatalf("%+v gives other divisors than %+v", got, want)
		}
	})
}

func TestOtherDivisors(t *testing.T) {
	for _, d := range [][]float32{{1, 2, 1, 8}, {1, 1.5, 8, 4}, {0.5, 1, 2, 4}, {1, 1, 3, 3, 9, 9}, {float32(math.NaN()), 1, 2, 2}} {
		if r, ok := llama3Of(d, 10000); ok {
			t.Errorf("%v pass for %+v", d, r)
		}
	}
	x := llamaFixture(kernels.GGUFF16)
	rng := rand.New(rand.NewPCG(1, 1))
	x.add(rng, "rope_freqs.weight", kernels.GGUFF32, 8)
	_, err := x.model(t)
	refused(t, "random divisors", err, "rope_freqs.weight", "follow no rule that is known")
	x = llamaFixture(kernels.GGUFF16)
	x.add(rng, "rope_freqs.weight", kernels.GGUFF32, 9)
	_, err = x.model(t)
	refused(t, "too many divisors", err, "rope_freqs.weight", "9 divisors for heads of 16")
}

func TestRopeScaling(t *testing.T) {
	for name, c := range map[string]struct {
		keys map[string]any
		want map[string]string // of rope_scaling; nil for none
	}{
		"none":             {nil, nil},
		"a factor of 1":    {map[string]any{"rope.scaling.type": "linear", "rope.scaling.factor": float32(1)}, nil},
		"linear":           {map[string]any{"rope.scaling.type": "linear", "rope.scaling.factor": float32(4)}, map[string]string{"rope_type": "linear", "factor": "4"}},
		"the old key":      {map[string]any{"rope.scale_linear": float32(2)}, map[string]string{"rope_type": "linear", "factor": "2"}},
		"a factor alone":   {map[string]any{"rope.scaling.factor": float32(2.5)}, map[string]string{"rope_type": "linear", "factor": "2.5"}},
		"none by its name": {map[string]any{"rope.scaling.type": "none", "rope.scaling.factor": float32(4)}, nil},
		"yarn": {map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(40), "rope.scaling.original_context_length": uint32(4096), "rope.scaling.yarn_log_multiplier": float32(0.1), "rope.scaling.yarn_beta_slow": float32(2)},
			map[string]string{"rope_type": "yarn", "factor": "40", "original_max_position_embeddings": "4096", "beta_fast": "32", "beta_slow": "2", "mscale": "1", "mscale_all_dim": "1"}},
	} {
		x := llamaFixture(kernels.GGUFF16)
		for k, v := range c.keys {
			x.keys["llama."+k] = v
		}
		m, err := x.model(t)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, ok := m.Topology.Config.Text["rope_scaling"].(map[string]any)
		if ok != (c.want != nil) || len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		for k, w := range c.want {
			if n, is := got[k].(json.Number); is && n.String() != w || !is && got[k] != w {
				t.Errorf("%s: %s is %v, want %s", name, k, got[k], w)
			}
		}
	}
}
