package calibrate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/topology"
)

// TestGlobals: what servers fuse has one global scale, as exports have it, or each
// its own where that was asked for.
func TestGlobals(t *testing.T) {
	for _, g := range []export.Globals{export.Shared, export.PerTensor} {
		s := setup(t, demoReference(t), "nvfp4+imatrix", `re:model\.layers\.1\.mlp\.experts\.[0-7]\.`, 8)
		s.Globals = g
		global := map[string]float32{}
		calibrated(t, s, Sink{Matrix: func(r Result) error { global[r.Codes.Name] = r.Codes.Global; return nil }})
		own := map[string]float32{}
		for i := range s.Matrices {
			own[s.Matrices[i].Name] = plainCodes(t, &s, i, 0).Global
		}
		differ := 0
		for name, want := range own {
			if g == export.Shared { // the scale grows with the largest magnitude
				want = max(want, own[strings.Replace(name, "up_proj", "gate_proj", 1)], own[strings.Replace(name, "gate_proj", "up_proj", 1)])
			}
			if want != own[name] {
				differ++
			}
			if global[name] != want {
				t.Errorf("%v: %s has %v, want %v", g, name, global[name], want)
			}
		}
		if (g == export.Shared) != (differ == 8) { // of gate and up one has the larger magnitude
			t.Errorf("%v: %d matrices have the scale of a partner", g, differ)
		}
	}
}

// TestHeadAndEmbedding: the head comes last, on the states of the quantized body
// after the final norm; an embedding cannot be calibrated and says why; attention and
// dense MLPs can.
func TestHeadAndEmbedding(t *testing.T) {
	ref := demoReference(t)
	s := setup(t, ref, "int4-g32+gptq", `lm_head.weight,model.embed_tokens.weight,re:model\.layers\.[04]\.self_attn\.[qkvo]_proj,re:model\.layers\.0\.mlp\.,re:model\.layers\.1\.mlp\.shared`, 8)
	// Patterns take such parts only where they match nothing else.
	byName := map[string]bool{}
	for i := range s.Matrices {
		byName[s.Matrices[i].Name] = true
	}
	for i := range ref.Topology.Matrices {
		if m := &ref.Topology.Matrices[i]; (m.Name == "lm_head.weight" || m.Name == "model.embed_tokens.weight") && !byName[m.Name] {
			s.Matrices = append(s.Matrices, *m)
		}
	}
	inputs := map[string]string{}
	var order []string
	out := calibrated(t, s, Sink{
		Matrix: func(r Result) error {
			inputs[s.Matrices[r.Matrix].Name] = r.Trade.Input
			if r.Trade.Why == "" && (r.Trade.Tokens != s.Corpus.Tokens() || r.Trade.Out2 >= r.Trade.BaseOut2) {
				t.Errorf("%s: %+v", r.Codes.Name, r.Trade)
			}
			return nil
		},
		Unit: func(u string, _ float64) error { order = append(order, u); return nil },
	})
	if got := strings.Join(order, ", "); got != "outside layers, layer 0, layer 1, layer 4, head" {
		t.Errorf("units: %s", got)
	}
	if len(out.Fallbacks) != 1 || s.Matrices[out.Fallbacks[0].Matrix].Name != "model.embed_tokens.weight" || !strings.Contains(out.Fallbacks[0].Reason, "looked up, not multiplied") {
		t.Errorf("%+v", out.Fallbacks)
	}
	for name, want := range map[string]string{
		"lm_head.weight":                                     "head",
		"model.embed_tokens.weight":                          "",
		"model.layers.0.self_attn.v_proj.weight":             "layer 0 attention q",
		"model.layers.4.self_attn.o_proj.weight":             "layer 4 attention o",
		"model.layers.0.mlp.up_proj.weight":                  "layer 0 mlp gate",
		"model.layers.0.mlp.down_proj.weight":                "layer 0 mlp down",
		"model.layers.1.mlp.shared_experts.up_proj.weight":   "layer 1 router",
		"model.layers.1.mlp.shared_experts.down_proj.weight": "layer 1 shared_expert down",
	} {
		if got, ok := inputs[name]; !ok || got != want {
			t.Errorf("%s is measured on %q, want %q (there: %v)", name, got, want, ok)
		}
	}
}

