package candidate

import (
	"slices"
	"strings"
	"testing"

	"quantscope/quant/topology"
)

// What linear and all take of linear attention, sparse attention and per-layer inputs:
// the linear maps, and none of what recipes leave alone.
func TestLinearTargets(t *testing.T) {
	header := func(config string, names ...string) *topology.Model {
		var tensors []topology.Named
		for _, n := range names {
			tensors = append(tensors, topology.Named{Name: n + ".weight", DType: "BF16", Shape: []int64{16, 16}})
		}
		m, err := topology.FromConfig([]byte(config), tensors)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, c := range []struct {
		config, prefix    string
		linear, embedding []string
		left              []string
	}{
		{`{"model_type":"qwen3_next"}`, "model.layers.0.", []string{"linear_attn.in_proj_qkvz", "linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj", "mlp.shared_expert.up_proj"}, nil,
			[]string{"linear_attn.in_proj_ba", "linear_attn.in_proj_a", "linear_attn.in_proj_b", "mlp.gate", "mlp.shared_expert_gate"}},
		{`{"model_type":"step3p5"}`, "model.layers.0.", []string{"self_attn.q_proj", "share_expert.down_proj"}, nil, []string{"self_attn.g_proj", "moe.gate"}},
		{`{"model_type":"deepseek_v4"}`, "layers.0.", []string{"attn.wq_a", "attn.wq_b", "attn.wkv", "attn.wo_a", "attn.wo_b", "ffn.experts.0.w1"}, nil,
			[]string{"attn.compressor.wkv", "attn.compressor.wgate", "attn.indexer.wq_b", "attn.indexer.weights_proj", "attn.indexer.compressor.wkv", "hc_attn_fn"}},
		{`{"model_type":"gemma4"}`, "model.", []string{"layers.0.self_attn.k_proj", "layers.0.mlp.down_proj"}, []string{"embed_tokens", "embed_tokens_per_layer"},
			[]string{"layers.0.per_layer_input_gate", "layers.0.per_layer_projection", "per_layer_model_projection", "layers.0.router.proj"}},
	} {
		var names []string
		for _, n := range slices.Concat(c.linear, c.left, c.embedding) {
			names = append(names, c.prefix+n)
		}
		m := header(c.config, names...)
		for targets, want := range map[string][]string{targetsLinear: c.linear, targetsAll: slices.Concat(c.linear, c.embedding)} {
			got, excluded, err := selectTargets(m, targets, nil)
			if err != nil || len(excluded) > 0 {
				t.Fatalf("%s: %v, %v", targets, excluded, err)
			}
			var have []string
			for i := range got {
				have = append(have, strings.TrimSuffix(strings.TrimPrefix(got[i].Name, c.prefix), ".weight"))
			}
			if !slices.Equal(have, want) {
				t.Errorf("%s, %s: %v, want %v", c.config, targets, have, want)
			}
		}
	}
}
