package candidate

import (
	"path/filepath"
	"testing"

	"quantscope/quant/topology"
)

// A GGUF file can be the reference: variants on the fly of one are those of the
// checkpoint that it was made from, second-level scales over the same matrices.
func TestVariantsOfGGUF(t *testing.T) {
	for _, name := range []string{"llama_tied", "qwen3_moe", "glm4_moe_mtp", "gemma3_text", "gpt_oss", "mixtral"} {
		t.Run(name, func(t *testing.T) {
			hf, ref := open(t, filepath.Join("..", "model", "testdata", name)), open(t, filepath.Join("testdata", "gguf", name+".gguf"))
			for _, spec := range []string{"nvfp4@linear", "nvfp4+mse", "int4-g32@linear", "mxfp4@all", "fp8-channel"} {
				compareMatrices(t, mustParse(t, hf, spec, Options{}), mustParse(t, ref, spec, Options{}))
			}
			found, err := Compare(t.Context(), hf, ref)
			if err != nil || len(found) != 0 {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}

// compareMatrices wants two candidates to present the same matrices. Norms may
// have gone through a rounding.
func compareMatrices(t *testing.T, a, b *Candidate) {
	t.Helper()
	sa, sb := source(t, a), source(t, b)
	for _, n := range needs(a.Arch) {
		if n.rows > 0 && n.Kind != topology.Router {
			sameBits(t, a.Spec+" "+n.Place.String(), values(t, sa, n.Place), values(t, sb, n.Place))
		}
	}
}

// Blocks of GGUF types are made into codes from what they decode to.
func TestVariantsOfBlocks(t *testing.T) {
	ref := open(t, filepath.Join("testdata", "gguf", "mixed.gguf"))
	c := mustParse(t, ref, "nvfp4@linear", Options{})
	if len(c.Fallbacks) != 0 || c.Bytes >= ref.Bytes && ref.BitsPerWeight > 8 {
		t.Errorf("fallbacks %v, %d bytes of %d", c.Fallbacks, c.Bytes, ref.Bytes)
	}
	s, r := source(t, c), source(t, ref)
	n := 0
	for p := range s.(*overlay).m.jobs {
		want, got := values(t, r, p), values(t, s, p)
		if d := distanceOf(want, got); !(d > 0.01 && d < 0.2) {
			t.Errorf("%s: relative error %v", p, d)
		}
		n++
	}
	if n != 7*len(ref.Arch.Layers) {
		t.Errorf("%d matrices made", n)
	}
}