// TestEveryMethod: each calibrated method changes every matrix, has less output error
// than its baseline over all of them, and its codes decode to what its record says.
func TestEveryMethod(t *testing.T) {
	ref := demoReference(t)
	for _, v := range []string{"mxfp4+gptq", "mxfp4+imatrix+gptq+act", "nvfp4+mse_ge1+gptq", "nvfp4+4over6+gptq", "int4-g32-sym+range+gptq", "int4-channel+gptq", "int4-g64+imatrix", "mxfp4+imatrix", "code2+imatrix",
		"code2+gptq", "code2+sym+gptq", "code2+sym+imatrix+gptq+act", "code2-mxfp4+gptq", "code2-mxfp4+imatrix+gptq"} {
		s := setup(t, ref, v, `re:model\.layers\.2\.mlp\.experts\.[0-3]\.`, 8)
		out := calibrated(t, s, Sink{Matrix: func(r Result) error {
			q, err := candidate.CodedWeight(kernels.Reference(), s.Variant.Spec, &r.Codes)
			if err != nil {
				return err
			}
			a, b := make([]float32, 128*128), make([]float32, 128*128)
			if err := kernels.Reference().ExpandRows(a, kernels.StoredOperand(r.Source), 0); err != nil {
				return err
			}
			if err := kernels.Reference().ExpandRows(b, q.Operand, 0); err != nil {
				return err
			}
			e2, w2 := 0.0, 0.0
			for i := range a {
				d := float64(a[i]) - float64(b[i])
				e2 += d * d
				w2 += float64(a[i]) * float64(a[i])
			}
			if math.Abs(e2/w2-float64(r.Trade.Rel2)) > 1e-9 || math.Abs(r.Tap.Rel2()-float64(r.Trade.Rel2)) > 1e-12 {
				t.Errorf("%s: %s decodes to an error of %v, the record says %v and %v", v, r.Codes.Name, e2/w2, r.Trade.Rel2, r.Tap.Rel2())
			}
			return nil
		}})
		if out.Calibrated != 12 || out.Gate() != nil || out.All.Out2 >= out.All.BaseOut2 {
			t.Errorf("%s: %d calibrated, %v, output error %v of %v", v, out.Calibrated, out.Gate(), out.All.Out2, out.All.BaseOut2)
		}
	}
}

// TestKept: what is stored in a type that cannot be quantized stays as it is, what the
// pass does not read stays at the baseline; both are told, kept in the folder without
// or with codes, and read back.
func TestKept(t *testing.T) {
	ref := demoReference(t)
	top := *ref.Topology
	top.Tensors = slices.Clone(top.Tensors)
	s := setup(t, ref, "int4-g128+gptq", `re:model\.layers\.1\.mlp\.experts\.[0-2]\.`, 4)
	const stored = "model.layers.1.mlp.experts.1.up_proj.weight"
	for i := range top.Tensors {
		if top.Tensors[i].Name == stored {
			top.Tensors[i].DType = "F8_E4M3"
		}
	}
	s.Reference = candidate.Of(candidate.Candidate{Label: "x", Topology: &top, Arch: ref.Arch, TokenizerID: ref.TokenizerID, Identity: "x"}, func() (model.Source, error) { return ref.Source() }, nil)
	s.Matrices = slices.Clone(s.Matrices)
	unread := &s.Matrices[len(s.Matrices)-1]
	unread.Role.Kind, unread.Role.Expert, unread.Role.Projection = topology.Router, -1, "" // the router, under another layer's kind
	unread.Role.Layer, unread.Role.MTP = 5, false
	unread.Rows, unread.Cols = 16, 128
	dir := t.TempDir()
	for range 2 {
		out := into(t, s, dir, Sink{Matrix: func(r Result) error {
			if r.Codes.Name == stored && (r.Codes.Codes != nil || r.Source.Data != nil || r.Tap.Elements != 0 || !math.IsNaN(float64(r.Trade.Rel2))) {
				t.Errorf("%+v", r.Trade)
			}
			return nil
		}})
		if len(out.Fallbacks) != 2 || out.Calibrated != 7 || out.FellBack != 128*128+16*128 {
			t.Fatalf("%+v", out)
		}
		for _, f := range out.Fallbacks {
			as, why := "int4-g128", "the forward pass here does not read it"
			if s.Matrices[f.Matrix].Name == stored {
				as, why = "f8_e4m3", "is stored as F8_E4M3; BF16, F16 and F32 can be quantized"
			}
			if f.Effective != as || !strings.Contains(f.Reason, why) {
				t.Errorf("%+v", f)
			}
		}
	}
}
