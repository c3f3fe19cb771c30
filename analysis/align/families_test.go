package align

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/layout"
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

// Channels of a convolution are read from any one on, on both sides.
func TestChannelsOfGGUF(t *testing.T) {
	var rows [2][]float32
	for i, path := range []string{filepath.Join("..", "model", "testdata", "qwen3_5"), filepath.Join("..", "..", "quant", "gguf", "testdata", "families", "qwen3_5.gguf")} {
		s, err := Open(t.Context(), path, layout.Options{})
		if err != nil {
			t.Fatal(err)
		}
		k := slices.IndexFunc(s.Tensors, func(x Tensor) bool { return strings.HasSuffix(x.Name, "layers.1.linear_attn.conv1d.weight") })
		if k < 0 || s.Tensors[k].Rows != 128 || s.Tensors[k].Cols != 4 {
			t.Fatalf("%s: %d", path, k)
		}
		rows[i] = make([]float32, 8)
		if err := s.Tensors[k].rows.read(t.Context(), &scratch{}, 90, rows[i]); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(rows[0], rows[1]) {
		t.Errorf("%v in the checkpoint and %v in the file", rows[0], rows[1])
	}
}
