package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
)

// mixedParts are three projections: FP8, NVFP4 and one that is not quantized.
func mixedParts() []part {
	const at = "model.layers.0.self_attn."
	return []part{
		{at + "q_proj.weight", checkpoint.F8E4M3, []int64{4, 32}, make([]byte, 128)}, {at + "q_proj.weight_scale", checkpoint.F32, []int64{}, f32Bytes([]float32{1})},
		{at + "k_proj.weight", checkpoint.U8, []int64{4, 16}, make([]byte, 64)}, {at + "k_proj.weight_scale", checkpoint.F8E4M3, []int64{4, 2}, make([]byte, 8)},
		{at + "k_proj.weight_scale_2", checkpoint.F32, []int64{}, f32Bytes([]float32{1})},
		{at + "v_proj.weight", checkpoint.BF16, []int64{4, 32}, make([]byte, 256)},
	}
}

// Each layer that ModelOpt lists is held against what is stored of it, whether its
// config has groups too or only the list.
func TestMixedPrecision(t *testing.T) {
	const at = "model.layers.0.self_attn."
	const fp8, nvfp4 = `{"quant_algo":"FP8"}`, `{"quant_algo":"NVFP4","group_size":16}`
	list := func(q, k, v string) string {
		var l []string
		for _, x := range [][2]string{{"q_proj", q}, {"k_proj", k}, {"v_proj", v}} {
			if x[1] != "" {
				l = append(l, fmt.Sprintf("%q:%s", at+x[0], x[1]))
			}
		}
		return `"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{` + strings.Join(l, ",") + `}`
	}
	groups := fmt.Sprintf(`,"config_groups":{"group_0":{"targets":[%q],"weights":{"num_bits":8,"type":"float","dynamic":false}},"group_1":{"targets":[%q],"weights":{"num_bits":4,"type":"float","group_size":16}}},"ignore":[]`, at+"q_proj", at+"k_proj")
	tests := []struct {
		name, config, id, tensor, words string
	}{
		{"as listed", list(fp8, nvfp4, ""), "", "", ""},
		{"as listed and grouped", list(fp8, nvfp4, "") + groups, "", "", ""},
		{"another algorithm", list(nvfp4, nvfp4, ""), Contradicts, at + "q_proj.weight", "quantized_layers NVFP4, whose weights are e2m1"},
		{"another group", list(fp8, `{"quant_algo":"NVFP4","group_size":32}`, ""), Contradicts, at + "k_proj.weight", "group_size 32"},
		{"listed and not packed", list(fp8, nvfp4, fp8), NotQuantized, at + "v_proj.weight", "a server would look for scales"},
		{"packed and not listed", list(fp8, "", ""), Undeclared, at + "k_proj.weight", "no target of config.json covers it"},
		{"a group that says otherwise", list(fp8, nvfp4, "") + strings.Replace(groups, `"num_bits":8`, `"num_bits":4`, 1), Contradicts, at + "q_proj.weight", "num_bits 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := openMemory(t, `{"model_type":"llama","quantization_config":{`+tt.config+`}}`, mixedParts())
			if len(l.Modules) != 2 {
				t.Fatalf("%d modules", len(l.Modules))
			}
			if tt.id == "" && len(l.Findings) != 0 {
				t.Errorf("%v", l.Findings)
			}
			if tt.id != "" && !slices.ContainsFunc(l.Findings, func(f Finding) bool {
				return f.ID == tt.id && f.Tensor == tt.tensor && strings.Contains(f.Message, tt.words)
			}) {
				t.Errorf("no %s about %s with %q in %v", tt.id, tt.tensor, tt.words, l.Findings)
			}
		})
	}
	kinds := openMemory(t, `{"quantization_config":{`+list(fp8, nvfp4, "")+`,"kv_cache_quant_algo":"FP8"}}`, mixedParts())
	if k := kinds.Kinds(); len(k) != 2 || k[0].Format != "fp8" || k[1].Reading != "even input in the low nibble, the global scale multiplies" || k[1].Matrices != 1 || k[1].Params != 128 {
		t.Errorf("%+v", k)
	}
	if len(kinds.Notes) != 1 || !strings.Contains(kinds.Notes[0], "FP8") {
		t.Errorf("%q", kinds.Notes)
	}
}

// One checkpoint of compressed-tensors may have a format for each group; a module is
// what its tensors show, and each is held against its own group.
func TestMixedFormats(t *testing.T) {
	m := []part{
		{"model.layers.0.self_attn.q_proj.weight", checkpoint.F8E4M3, []int64{4, 32}, make([]byte, 128)},
		{"model.layers.0.self_attn.q_proj.weight_scale", checkpoint.BF16, []int64{4, 1}, make([]byte, 8)},
		{"model.layers.0.mlp.up_proj.weight_packed", checkpoint.U8, []int64{4, 16}, make([]byte, 64)},
		{"model.layers.0.mlp.up_proj.weight_scale", checkpoint.F8E4M3, []int64{4, 2}, make([]byte, 8)},
		{"model.layers.0.mlp.up_proj.weight_global_scale", checkpoint.F32, []int64{1}, f32Bytes([]float32{2})},
	}
	config := func(bits int) string {
		return fmt.Sprintf(`{"model_type":"llama","quantization_config":{"quant_method":"compressed-tensors","format":"mixed-precision","ignore":[],"config_groups":{
			"group_0":{"targets":["re:.*self_attn.*"],"format":"float-quantized","weights":{"num_bits":8,"type":"float","strategy":"channel"}},
			"group_1":{"targets":["re:.*mlp.*"],"format":"nvfp4-pack-quantized","weights":{"num_bits":%d,"type":"float","strategy":"tensor_group","group_size":16}}}}}`, bits)
	}
	if l := openMemory(t, config(4), m); len(l.Modules) != 2 || len(l.Findings) != 0 || l.Modules[1].Declared != "config_groups.group_1" {
		t.Errorf("%+v", l)
	}
	if l := openMemory(t, config(8), m); len(l.Findings) != 1 || l.Findings[0].ID != Contradicts || !strings.Contains(l.Findings[0].Message, "num_bits 8") {
		t.Errorf("%v", l.Findings)
	}
}

