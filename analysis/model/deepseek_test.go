package model

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// TestDeepSeekV2Config: what DeepSeek-V2 and V2-Lite say in their configs.
func TestDeepSeekV2Config(t *testing.T) {
	lite, err := edited(t, "deepseek_v2", func(c map[string]any) { // keys of V2-Lite's release
		delete(c, "rope_parameters")
		c["rope_theta"], c["rope_scaling"] = 10000, map[string]any{
			"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096,
		}
		c["topk_method"], c["n_group"], c["topk_group"], c["routed_scaling_factor"] = "greedy", 1, 1, 1.0
		c["scoring_func"], c["seq_aux"], c["aux_loss_alpha"], c["ep_size"], c["moe_layer_freq"] = "softmax", true, 0.001, 1, 1
	})
	if err != nil {
		t.Fatal(err)
	}
	a, m := lite.Layers[1].Attn, lite.Layers[1].MoE
	if lite.Layers[0].MoE != nil || m == nil {
		t.Fatalf("layer 0 %v, layer 1 %v, want the second alone with experts", lite.Layers[0].MoE, m)
	}
	const all = 0.1*0.707*3.6888794541 + 1 // ln 40
	if want := all * all / math.Sqrt(24); math.Abs(float64(a.Scale)-want) > 1e-6 || a.LowRank.Q != 0 || a.LowRank.Norm.Eps != 1e-6 || !a.Rope.Interleaved || a.Rope.Attention != 1 {
		t.Errorf("attention %+v with %+v, want scale %g", a, a.LowRank, want)
	}
	if m.Groups != 1 || m.Scores != SoftmaxScores || m.Normalize || m.Scaling != 1 || m.Shared != 32 || m.Correction != "" {
		t.Errorf("router %+v", m)
	}
	groups, err := edited(t, "deepseek_v2", func(map[string]any) {})
	if err != nil {
		t.Fatal(err)
	}
	if m := groups.Layers[1].MoE; m.Groups != 4 || m.TopGroups != 2 || m.BestOfGroup != 1 || m.Scaling != 4 {
		t.Errorf("router in groups %+v", m)
	}
	// Every second layer has experts, from the second on; or none has.
	for _, c := range []struct {
		edit func(map[string]any)
		want string
	}{
		{set("moe_layer_freq", 1), "d d e e"}, {set("moe_layer_freq", 2), "d d e d"}, {set("first_k_dense_replace", 1), "d e e e"},
		{set("first_k_dense_replace", nil), "e e e e"}, {set("n_routed_experts", nil), "d d d d"},
	} {
		s, err := edited(t, "deepseek_v2_lora", c.edit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range s.Layers {
			if s.Layers[i].MoE != nil {
				got = append(got, "e")
			} else {
				got = append(got, "d")
			}
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("layers %s, want %s", g, c.want)
		}
	}
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"scoring_func", "sigmoid", `scoring_func "sigmoid" is not known; known is softmax`},
		{"topk_method", "noaux_tc", `topk_method "noaux_tc" is not known; known is greedy, group_limited_greedy`},
		{"norm_topk_prob", true, "norm_topk_prob is true"},
		{"kv_lora_rank", 0, "config.json gives no kv_lora_rank"},
		{"n_group", 3, "8 experts in 3 groups"},
		{"topk_group", 0, "topk_group is 0 of 4"},
		{"v_head_dim", nil, "config.json gives no v_head_dim"},
	} {
		_, err := edited(t, "deepseek_v2", set(c.key, c.value))
		if !errors.Is(err, ErrArchitecture) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %s", c.key, c.value, err, c.want)
		}
	}
}
