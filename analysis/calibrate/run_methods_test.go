package calibrate

import (
	"math"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/kernels"
	"quantscope/quant/export"
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
	for _, v := range []string{"mxfp4+gptq", "mxfp4+imatrix+gptq+act", "nvfp4+mse_ge1+gptq", "nvfp4+4over6+gptq", "int4-g32-sym+range+gptq", "int4-channel+gptq", "int4-g64+imatrix", "mxfp4+imatrix", "code2+imatrix"} {
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
