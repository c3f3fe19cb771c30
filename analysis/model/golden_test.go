package model

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// expected reads an array of a golden file as f32.
func expected(t *testing.T, ck *checkpoint.Checkpoint, name string) ([]float32, []int64) {
	t.Helper()
	x, ok := ck.Lookup(name)
	if !ok {
		t.Fatalf("%s has no %s", ck.Path, name)
	}
	raw := make([]byte, x.Elements()*int64(x.DType.Bits())/8)
	if err := ck.ReadAt(context.Background(), x, 0, raw); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, x.Elements())
	if err := checkpoint.DecodeF32(out, x.DType, raw); err != nil {
		t.Fatal(err)
	}
	return out, x.Shape
}

func worst(a, b []float32) float64 {
	most := 0.0
	for i := range b {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

// TestGoldenModels compares with what transformers made of small random models
// in f32: hidden states, logits, experts.
func TestGoldenModels(t *testing.T) {
	for _, m := range []struct {
		name string
		tol  float64
	}{
		{"llama_tied", 3e-4}, {"llama_untied", 2e-4}, {"qwen2", 2e-4}, {"qwen3", 2e-4}, {"qwen3_moe", 2e-4}, {"mixtral", 2e-4},
		{"glm4_moe", 2e-4}, {"glm4_moe_group2", 2e-4}, {"gemma3_text", 2e-4}, {"deepseek_v3", 2e-4}, {"gpt_oss", 2e-4},
		{"llama_rope_llama3", 2e-4}, {"llama_rope_linear", 2e-4}, {"llama_rope_yarn", 2e-4}, {"llama_rope_dynamic", 2e-4},
	} {
		t.Run(m.name, func(t *testing.T) {
			dir := "/work/shared/golden/models/" + m.name
			ck, err := checkpoint.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer ck.Close()
			top, err := topology.FromCheckpoint(ck)
			if err != nil {
				t.Fatal(err)
			}
			gold, err := checkpoint.Open(dir + ".expected.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			defer gold.Close()
			spec, err := NewSpec(top)
			if err != nil {
				t.Fatal(err)
			}
			ids, shape := expected(t, gold, "input_ids")
			var chunks [][]int32
			for i := range int(shape[0]) {
				var c []int32
				for _, id := range ids[i*int(shape[1]):][:shape[1]] {
					c = append(c, int32(id))
				}
				chunks = append(chunks, c)
			}
			src := NewStored(ck, top)
			most := 0.0
			check := func(what string, got, want []float32) {
				w := worst(got, want)
				most = max(most, w)
				if w > m.tol {
					t.Errorf("%s: off by %.2g", what, w)
				}
			}
			o := Options{Set: kernels.Best(), Threads: 2}
			o.Layer = func(_, after int, x []float32) {
				if _, ok := gold.Lookup(fmt.Sprintf("hidden.%d", after)); !ok {
					return
				}
				want, _ := expected(t, gold, fmt.Sprintf("hidden.%d", after))
				check(fmt.Sprintf("hidden.%d", after), x, want)
			}
			o.Routed = func(_, layer int, logits []float32, choices []Choice) {
				want, s := expected(t, gold, fmt.Sprintf("layer%d.expert_ids", layer))
				weights, _ := expected(t, gold, fmt.Sprintf("layer%d.expert_weights", layer))
				k := int(s[2])
				for i, c := range choices {
					order := slices.Clone(c.Experts)
					slices.Sort(order)
					for j, e := range order {
						if float32(e) != want[i*k+j] {
							t.Fatalf("layer %d token %d: experts %v, want %v", layer, i, order, want[i*k:i*k+k])
						}
						w := c.Weights[slices.Index(c.Experts, e)]
						if d := math.Abs(float64(w - weights[i*k+j])); d > 1e-5 {
							t.Fatalf("layer %d token %d expert %d: weight off by %g", layer, i, e, d)
						}
					}
				}
			}
			hidden, err := Run(context.Background(), spec, []Source{src}, chunks, o)
			if err != nil {
				t.Fatal(err)
			}
			head, err := NewHead(context.Background(), spec, src, o)
			if err != nil {
				t.Fatal(err)
			}
			logits, err := head.Logits(nil, hidden[0].X, hidden[0].Rows)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := expected(t, gold, "logits")
			check("logits", logits, want)
			t.Logf("largest difference %.2g", most)
		})
	}
	_ = strings.Join
}
