package ggufmake

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
)

// Types are those that can be written, by their names in lower case.
func Types() []string {
	var names []string
	for t := range kernels.GGUFType(64) {
		if t.Known() && t.Encodes() {
			names = append(names, strings.ToLower(t.String()))
		}
	}
	return names
}

// ParseType finds one by its name, whose case does not matter.
func ParseType(name string) (kernels.GGUFType, error) {
	t, err := kernels.GGUFTypeByName(name)
	if err != nil || !t.Encodes() {
		return 0, fmt.Errorf("GGUF type %q cannot be written; known are %s", name, strings.Join(Types(), ", "))
	}
	return t, nil
}

// ParseVariant reads a type, or TYPE+imatrix.
func ParseVariant(name string) (t kernels.GGUFType, importance bool, err error) {
	base, method, has := strings.Cut(name, "+")
	if t, err = ParseType(base); err != nil {
		return t, false, err
	}
	switch {
	case !has:
		return t, false, nil
	case method != "imatrix":
		return t, false, fmt.Errorf("method %q of %q is not known for GGUF types; known is imatrix", method, name)
	case !t.TakesImportance():
		var take []string
		for _, n := range Types() {
			if t, err := kernels.GGUFTypeByName(n); err == nil && t.TakesImportance() {
				take = append(take, n)
			}
		}
		return t, false, fmt.Errorf("%q: %s has nothing to choose by importance; those that have are %s", name, t, strings.Join(take, ", "))
	}
	return t, true, nil
}

// VariantName is the canonical name.
func VariantName(t kernels.GGUFType, importance bool) string {
	name := strings.ToLower(t.String())
	if importance {
		name += "+imatrix"
	}
	return name
}

// fileTypes are the values of general.file_type, which says what most tensors are.
// Mixtures have values of their own; of the pure ones those named small stand for
// their type.
var fileTypes = map[kernels.GGUFType]uint32{
	kernels.GGUFF32: 0, kernels.GGUFF16: 1, kernels.GGUFQ4_0: 2, kernels.GGUFQ4_1: 3, kernels.GGUFQ8_0: 7, kernels.GGUFQ5_0: 8, kernels.GGUFQ5_1: 9,
	kernels.GGUFQ4_K: 14, kernels.GGUFQ5_K: 16, kernels.GGUFQ6_K: 18, kernels.GGUFIQ4NL: 25, kernels.GGUFIQ4XS: 30, kernels.GGUFBF16: 32,
	kernels.GGUFTQ1_0: 36, kernels.GGUFTQ2_0: 37, kernels.GGUFMXFP4: 38, kernels.GGUFNVFP4: 39,
}

// instead is what takes the place of a type whose block a row is no multiple of;
// where that does not fit either, F16 does. It is llama.cpp's own table.
func instead(t kernels.GGUFType, cols int) kernels.GGUFType {
	to := map[kernels.GGUFType]kernels.GGUFType{
		kernels.GGUFQ4_K: kernels.GGUFQ5_0, kernels.GGUFQ5_K: kernels.GGUFQ5_1, kernels.GGUFQ6_K: kernels.GGUFQ8_0, kernels.GGUFIQ4XS: kernels.GGUFIQ4NL,
		kernels.GGUFTQ1_0: kernels.GGUFQ4_0, kernels.GGUFTQ2_0: kernels.GGUFQ4_0, kernels.GGUFNVFP4: kernels.GGUFMXFP4,
	}[t]
	if to == 0 || !fits(to, cols) {
		return kernels.GGUFF16
	}
	return to
}

// fits says whether rows are whole blocks.
func fits(t kernels.GGUFType, cols int) bool {
	block, _ := t.Block()
	return block > 0 && cols%block == 0
}

// sibling is the name of a tensor that stands beside a weight.
func sibling(name, suffix string) (string, bool) {
	base, ok := strings.CutSuffix(name, ".weight")
	return base + suffix, ok
}

// small are parts of names of matrices that llama.cpp leaves as they are: routers,
// convolutions, positions and the like.
var small = []string{
	"_norm.", "ffn_gate_inp.", "ffn_gate_inp_shexp.", "ffn_gate_tid2eid.", "hc_attn_fn.", "hc_ffn_fn.", "output_hc_fn.", "_compressor_ape.", "altup", "laurel", "per_layer_model_proj", "ssm_conv1d", "shortconv.conv.", "indexer.",
	"time_mix_", "attn_rel_b.", "position_embd", "token_types.", ".rel_pos", ".patch_embd", "rope_freqs", "rope_factors",
}

// keeps says why a tensor is not quantized, "" where it is.
func keeps(in *Input) string {
	switch {
	case !strings.HasSuffix(in.Name, ".weight"):
		return "is no weight"
	case len(in.Shape) < 2:
		return "is a vector"
	case !in.Type.Decodes():
		return "holds integers"
	case slices.ContainsFunc(small, func(s string) bool { return strings.Contains(in.Name, s) }):
		return "is of a kind that is left as it is"
	}
	return ""
}
