package candidate

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// TestEmbeddingStage: a candidate that differs in any tensor of what is made before the
// first layer, and in no layer, is not taken for the reference there: in one pass with
// it, and in mixtures, it has the bits that it has alone.
func TestEmbeddingStage(t *testing.T) {
	ref := open(t, filepath.Join("..", "model", "testdata", "gemma4_ple"))
	all := mustParse(t, ref, "q=int4-g32@all", Options{})
	var list []*Candidate
	list = append(list, ref)
	for _, pattern := range []string{"*embed_tokens_per_layer", "*.embed_tokens"} {
		// All but one tensor is the reference's.
		only := must(t)(Keep(all, ref, pattern))
		list = append(list, only)
	}
	other := turned(t, ref, "model.per_layer_model_projection.weight")
	list = append(list, must(t)(Keep(other, ref, "*per_layer_model_projection")))
	other = turned(t, ref, "model.per_layer_projection_norm.weight")
	list = append(list, must(t)(Keep(other, ref, "*per_layer_projection_norm")))
	list = append(list, must(t)(WithBody(ref, list[3])), must(t)(WithHead(list[3], ref)))
	for _, spec := range []string{"t=int4-g32@*embed_tokens_per_layer", "p=fp8@*per_layer_model_projection"} {
		list = append(list, mustParse(t, ref, spec, Options{}))
	}
	var sources []model.Source
	var alone [][]float32
	text := [][]int32{{5, 9, 100, 31, 7, 7, 90, 14}}
	o := model.Options{Set: kernels.Best(), Threads: 2}
	for i, c := range list {
		sources = append(sources, source(t, c))
		h, err := model.Run(t.Context(), c.Arch, []model.Source{source(t, c)}, text, o)
		if err != nil {
			t.Fatal(err)
		}
		alone = append(alone, h[0].X)
		if i > 0 && source(t, c).LayerOrigin(-1) == source(t, ref).LayerOrigin(-1) {
			t.Errorf("%s stands for the reference before the first layer", c.Label)
		}
		if i > 0 && slices.Equal(h[0].X, alone[0]) {
			t.Errorf("%s has the hidden states of the reference", c.Label)
		}
	}
	h, err := model.Run(t.Context(), ref.Arch, sources, text, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range list {
		sameBits(t, c.Label, h[i].X, alone[i])
	}
	sameBits(t, "its body", alone[5], alone[3])
	sameBits(t, "its head", alone[6], alone[3])
	groups, err := Parts(ref, list[1])
	if err != nil || len(groups) != 1 || !strings.HasPrefix(groups[0].Name, tables) {
		t.Errorf("parts %v, %v", groups, err)
	}
}

// turned is a candidate of the same checkpoint with other signs in one tensor.
func turned(t *testing.T, ref *Candidate, name string) *Candidate {
	t.Helper()
	return open(t, changed(t, ref, func(x tensor) tensor {
		if x.name == name {
			x.data = slices.Clone(x.data)
			for k := 1; k < len(x.data); k += 4 { // high bytes of every other bf16
				x.data[k] ^= 0x80
			}
		}
		return x
	}))
}
