package candidate

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/model"
)

// A GGUF's metadata are the checkpoint's config again, but for what the format
// cannot say: Mixtral's window.
func TestArchitectureOfGGUFs(t *testing.T) {
	for _, m := range ggufModels {
		ref, err := Open(context.Background(), filepath.Join("..", "model", "testdata", m.name), Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(context.Background(), filepath.Join("testdata", "gguf", m.name+".gguf"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		found := archFindings(ref, c)
		if m.name == "mixtral" {
			if len(found) != 1 || !strings.Contains(found[0].Message, "window is 0, and 24 in the reference, in all layers") {
				t.Errorf("%s: %v", m.name, found)
			}
		} else if len(found) > 0 {
			t.Errorf("%s: %v", m.name, found)
		}
		_, _ = ref.Close(), c.Close()
	}
}

func TestArchitecturesThatDiffer(t *testing.T) {
	spec := func(change func(*model.Spec)) *Candidate {
		s := &model.Spec{Layers: make([]model.Layer, 3), EmbedScale: 1}
		for i := range s.Layers {
			s.Layers[i] = model.Layer{Index: i, In: "input_layernorm", Norm: model.Norm{Eps: 1e-5}, Attn: model.Attention{Heads: 4, Rope: model.Rope{Theta: 10000, Max: 512}}}
		}
		change(s)
		return &Candidate{Arch: s}
	}
	ref := spec(func(*model.Spec) {})
	for want, change := range map[string]func(*model.Spec){
		"rope theta is 500000, and 10000 in the reference, in all layers": func(s *model.Spec) {
			for i := range s.Layers {
				s.Layers[i].Attn.Rope.Theta = 500000
			}
		},
		"2 layers, and 3 in the reference":                                       func(s *model.Spec) { s.Layers = s.Layers[:2] },
		"window is 12, and 0 in the reference, in layer 1":                       func(s *model.Spec) { s.Layers[1].Attn.Window = 12 },
		"moe is there, and not there in the reference, in 2 layers, the first 1": func(s *model.Spec) { s.Layers[1].MoE, s.Layers[2].MoE = &model.MoE{}, &model.MoE{} },
		"norm eps is 1e-06, and 1e-05 in the reference, in layer 0":              func(s *model.Spec) { s.Layers[0].Norm.Eps = 1e-6 },
		"embedding scale is 8, and 1 in the reference":                           func(s *model.Spec) { s.EmbedScale = 8 },
	} {
		found := archFindings(ref, spec(change))
		if !slices.ContainsFunc(found, func(f Finding) bool { return strings.Contains(f.Message, want) && f.ID == "architecture-differs" }) || len(found) != 1 {
			t.Errorf("%v, want %q", found, want)
		}
	}
	if f := archFindings(ref, spec(func(s *model.Spec) { s.Layers[0].Attn.Rope.Max, s.Layers[0].Attn.Rope.BetaFast = 9, 9 })); len(f) > 0 {
		t.Errorf("what a plain rope does not use: %v", f)
	}
	if f := archFindings(ref, &Candidate{}); f != nil {
		t.Errorf("without an architecture: %v", f)
	}
}
