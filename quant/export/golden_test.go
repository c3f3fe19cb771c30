package export

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/recipe"
)

// Exports hold, tensor by tensor and bit for bit, what nvidia-modelopt and
// llm-compressor with compressed-tensors store for the same weights; the
// vectors are those of package kernels (README there).
func TestPeersGolden(t *testing.T) {
	const name = "model.layers.0.mlp.up_proj"
	for _, c := range []struct {
		file, prefix, layout, format string
		conv                         kernels.Convention
	}{
		{"nvfp4_zero_blocks", "modelopt.", ModelOpt, "nvfp4", kernels.ModelOpt},
		{"nvfp4_zero_blocks", "ct.", CompressedTensors, "nvfp4", kernels.CT},
		{"nvfp4_zero_blocks", "ct32.", CompressedTensors, "nvfp4", kernels.CT32},
		{"mxfp4_heavy_tail", "ct.", CompressedTensors, "mxfp4", kernels.CT},
		{"fp8_heavy_tail", "modelopt.tensor.", ModelOpt, "fp8", kernels.ModelOpt},
		{"fp8_heavy_tail", "modelopt.channel.", ModelOpt, "fp8-channel", kernels.ModelOpt},
		{"fp8_heavy_tail", "ct.tensor.", CompressedTensors, "fp8", kernels.CT},
		{"fp8_heavy_tail", "ct.channel.", CompressedTensors, "fp8-channel", kernels.CT},
		{"fp8_heavy_tail", "ct.block128.", CompressedTensors, "fp8-block128", kernels.CT},
		{"fp8_heavy_tail", "ct32.block128.", CompressedTensors, "fp8-block128", kernels.CT32},
		{"int4_ct_sym_g128", "ct.", CompressedTensors, "int4-g128-sym", kernels.CT},
		{"int4_ct_sym_g128", "ct32.", CompressedTensors, "int4-g128-sym", kernels.CT32},
		{"int4_ct_asym_g32", "ct.", CompressedTensors, "int4-g32", kernels.CT},
		{"int4_ct_asym_g32", "ct32.", CompressedTensors, "int4-g32", kernels.CT32},
	} {
		t.Run(fmt.Sprintf("%s/%s%s", c.file, c.prefix, c.format), func(t *testing.T) {
			peer, err := checkpoint.Open(filepath.Join("..", "..", "kernels", "testdata", "golden", c.file+".safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			raw, w := content(t, peer, "w")
			source := filepath.Join(t.TempDir(), "model.safetensors")
			out, err := checkpoint.NewWriter(source, []checkpoint.Spec{{Name: name + ".weight", DType: w.DType, Shape: w.Shape}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := out.Write(raw); err != nil {
				t.Fatal(err)
			}
			if err := out.Commit(); err != nil {
				t.Fatal(err)
			}
			ck, model := openModel(t, filepath.Dir(source))
			sel, err := recipe.Select(model, "")
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPlan(ck, model, sel.Matrices, variantOf(c.format, c.conv), Settings{Layout: c.layout})
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "out")
			mustWrite(t, p, prepare(t, p), dir, Options{})
			got, _ := openModel(t, dir)
			for x := range p.fieldsOf(0) {
				field := x.Name[len(name)+1:]
				a, mine := content(t, got, x.Name)
				b, theirs := content(t, peer, c.prefix+field)
				if !slices.Equal(a, b) || mine.DType != theirs.DType {
					t.Errorf("%s is %s %v, the peer's is %s %v, and their bytes differ: %t", field, mine.DType, mine.Shape, theirs.DType, theirs.Shape, !slices.Equal(a, b))
				}
				// ModelOpt's function gives a vector of one, its export a scalar.
				if !slices.Equal(mine.Shape, theirs.Shape) && !(c.format == "fp8" && c.layout == ModelOpt && mine.Elements() == theirs.Elements()) {
					t.Errorf("%s is %v, the peer's is %v", field, mine.Shape, theirs.Shape)
				}
			}
		})
	}
}
