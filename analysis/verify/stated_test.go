package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
)

// What the stored second-level scale does not say of how a matrix was made comes
// from the source: the magnitude that ModelOpt's static rule divides by, that a
// matrix has nothing but zeros, that a scale was raised to the least of its type.
func TestWhatTheStoredScaleDoesNotSay(t *testing.T) {
	for _, c := range []struct {
		variant string
		conv    kernels.Convention
		elem    kernels.Element
		factor  float32
	}{
		{"nvfp4", kernels.ModelOptStatic, kernels.BF16, 1},
		{"nvfp4+mse", kernels.ModelOptStatic, kernels.BF16, 1},
		{"nvfp4+sweep", kernels.ModelOptStatic, kernels.BF16, 1},
		{"nvfp4+4over6", kernels.ModelOpt, kernels.F32, 1},
		{"nvfp4+sweep", kernels.ModelOpt, kernels.BF16, 0},
		{"nvfp4+sweep", kernels.CT32, kernels.BF16, 0},
		{"fp8", kernels.ModelOpt, kernels.F32, 0x1p-145},
		{"fp8", kernels.CT32, kernels.F32, 0x1p-145},
	} {
		t.Run(c.variant+" "+c.conv.String()+" "+c.elem.String(), func(t *testing.T) {
			t.Parallel()
			layout := export.ModelOpt
			if c.conv == kernels.CT32 {
				layout = export.CompressedTensors
			}
			e := exportScaled(t, c.variant, layout, c.conv, c.elem, c.factor)
			e.good(t, Options{Session: e.session(c.variant)})
		})
	}
}

// A file that no server reads may be missing, which is noted.
func TestLicenceMissing(t *testing.T) {
	e := exportMoE(t, "nvfp4", export.ModelOpt)
	if err := os.Remove(filepath.Join(e.dir, "LICENSE")); err != nil {
		t.Fatal(err)
	}
	if rep := e.good(t, Options{}); len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], "LICENSE") {
		t.Errorf("notes %q", rep.Notes)
	}
}

// exportScaled exports the attention of a model whose weights, but for the first
// matrices', are multiplied by a factor.
func exportScaled(t *testing.T, variant, layout string, conv kernels.Convention, elem kernels.Element, factor float32) exported {
	t.Helper()
	dir := t.TempDir()
	dtype := map[kernels.Element]checkpoint.DType{kernels.BF16: checkpoint.BF16, kernels.F32: checkpoint.F32}[elem]
	specs := []checkpoint.Spec{{Name: "model.embed_tokens.weight", DType: dtype, Shape: []int64{8, 64}}}
	for _, p := range []string{"q", "k", "v", "o"} {
		specs = append(specs, checkpoint.Spec{Name: layer + "self_attn." + p + "_proj.weight", DType: dtype, Shape: []int64{64, 64}})
	}
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	seed := normal(3)
	for i, s := range specs {
		size, _ := s.Size()
		raw := make([]byte, size)
		values := make([]float32, int(size)/elem.Size())
		for k := range values {
			if values[k] = float32(seed.next() / 16); i > 1 {
				values[k] *= factor
			}
		}
		if err := kernels.EncodeFloats(raw, elem, values); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(moeConfig), 0o666); err != nil {
		t.Fatal(err)
	}
	ck, model := openSource(t, dir)
	v := variantWith(t, variant, layout)
	v.Spec.Convention = conv
	return exportAs(t, ck, model, filepath.Join(t.TempDir(), "out"), "*self_attn*", v, layout, export.PerTensor)
}
