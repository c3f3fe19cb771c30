package model

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// mtpModels are those of testdata with a multi-token-prediction layer.
var mtpModels = []string{"glm4_moe_mtp", "deepseek_v3_mtp", "qwen3_next_mtp", "qwen3_5_mtp", "step3p7_mtp", "deepseek_v4_mtp"}

// TestGoldenMTP compares what the module computes of whole texts with
// transformers: its layer's output, its experts, its logits.
func TestGoldenMTP(t *testing.T) {
	for _, name := range mtpModels {
		t.Run(name, func(t *testing.T) {
			f, gold := opened(t, name), openGolden(t, name+".expected.safetensors")
			src := NewResident(f.source())
			logits, shape := gold.values("mtp.logits")
			block, _ := gold.values("mtp.block_out")
			n, h := int(shape[1]), f.spec.Width()
			moe, blocks, routed := gold.has("mtp.expert_ids"), 0, 0
			for b, text := range gold.chunks("input_ids") {
				o := quick()
				o.Layer = func(_, after int, x []float32) {
					if b == 0 && after == len(f.spec.Layers)+1 {
						blocks++
						within(t, "block", x, block, goldenTolerance)
					}
				}
				var ids, weights, router []float32
				if moe {
					ids, _ = gold.values("mtp.expert_ids")
					weights, _ = gold.values("mtp.expert_weights")
					router, _ = gold.values("mtp.router_logits")
				}
				o.Routed = func(_, _ int, got []float32, choices []Choice) {
					routed++
					within(t, "router", got, router[b*len(got):][:len(got)], goldenTolerance)
					for i, c := range choices {
						for j, e := range slices.Sorted(slices.Values(c.Experts)) {
							at := (b*n+i)*len(c.Experts) + j
							if float32(e) != ids[at] {
								t.Fatalf("sequence %d token %d: expert %d, want %g", b, i, e, ids[at])
							}
							w := c.Weights[slices.Index(c.Experts, e)]
							within(t, "weight", []float32{w}, weights[at:at+1], 3e-5)
						}
					}
				}
				m, err := NewMTP(t.Context(), f.spec, src, o)
				if err != nil {
					t.Fatal(err)
				}
				d, err := NewDecoder(t.Context(), f.spec, src, quick())
				if err != nil {
					t.Fatal(err)
				}
				x, err := d.Feed(t.Context(), text)
				if err != nil {
					t.Fatal(err)
				}
				normed := make([]float32, len(x))
				d.Normed(normed, x)
				got, err := m.Feed(t.Context(), normed[:n*h], text[1:])
				if err != nil {
					t.Fatal(err)
				}
				within(t, fmt.Sprintf("sequence %d", b), got, logits[b*n*f.spec.Vocab:][:n*f.spec.Vocab], goldenTolerance)
			}
			if blocks != 1 || routed != 0 != moe || moe && routed != 2 {
				t.Errorf("compared %d outputs of the layer and %d routers, want 1 and, of experts, 2", blocks, routed)
			}
		})
	}
}

// TestGoldenDrafts compares greedy texts with and without drafts, every draft
// and the number of passes.
func TestGoldenDrafts(t *testing.T) {
	for _, name := range mtpModels {
		t.Run(name, func(t *testing.T) {
			f := opened(t, name)
			src := NewResident(f.source())
			var g struct {
				New     int `json:"max_new_tokens"`
				Prompts []struct {
					Prompt []int32
					New    []int32 `json:"new_tokens"`
					Drafts []Draft
					Passes int `json:"main_forwards"`
				}
			}
			data, err := os.ReadFile(filepath.Join("testdata", name+".generate.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, &g); err != nil {
				t.Fatal(err)
			}
			if len(g.Prompts) != 3 {
				t.Fatalf("%d prompts, want 3", len(g.Prompts))
			}
			for i, p := range g.Prompts {
				d, err := NewDecoder(t.Context(), f.spec, src, quick())
				if err != nil {
					t.Fatal(err)
				}
				plain, err := Generate(t.Context(), d, p.Prompt, g.New, NewSampler(Sampling{}), nil)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(plain, p.New) {
					t.Errorf("prompt %d: %v, want %v", i, plain, p.New)
				}
				d.Cut(0)
				m, err := NewMTP(t.Context(), f.spec, src, quick())
				if err != nil {
					t.Fatal(err)
				}
				got, drafts, passes, err := GenerateMTP(t.Context(), d, m, p.Prompt, g.New)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, p.New) || !slices.Equal(drafts, p.Drafts) || passes != p.Passes {
					t.Errorf("prompt %d: %v by %d passes with drafts %v, want %v by %d with %v", i, got, passes, drafts, p.New, p.Passes, p.Drafts)
				}
			}
		})
	}
}
