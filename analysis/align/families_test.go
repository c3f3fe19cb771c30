package align

import (
	"path/filepath"
	"strings"
	"testing"
)

// What llama.cpp's converter made of models of the newest families is the same model:
// every tensor of the text model meets, every value is the master's but the logarithm
// of rates of decay, and orders of rows that were put back are named.
func TestFamiliesOfGGUF(t *testing.T) {
	for _, f := range []struct {
		name   string
		undone map[string]int // tensors by words of the order that was put back
	}{
		{"qwen3_next", map[string]int{"rows of each key head put back together": 3}},
		{"qwen3_5", map[string]int{"value heads put back side by side": 24}},
		{"qwen3_5_moe", map[string]int{"value heads put back side by side": 24}},
		{"step3p7", nil}, {"deepseek_v2", nil}, {"deepseek_v4", nil}, {"gemma4_moe", nil}, {"gemma4_ple", nil},
	} {
		t.Run(f.name, func(t *testing.T) {
			r := compare(t, filepath.Join("..", "model", "testdata", f.name), filepath.Join("..", "..", "quant", "gguf", "testdata", "families", f.name+".gguf"), Options{})
			undone := map[string]int{}
			for i := range r.Tensors {
				x := &r.Tensors[i]
				rate := strings.HasSuffix(x.Tensor, "A_log")
				if x.NonFinite != 0 || x.Different != 0 && !rate || x.MaxAbs > 1e-6 {
					t.Errorf("%+v", x)
				}
				for _, u := range x.Undone {
					for words := range f.undone {
						if strings.HasPrefix(u, words) {
							undone[words]++
						}
					}
				}
				if len(x.Undone) > 0 && f.undone == nil {
					t.Errorf("%s: %v", x.Tensor, x.Undone)
				}
			}
			for words, n := range f.undone {
				if undone[words] != n {
					t.Errorf("%q of %d tensors, want %d", words, undone[words], n)
				}
			}
			for _, name := range r.OnlyMaster {
				if !strings.Contains(name, "vision") && !strings.Contains(name, "vit_") {
					t.Errorf("%s has no tensor in the file", name)
				}
			}
			if len(r.OnlyCandidate)+len(r.Findings) > 0 {
				t.Errorf("only in the file: %v; %v", r.OnlyCandidate, r.Findings)
			}
		})
	}
}
