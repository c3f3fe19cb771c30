package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// Gate and up of an expert in one tensor are one matrix, whose outputs are those
// of the tensor in their order, whether gate stands before up or they alternate.
func TestFusedExpertsAsStored(t *testing.T) {
	const tensor = "model.layers.0.mlp.experts.gate_up_proj"
	for _, c := range []struct {
		modelType            string
		shape                []int64
		rowStride, colStride int64
	}{
		{"qwen3_moe", []int64{2, 64, 48}, 48, 1}, // [experts, out, in], gate before up
		{"gpt_oss", []int64{2, 48, 64}, 1, 64},   // [experts, in, out], alternating
		{"llama4", []int64{2, 48, 64}, 1, 64},    // [experts, in, out], gate before up
	} {
		dir := t.TempDir()
		writeSource(t, dir, [][]spec{{
			{"model.embed_tokens.weight", []int64{32, 48}},
			{tensor, c.shape},
			{"lm_head.weight", []int64{32, 48}},
		}})
		config := fmt.Sprintf(`{"model_type": %q, "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "num_local_experts": 2,
			"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 32, "intermediate_size": 32, "vocab_size": 32, "tie_word_embeddings": false}`, c.modelType)
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666); err != nil {
			t.Fatal(err)
		}
		ck, model := openSource(t, dir)
		all := (&run{src: ck, model: model}).sourceMatrices()
		for e := range 2 {
			m, ok := all[fmt.Sprintf("%s[%d]", tensor, e)]
			if want := int64(e) * 48 * 64 * 2; !ok || m.Rows != 64 || m.Cols != 48 || m.RowStride != c.rowStride || m.ColStride != c.colStride || m.Offset != want {
				t.Errorf("%s, expert %d: %t, %+v", c.modelType, e, ok, m)
			}
			for _, half := range []string{"gate", "up"} {
				if m, ok := all[fmt.Sprintf("model.layers.0.mlp.experts.%d.%s_proj", e, half)]; !ok || m.Rows != 32 || m.Cols != 48 {
					t.Errorf("%s, %s of expert %d: %t, %+v", c.modelType, half, e, ok, m)
				}
			}
		}
	}
}

// The nearest integer is within half a step, one at either end within one and a
// half, beside the roundings of what was decoded in bf16.
func TestHalfStepsOfIntegers(t *testing.T) {
	f, err := kernels.FormatByName("int4-g32")
	if err != nil {
		t.Fatal(err)
	}
	const step, x, q = 0x1p-3, 1.0, 1.25
	half, worst, clipped := (&tally{format: f}).halfStep(x, q, step)
	if rounding := (x + q) * 0x1p-8; clipped || half != step/2+rounding || worst != 3*step/2+rounding {
		t.Errorf("half %v, worst %v, clipped %t", half, worst, clipped)
	}
}

// A side file is compared to its last byte.
func TestLastByteOfASideFile(t *testing.T) {
	shared := exportMoE(t, "nvfp4", "modelopt")
	e := shared.copied(t)
	path := filepath.Join(e.dir, "tokenizer.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	rep := e.verify(t, Options{})
	if len(rep.Problems) != 1 || rep.Problems[0].ID != SideChanged || rep.Problems[0].File != "tokenizer.json" || !strings.HasSuffix(rep.Problems[0].Message, fmt.Sprintf("from byte %d on", len(text)-1)) {
		t.Errorf("%+v", rep.Problems)
	}
}

// Which of two conventions gives a second-level scale is told by the largest
// magnitude of all that is fused, wherever in the group that is.
func TestSecondLevelScaleTellsTheConvention(t *testing.T) {
	e := exportScaled(t, "nvfp4", export.CompressedTensors, kernels.CT32, kernels.BF16, 0.5)
	e = exportAs(t, e.ck, e.model, filepath.Join(t.TempDir(), "out"), "*self_attn*", variantWith(t, "nvfp4", export.CompressedTensors), export.CompressedTensors, export.Shared)
	ck, model := openSource(t, e.dir)
	l, err := layout.Open(ck, model)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Options: Options{Set: kernels.Best()}, src: e.ck, model: e.model, outputState: outputState{layout: l}}
	elsewhere := 0 // groups whose last matrix has not the largest magnitude
	for _, group := range r.sharedGroups() {
		largest, last := float32(0), float32(0)
		for _, k := range group {
			if last, err = r.absMax(t.Context(), &e.model.Matrices[k]); err != nil {
				t.Fatal(err)
			}
			largest = max(largest, last)
		}
		if last < largest {
			elsewhere++
		}
	}
	if elsewhere == 0 {
		t.Fatal("no group of the source shows anything")
	}
	for i := range l.Modules {
		m := &l.Modules[i]
		k := slices.IndexFunc(e.model.Matrices, func(x topology.Matrix) bool { return x.Name == m.Name+".weight" })
		specs := []kernels.Spec{{Format: "nvfp4", Convention: kernels.CT}, {Format: "nvfp4", Convention: kernels.CT32}}
		got, err := r.byGlobals(t.Context(), []*job{{module: m, matrix: e.model.Matrices[k]}}, specs)
		if err != nil || got.Convention != kernels.CT32 {
			t.Errorf("%s: %v, %v, want %v", m.Name, got.Convention, err, kernels.CT32)
		}
	}
}
