package layout

import (
	"testing"

	"quantscope/quant/checkpoint"
)

// A matrix that is a parameter by itself is no Linear's weight: a config that quantizes
// the class says nothing of it, and one that is named so is missed.
func TestBareParametersAreNoLinears(t *testing.T) {
	const config = `{"model_type":"deepseek_v4","quantization_config":{"quant_method":"compressed-tensors","format":"float-quantized","ignore":[],
		"config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"tensor","dynamic":false}}}}}`
	parts := []part{
		{"layers.0.attn.wkv.weight", checkpoint.F8E4M3, []int64{4, 32}, make([]byte, 128)},
		{"layers.0.attn.wkv.weight_scale", checkpoint.F32, []int64{}, f32Bytes([]float32{1})},
		{"layers.0.attn.compressor.ape", checkpoint.F32, []int64{4, 8}, make([]byte, 128)},
		{"vision_model.transformer.resblocks.0.attn.in_proj_weight", checkpoint.BF16, []int64{24, 8}, make([]byte, 384)},
	}
	l := openMemory(t, config, parts)
	if len(l.Modules) != 1 || len(l.Findings) != 0 {
		t.Errorf("%d modules, %v", len(l.Modules), l.Findings)
	}
	parts = append(parts, part{"layers.0.attn.wq_b.weight", checkpoint.BF16, []int64{4, 32}, make([]byte, 256)})
	l = openMemory(t, config, parts)
	if len(l.Findings) != 1 || l.Findings[0].ID != NotQuantized || l.Findings[0].Tensor != "layers.0.attn.wq_b.weight" {
		t.Errorf("%v", l.Findings)
	}
}
