package gguf

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// changed opens a family's file with a key changed, taken away (nil) or added, or, where
// the key is a tensor's name, without that tensor.
func changed(t *testing.T, family, key string, v any) error {
	t.Helper()
	f := open(t, filepath.Join("testdata", "families", family+".gguf"))
	if strings.Contains(key, ".weight") {
		f.Tensors = slices.DeleteFunc(f.Tensors, func(x Tensor) bool { return x.Name == key })
		clear(f.byName)
		for i := range f.Tensors {
			f.byName[f.Tensors[i].Name] = i
		}
		_, err := NewModel(f)
		return err
	}
	if _, ok := f.Metadata[key]; !ok {
		f.Keys = append(f.Keys, key)
	}
	switch x := v.(type) {
	case nil:
		delete(f.Metadata, key)
		f.Keys = slices.DeleteFunc(f.Keys, func(k string) bool { return k == key })
	case int:
		f.Metadata[key] = Value{Type: Uint32, V: uint64(x)}
	case float64:
		f.Metadata[key] = Value{Type: Float32, V: float32(x)}
	case bool:
		f.Metadata[key] = Value{Type: Bool, V: x}
	case string:
		f.Metadata[key] = Value{Type: String, V: x}
	case []int64:
		f.Metadata[key] = Value{Type: Array, Elem: Int32, List: x}
	case []float64:
		f.Metadata[key] = Value{Type: Array, Elem: Float32, List: x}
	case []bool:
		f.Metadata[key] = Value{Type: Array, Elem: Bool, List: x}
	}
	_, err := NewModel(f)
	return err
}

// What no forward pass of a family could do is refused by its key.
func TestFamiliesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		family, key string
		value       any
		want        string
	}{
		{"qwen3_next", "qwen3next.expert_gating_func", 2, "expert_gating_func is 2"},
		{"qwen3_next", "qwen3next.expert_weights_norm", false, "expert_weights_norm is false"},
		{"qwen3_next", "qwen3next.rope.dimension_count", 64, "rope.dimension_count is 64 of a head of 32"},
		{"qwen3_5", "qwen35.rope.dimension_sections", []int64{2, 1, 1, 1}, "dimension_sections is [2 1 1 1]"},
		{"qwen3_5_mtp", "qwen35.attention.recurrent_layers", []bool{true, true, true, false, true}, "block 4 is an MTP layer with linear attention"},
		{"qwen3_5_mtp", "qwen35.nextn_predict_layers", 0, "nextn.eh_proj"},
		{"step3p7", "step35.expert_weights_norm", nil, "expert_weights_norm is false or absent"},
		{"step3p7", "step35.expert_gating_func", 1, "expert_gating_func is 1"},
		{"step3p7", "step35.attention.value_length", 8, "value_length is 8 of a head of 16"},
		{"step3p7", "step35.rope.dimension_count", 8, "step35.rope.dimension_count is 8"},
		{"step3p7", "step35.moe_every_n_layers", 2, "moe_every_n_layers is 2"},
		{"step3p7", "step35.attention.head_count", []int64{4, 6, 2}, "full_attention layers have 4 heads and 2"},
		{"step3p7", "step35.attention.head_count", []int64{4, 6}, "head_count has 2 values, want 3"},
		{"step3p7", "step35.attention.head_count_kv", []int64{2, 1, 2}, "block 1 has 6 heads and 1 of keys"},
		{"step3p7", "step35.attention.head_count", []int64{4, -6, 4}, "value 1 is -6"},
		{"step3p7", "step35.swiglu_clamp_exp", []float64{1}, "swiglu_clamp_exp has 1 values, want 3"},
		{"step3p7", "step35.nextn_predict_layers", 3, "nextn_predict_layers is 3 of 3 blocks"},
		{"step3p7", "step35.rope.scaling.factor", 2.0, `"linear" is not known`},
		{"step3p7", "step35.attention.sliding_window", nil, "step35.attention.sliding_window"},
		{"deepseek_v2", "deepseek2.expert_gating_func", 3, "expert_gating_func is 3"},
		{"deepseek_v4", "deepseek4.expert_gating_func", 2, "expert_gating_func is 2"},
		{"deepseek_v4", "deepseek4.nextn_predict_layers", 1, "a file of MTP layers alone"},
		{"deepseek_v4", "deepseek4.attention.head_count_kv", 2, "head_count_kv is 2"},
		{"deepseek_v4", "deepseek4.attention.value_length", 16, "key_length is 32, value_length 16"},
		{"deepseek_v4", "deepseek4.attention.compress_ratios", []int64{16, 128, 4}, "compress_ratios are 16 and 128"},
		{"deepseek_v4", "deepseek4.attention.compress_ratios", []int64{0, 16}, "compress_ratios has 2 values, want 3"},
		{"deepseek_v4", "deepseek4.swiglu_clamp_shexp", []float64{1, 1, 1}, "layer 0 has 1.2 and 1"},
		{"deepseek_v4", "deepseek4.embedding_length_out", 64, "embedding_length_out is 64, want 192"},
		{"deepseek_v4", "deepseek4.rope.scaling.type", "linear", `"linear" is not known`},
		{"gemma4_moe", "gemma4.attention.value_length_swa", 8, "value_length_swa is 8 of a head of 16"},
		{"gemma4_moe", "gemma4.attention.head_count_kv", []int64{2, 1, 1}, "sliding_attention layers have 2 heads and 1"},
		{"gemma4_moe", "gemma4.attention.shared_kv_layers", 3, "shared_kv_layers is 3 of 3"},
		{"gemma4_moe", "gemma4.feed_forward_length", []int64{48, 32, 48}, "feed_forward_length of layer 1 is 32"},
		{"gemma4_moe", "blk.0.attn_v.weight", nil, "layer 0 has a window and no attn_v"},
		{"gemma4_ple", "blk.1.attn_v.weight", nil, ""},
		{"gemma4_ple", "gemma4.attention.key_length", 64, "rope.dimension_count is 32 of a head of 64"},
	} {
		err := changed(t, c.family, c.key, c.value)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s without %s: %v", c.family, c.key, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, %s %v: %v, want %q", c.family, c.key, c.value, err, c.want)
		}
	}
}
