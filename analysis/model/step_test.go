package model

import (
	"errors"
	"math"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// text edits the text config of a multimodal one.
func text(key string, value any) func(map[string]any) {
	return func(c map[string]any) { c["text_config"].(map[string]any)[key] = value }
}

// TestStepConfig: what layers of Step have of their own.
func TestStepConfig(t *testing.T) {
	s := opened(t, "step3p7_mtp").spec
	if len(s.Layers) != 4 || len(s.MTP) != 2 || !s.Norm.PlusOne || !s.RawMTP {
		t.Fatalf("%d layers, %d MTP layers, norm %+v", len(s.Layers), len(s.MTP), s.Norm)
	}
	for i, want := range []struct {
		heads, window, rotary int
		dense, routed, shared float32 // limits
	}{{6, 7, 12, 0.6, 0, 0}, {2, 0, 6, 0, 0.5, 0}, {6, 7, 12, 0, 0, 0}, {2, 0, 6, 0.7, 0, 0.7}, {6, 7, 12, 0, 0, 0}, {6, 7, 12, 0, 0, 0}} {
		l := append(append([]Layer(nil), s.Layers...), s.MTP...)[i]
		a := l.Attn
		if a.Heads != want.heads || a.KVHeads != 2 || a.Window != want.window || a.Rope.Dim != want.rotary || a.Gate != HeadGate || !a.QKNorm ||
			math.Abs(float64(a.Scale)-1/math.Sqrt(20)) > 1e-7 || l.MLP.Limit != want.dense || l.MLP.Act != SiLUThenClamp {
			t.Errorf("layer %d: %+v, MLP %+v", i, a, l.MLP)
		}
		if (a.Rope.Kind == RopeYarn) != (want.window == 0) || (a.Rope.Theta == 900) != (want.window > 0) {
			t.Errorf("layer %d: rope %+v", i, a.Rope)
		}
		if (l.MoE != nil) != (i == 1 || i == 3) {
			t.Fatalf("layer %d: experts %+v", i, l.MoE)
		}
		if m := l.MoE; m != nil && (m.Limit != want.routed || m.SharedLimit != want.shared || m.Shared != 28 || m.Scores != SigmoidScores || !m.Normalize ||
			m.Scaling != 1.7 || m.Correction != "router_bias") {
			t.Errorf("layer %d: %+v", i, m)
		}
	}
	plain, err := edited(t, "step3p7", text("use_head_wise_attn_gate", false))
	if err != nil || plain.Layers[0].Attn.Gate != NoGate {
		t.Errorf("without gates: %v, %v", err, plain)
	}
	if s, err := edited(t, "step3p7", text("use_moe_router_bias", false)); err != nil || s.Layers[1].MoE.Correction != "" {
		t.Errorf("without a bias: %v", err)
	}
	peer := builder{cfg: &topology.Config{}, model: &topology.Model{Roles: []topology.Role{{Kind: topology.Router, Layer: 1, Param: "e_score_correction_bias"}}}}
	if got := peer.stepBias(); got != "e_score_correction_bias" {
		t.Errorf("under transformers' names the bias is %s", got)
	}
}

// TestStepRefused: what Step's configs could ask for and is not computed.
func TestStepRefused(t *testing.T) {
	for _, c := range []struct {
		model string
		edit  func(map[string]any)
		want  string
	}{
		{"step3p7", text("layer_types", nil), "config.json gives no layer_types"},
		{"step3p7", text("layer_types", []string{"full_attention", "sliding_attention", "linear_attention"}), `layer type "linear_attention"`},
		{"step3p7", text("sliding_window", nil), "layer 1 has a sliding window and config.json gives no sliding_window"},
		{"step3p7", text("moe_router_activation", "softmax"), `moe_router_activation "softmax"`},
		{"step3p7", text("norm_expert_weight", false), "norm_expert_weight is false"},
		{"step3p7", text("zero_centered", false), "zero_centered is false"},
		{"step3p7", text("gating", "per-channel"), "gating is per-channel"},
		{"step3p7", text("hidden_act", "gelu_pytorch_tanh"), "hidden_act is gelu_pytorch_tanh"},
		{"step3p7", text("use_rope_layers", []bool{true, false, true}), "use_rope_layers: layer 1"},
		{"step3p7", text("yarn_only_types", []string{"sliding_attention"}), "yarn_only_types is [sliding_attention]"},
		{"step3p7", text("sparse_attention_config", map[string]any{"sparse_topk_blocks": 3}), "sparse_attention_config"},
		{"step3p7", text("swiglu_limits", []float64{0, 0}), "swiglu_limits says nothing of layer 2"},
		{"step3p7", text("swiglu_limits", []float64{0, -1, 0}), "swiglu_limits: -1 in layer 1"},
		{"step3p7", text("swiglu_limits", 7), "swiglu_limits is no list"},
		{"step3p7", text("swiglu_limits_shared", []any{0, "7", 0}), "swiglu_limits_shared says nothing of layer 1"},
		{"step3p7", text("query_pre_attn_scalar", 0), "query_pre_attn_scalar is 0"},
		{"step3p7", text("num_sliding_attention_heads", 5), "5 heads are no multiple of 2"},
		{"step3p7", text("share_expert_dim", 1.5), "share_expert_dim: 1.5 is not an integer"},
		{"hub", text("rope_theta", []float64{5e6, 10000}), "rope_theta says nothing of layer 2"},
		{"hub", text("rope_theta", []float64{5e6, 10000, 9}), "full_attention layers differ, layer 2 has 9 and 0.5, one before it 5e+06 and 0.5"},
		{"hub", text("rope_theta", []any{5e6, 10000, "5e6"}), "rope_theta says nothing of layer 2"},
		{"hub", text("rope_theta", []float64{5e6, -1, 5e6}), "layer 1: rope_theta is -1"},
		{"hub", text("partial_rotary_factors", []float64{0.5, 2, 0.5}), "partial_rotary_factors 2"},
		{"qwen3", set("rope_theta", []float64{10000, 10000}), "rope_theta is a list"},
	} {
		edit := c.edit
		if c.model == "hub" {
			c.model = "step3p7"
			edit = func(config map[string]any) {
				released(t, "step3p7", config)
				c.edit(config)
			}
		}
		if c.want == "5 heads are no multiple of 2" {
			edit = func(config map[string]any) { c.edit(config); text("per_layer_config", nil)(config) }
		}
		_, err := edited(t, c.model, edit)
		if !errors.Is(err, ErrArchitecture) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one line with %s", err, c.want)
		}
	}
}

