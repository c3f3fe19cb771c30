package model

import (
	"strings"
	"testing"
)

// TestDeepSeekV4Refuses: what no peer computes, or nobody knows, is refused by its key.
func TestDeepSeekV4Refuses(t *testing.T) {
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"scoring_func", "softmax", "scoring_func"},
		{"norm_topk_prob", false, "norm_topk_prob"},
		{"hidden_act", "gelu_pytorch_tanh", "hidden_act"},
		{"n_shared_experts", 2, "n_shared_experts is 2"},
		{"swiglu_limit", 0, "swiglu_limit is 0"},
		{"num_key_value_heads", 2, "num_key_value_heads is 2"},
		{"hc_mult", 17, "17 residual streams"},
		{"hc_sinkhorn_iters", 0, "hc_sinkhorn_iters is 0"},
		{"o_groups", 3, "4 heads in 3 groups"},
		{"index_topk", 0, "index_topk is 0"},
		{"mlp_layer_types", []string{"hash_moe", "dense", "moe"}, "mlp_layer_types: dense"},
		{"layer_types", []string{"sliding_attention", "full_attention", "sliding_attention"}, `layer type "full_attention" of layer 1`},
	} {
		_, err := edited(t, "deepseek_v4", func(m map[string]any) { m[c.key] = c.value })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %q", c.key, c.value, err, c.want)
		}
	}
}
