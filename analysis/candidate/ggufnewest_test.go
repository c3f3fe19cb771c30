package candidate

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// newestGGUF are golden models that stand with the package that reads them, as
// llama.cpp's converter writes them. near is how far logits may be from those of the
// checkpoint: 0 where the file holds every value as it was. orders are the findings.
var newestGGUF = []struct {
	name, effective, order string
	near                   float64
}{
	{"deepseek_v2", "bf16, f32", "", 0}, {"step3p7", "bf16, f32", "", 0}, {"gemma4_moe", "bf16, f32", "", 0}, {"gemma4_ple", "bf16", "", 0},
	{"qwen3_next", "bf16, f32", "qkvz-order", 2e-5}, {"qwen3_5", "bf16", "value-head-order", 2e-5}, {"qwen3_5_moe", "bf16, f32", "value-head-order", 2e-5},
}

// GGUF files of the newest families go through the pass of the checkpoints that they
// were made of, and give the logits of transformers.
func TestGGUFOfTheNewestFamilies(t *testing.T) {
	for _, m := range newestGGUF {
		t.Run(m.name, func(t *testing.T) {
			ref, err := Open(context.Background(), filepath.Join("..", "model", "testdata", m.name), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer ref.Close()
			c, err := Open(context.Background(), filepath.Join("..", "..", "quant", "gguf", "testdata", "families", m.name+".gguf"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := Compatible(ref, c); err != nil {
				t.Error(err)
			}
			order := ""
			for _, f := range c.Findings {
				order += f.ID
			}
			if c.Effective != m.effective || order != m.order {
				t.Errorf("it is %q, findings %v", c.Effective, c.Findings)
			}
			ids, shape := expectedTensor(t, m.name, "input_ids")
			want, _ := expectedTensor(t, m.name, "logits")
			chunks := chunksOf(ids, shape)
			a, b := ggufLogits(t, ref, chunks), ggufLogits(t, c, chunks)
			if len(b) != len(want) {
				t.Fatalf("%d logits, want %d", len(b), len(want))
			}
			for i := range a {
				if d := math.Abs(float64(a[i]) - float64(b[i])); !(d <= m.near) {
					t.Fatalf("logit %d is %g of the checkpoint and %g of the GGUF", i, a[i], b[i])
				}
				if d := math.Abs(float64(b[i]) - float64(want[i])); !(d <= logitsTolerance) {
					t.Fatalf("logit %d is %g, want %g", i, b[i], want[i])
				}
			}
		})
	}
}

// MTP layers of the newest families' files draft: their parts, which Qwen's checkpoints
// keep outside any layer and Step's below one more name, are found.
func TestGGUFHasMTPLayers(t *testing.T) {
	for _, name := range []string{"qwen3_5", "step3p7"} {
		c, err := Open(context.Background(), filepath.Join("..", "..", "quant", "gguf", "testdata", "families", name+"_mtp.gguf"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		src, err := c.Source()
		if err != nil {
			t.Fatal(err)
		}
		mtp, err := model.NewMTP(context.Background(), c.Arch, src, model.Options{Set: kernels.Best(), Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		states, _ := expectedTensor(t, name, "final_norm")
		got, err := mtp.Feed(context.Background(), states[:4*c.Arch.Hidden], []int32{5, 6, 7, 8})
		if err != nil || len(got) != 4*c.Arch.Vocab {
			t.Fatalf("%s: %d logits, %v", name, len(got), err)
		}
		for i, x := range got {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				t.Fatalf("%s: logit %d is %g", name, i, x)
			}
		}
	}
}
