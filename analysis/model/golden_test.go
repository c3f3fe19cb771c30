package model

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// The small random models of testdata and what transformers 5.17 computes of
// them in f32. Its own deviation from a program in f64 is at most 2e-5.
const goldenTolerance = 2e-4

// TestGoldenModels compares hidden states, logits, experts and their weights.
func TestGoldenModels(t *testing.T) {
	for _, m := range []struct {
		name    string
		hidden  int // arrays of hidden states
		routed  int // layers with experts
		weights float64
	}{
		{"llama_tied", 3, 0, 0}, {"llama_untied", 4, 0, 0}, {"qwen2", 3, 0, 0}, {"qwen3", 3, 0, 0},
		{"qwen3_moe", 3, 2, 1e-5}, {"mixtral", 3, 2, 1e-5}, {"glm4_moe", 4, 2, 1e-5}, {"glm4_moe_group2", 3, 1, 1e-5},
		{"gemma3_text", 4, 0, 0}, {"deepseek_v3", 3, 1, 1e-5}, {"gpt_oss", 3, 2, 1e-5},
		{"llama_rope_llama3", 3, 0, 0}, {"llama_rope_linear", 3, 0, 0}, {"llama_rope_yarn", 3, 0, 0}, {"llama_rope_dynamic", 3, 0, 0},
		{"glm4_moe_mtp", 3, 1, 3e-5}, {"deepseek_v3_mtp", 3, 1, 3e-5},
	} {
		t.Run(m.name, func(t *testing.T) {
			f, gold := opened(t, m.name), openGolden(t, m.name+".expected.safetensors")
			o := quick()
			hidden, routed := 0, 0
			o.Layer = func(_, after int, x []float32) {
				// The last one stands in the file after the final norm only.
				name := fmt.Sprintf("hidden.%d", after)
				if !gold.has(name) {
					return
				}
				hidden++
				want, _ := gold.values(name)
				within(t, name, x[:len(want)], want, goldenTolerance)
			}
			o.Routed = func(_, layer int, logits []float32, choices []Choice) {
				routed++
				checkExperts(t, gold, fmt.Sprintf("layer%d.", layer), logits, choices, m.weights)
			}
			x, logits := logitsOf(t, f, f.source(), gold.chunks("input_ids"), o)
			want, _ := gold.values("logits")
			within(t, "logits", logits, want, goldenTolerance)
			head, err := NewHead(t.Context(), f.spec, f.source(), o)
			if err != nil {
				t.Fatal(err)
			}
			want, _ = gold.values("final_norm")
			normed := make([]float32, len(x))
			head.Normed(normed, x)
			within(t, "final norm", normed[:len(want)], want, goldenTolerance)
			if hidden != m.hidden || routed != m.routed {
				t.Errorf("compared %d hidden states and %d routers, want %d and %d", hidden, routed, m.hidden, m.routed)
			}
		})
	}
}

// checkExperts compares choices, which the file has in ascending order.
func checkExperts(t *testing.T, gold golden, prefix string, logits []float32, choices []Choice, tol float64) {
	t.Helper()
	want, shape := gold.values(prefix + "expert_ids")
	weights, _ := gold.values(prefix + "expert_weights")
	router, _ := gold.values(prefix + "router_logits")
	within(t, prefix+"router_logits", logits, router, goldenTolerance)
	k := int(shape[len(shape)-1])
	if len(choices)*k != len(want) {
		t.Fatalf("%s: %d choices of %d, want %d in all", prefix, len(choices), k, len(want))
	}
	for i, c := range choices {
		order := slices.Sorted(slices.Values(c.Experts))
		for j, e := range order {
			if float32(e) != want[i*k+j] {
				t.Fatalf("%s token %d: experts %v, want %v", prefix, i, order, want[i*k:i*k+k])
			}
			w := c.Weights[slices.Index(c.Experts, e)]
			if d := math.Abs(float64(w - weights[i*k+j])); !(d <= tol) {
				t.Fatalf("%s token %d expert %d: weight off by %g, want at most %g", prefix, i, e, d, tol)
			}
		}
	}
}

// TestGoldenLengths compares texts that are shorter and longer than the model
// was made for: dynamic rope depends on the length.
func TestGoldenLengths(t *testing.T) {
	f, gold := opened(t, "llama_rope_dynamic"), openGolden(t, "llama_rope_dynamic.expected.safetensors")
	_, logits := logitsOf(t, f, f.source(), gold.chunks("short.input_ids"), quick())
	want, _ := gold.values("short.logits")
	within(t, "short", logits, want, goldenTolerance)
	chunks := gold.chunks("long.input_ids")
	_, logits = logitsOf(t, f, f.source(), chunks, quick())
	want, shape := gold.values("long.logits_last4")
	n, tail := len(logits)/len(chunks), int(shape[1]*shape[2])
	for i := range chunks {
		within(t, fmt.Sprintf("long %d", i), logits[(i+1)*n-tail:(i+1)*n], want[i*tail:][:tail], goldenTolerance)
	}
}
