package model

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// TestGoldenMTP compares the module's logits, and greedy texts with and without
// it, with those of transformers.
func TestGoldenMTP(t *testing.T) {
	for _, name := range []string{"glm4_moe_mtp", "deepseek_v3_mtp"} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			dir := "/work/shared/golden/models/" + name
			ck, err := checkpoint.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer ck.Close()
			top, err := topology.FromCheckpoint(ck)
			if err != nil {
				t.Fatal(err)
			}
			spec, err := NewSpec(top)
			if err != nil {
				t.Fatal(err)
			}
			gold, err := checkpoint.Open(dir + ".expected.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			defer gold.Close()
			src := NewResident(NewStored(ck, top))
			o := Options{Set: kernels.Best(), Threads: 2}
			ids, shape := expected(t, gold, "input_ids")
			want, _ := expected(t, gold, "mtp.logits")
			T := int(shape[1])
			for b := range int(shape[0]) {
				var text []int32
				for _, id := range ids[b*T:][:T] {
					text = append(text, int32(id))
				}
				d, err := NewDecoder(ctx, spec, src, o)
				if err != nil {
					t.Fatal(err)
				}
				x, err := d.Feed(ctx, text)
				if err != nil {
					t.Fatal(err)
				}
				normed := make([]float32, len(x))
				d.head.Normed(normed, x)
				m, err := NewMTP(ctx, spec, src, o)
				if err != nil {
					t.Fatal(err)
				}
				got, err := m.Feed(ctx, normed[:(T-1)*spec.Hidden], text[1:])
				if err != nil {
					t.Fatal(err)
				}
				if w := worst(got, want[b*(T-1)*spec.Vocab:(b+1)*(T-1)*spec.Vocab]); w > 2e-4 {
					t.Errorf("sequence %d: logits off by %g", b, w)
				}
			}
			var g struct {
				New     int `json:"max_new_tokens"`
				Prompts []struct {
					Prompt []int32
					New    []int32 `json:"new_tokens"`
					Drafts []Draft
					Passes int `json:"main_forwards"`
				}
			}
			data, err := os.ReadFile(dir + ".generate.json")
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, &g); err != nil {
				t.Fatal(err)
			}
			for i, p := range g.Prompts {
				d, err := NewDecoder(ctx, spec, src, o)
				if err != nil {
					t.Fatal(err)
				}
				plain, err := Generate(ctx, d, p.Prompt, g.New, NewSampler(Sampling{}), nil)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(plain, p.New) {
					t.Errorf("prompt %d: %v, want %v", i, plain, p.New)
				}
				d.Cut(0)
				m, err := NewMTP(ctx, spec, src, o)
				if err != nil {
					t.Fatal(err)
				}
				got, drafts, passes, err := GenerateMTP(ctx, d, m, p.Prompt, g.New)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, p.New) {
					t.Errorf("prompt %d with drafts: %v, want %v", i, got, p.New)
				}
				if !slices.Equal(drafts, p.Drafts) {
					t.Errorf("prompt %d: drafts %v, want %v", i, drafts, p.Drafts)
				}
				if passes != p.Passes {
					t.Errorf("prompt %d: %d passes, want %d", i, passes, p.Passes)
				}
			}
		})
	}
}