// What is not read is refused by its name, once for all modules.
func TestRefusedByName(t *testing.T) {
	plain := func(name string, dtype checkpoint.DType, shape ...int64) part {
		n := int64(dtype.Bits() / 8)
		for _, s := range shape {
			n *= s
		}
		return part{name, dtype, shape, make([]byte, n)}
	}
	const p2 = "model.layers.0.self_attn.k_proj"
	both := func(suffixes ...part) (out []part) {
		for _, base := range []string{proj, p2} {
			for _, s := range suffixes {
				s.name = base + s.name
				out = append(out, s)
			}
		}
		return out
	}
	words := []part{plain(proj+".weight_packed", checkpoint.I32, 4, 4), plain(proj+".weight_scale", checkpoint.BF16, 4, 1), {proj + ".weight_shape", checkpoint.I64, []int64{2}, []byte{4, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0}}}
	ct := func(more string) string {
		return `{"model_type":"llama","quantization_config":{"quant_method":"compressed-tensors","ignore":[],` + more + `"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","group_size":32}}}}}`
	}
	quark := func(weight string) string {
		return `{"model_type":"llama","quantization_config":{"quant_method":"quark","exclude":[],"export":{"pack_method":"reorder"},"global_quant_config":{"weight":` + weight + `}}}`
	}
	quarkParts := []part{plain(proj+".weight", checkpoint.I32, 32, 1), plain(proj+".weight_scale", checkpoint.BF16, 1, 8), plain(proj+".weight_zero_point", checkpoint.I32, 1, 1)}
	tests := []struct {
		name, config string
		parts        []part
		words        string
	}{
		{"bitsandbytes nf4", `{"quantization_config":{"quant_method":"bitsandbytes"}}`, both(plain(".weight", checkpoint.U8, 64, 1), plain(".weight.absmax", checkpoint.F32, 2), plain(".weight.quant_state.bitsandbytes__nf4", checkpoint.U8, 20)), "bitsandbytes' NF4"},
		{"bitsandbytes fp4", `{}`, both(plain(".weight", checkpoint.U8, 64, 1), plain(".weight.quant_state.bitsandbytes__fp4", checkpoint.U8, 20)), "bitsandbytes' FP4"},
		{"bitsandbytes int8", `{}`, both(plain(".weight", checkpoint.I8, 8, 8), plain(".SCB", checkpoint.F32, 8)), "bitsandbytes' int8"},
		{"HQQ", `{}`, both(plain(".W_q", checkpoint.U8, 8, 8), plain(".meta", checkpoint.F32, 2)), "HQQ"},
		{"marlin 2:4", ct(`"format":"marlin-24",`), words, `format "marlin-24"`},
		{"an unknown format", ct(`"format":"zip",`), words, "known: dense, fakequant, int-quantized"},
		{"sparse", ct(`"sparsity_config":{"format":"sparse-24-bitmask"},`), words, "sparsity_config of config.json says sparse-24-bitmask"},
		{"rotated as it runs", ct(`"transform_config":{"config_groups":{"v":{"type":"hadamard","apply":[{"targets":["Linear"],"location":"weight_input"},{"targets":["Linear"],"location":"input"}]}}},`), words, "applies a hadamard to the input of modules"},
		{"another strategy", strings.Replace(ct(""), `"group_size":32`, `"strategy":"attn_head"`, 1), words, "known: tensor, channel, group"},
		{"Quark's int3", quark(`{"dtype":"int3","qscheme":"per_group","group_size":32}`), quarkParts, `weight.dtype "int3"`},
		{"Quark's second quantization", quark(`[{"dtype":"fp8_e4m3"},{"dtype":"int4"}]`), quarkParts, "several, one after another"},
		{"Quark's order", strings.Replace(quark(`{"dtype":"int4","qscheme":"per_group","group_size":32}`), "reorder", "shuffle", 1), quarkParts, "known: reorder, order"},
		{"fake quantized", strings.Replace(quark(`{"dtype":"int4","qscheme":"per_group","group_size":32}`), `"pack_method":"reorder"`, `"weight_format":"fake_quantized"`, 1), quarkParts, "fake_quantized"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := openMemory(t, tt.config, tt.parts)
			n := 0
			for _, f := range l.Findings {
				if f.ID == UnknownForm && strings.Contains(f.Message, tt.words) {
					n++
				}
			}
			if len(l.Modules) != 0 || n != 1 || len(l.Unread) == 0 {
				t.Errorf("%d modules, %d findings with %q in %v", len(l.Modules), n, tt.words, l.Findings)
			}
		})
	}
	if l := openMemory(t, ct(`"sparsity_config":{"format":"dense"},"transform_config":{"config_groups":{"v":{"type":"hadamard","apply":[{"location":"weight_input"}]}}},"global_compression_ratio":1.5,"kv_cache_scheme":{"num_bits":8,"type":"float"},`), words); len(l.Modules) != 1 || len(l.Findings) != 0 || len(l.Notes) != 3 {
		t.Errorf("%d modules, %v, notes %q", len(l.Modules), l.Findings, l.Notes)
	}
}