// TestStepSecondModule: in a walk the second MTP layer is given what leaves the first
// one and the token one further on.
func TestStepSecondModule(t *testing.T) {
	f, gold := opened(t, "step3p7_mtp"), openGolden(t, "step3p7_mtp.expected.safetensors")
	src := f.source()
	w := newWalk(t, f.spec, src, gold.chunks("input_ids")[:1], WalkOptions{Set: kernels.Best(), Threads: 2})
	for i := range len(f.spec.Layers) + 2 {
		must(t, w.Pass(t.Context(), src))
		if i >= len(f.spec.Layers) {
			name := []string{"mtp.block_out", "mtp2.block_out"}[i-len(f.spec.Layers)]
			want, _ := gold.values(name)
			within(t, name, w.mtp.y, want, goldenTolerance)
		}
	}
	if _, more := w.At(); more {
		t.Error("a layer comes after the second module")
	}
}

// TestNoLimit: an activation that clamps at 0 does not clamp at all; NaN stays NaN.
func TestNoLimit(t *testing.T) {
	nan := float32(math.NaN())
	for _, act := range []Activation{SiLUThenClamp, ClampThenSiLU} {
		gate, up := []float32{3, -2, 9, nan, 1}, []float32{5, 7, -8, 1, nan}
		FeedForward{Act: act}.apply(kernels.Best(), gate, up)
		for i, want := range []float64{3 / (1 + math.Exp(-3)) * 5, -2 / (1 + math.Exp(2)) * 7, 9 / (1 + math.Exp(-9)) * -8} {
			if d := math.Abs(float64(gate[i]) - want); !(d < 1e-4) {
				t.Errorf("activation %d: value %d is %g, want %g", act, i, gate[i], want)
			}
		}
		if gate[3] == gate[3] || gate[4] == gate[4] {
			t.Errorf("activation %d: NaN became %g and %g", act, gate[3], gate[4])
		}
	}
}
