package layout

import (
	"encoding/json"
	"os"
	"testing"
)

// Whatever a config holds, reading it and matching its patterns ends in an error
// or in entries that stand for themselves.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		`{"quant_method":"modelopt","quant_algo":"NVFP4","ignore":["lm_head","mtp*","model.layers.[0-9]*"]}`,
		`{"quant_method":"compressed-tensors","ignore":["re:.*gate$","re:(?!x)","Linear"],"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","group_size":32,"block_structure":[128,128]}}}}`,
		`{"config_groups":{"NVFP4":["Linear","re:"]},"weight_block_size":[128,128]}`,
		`{"quantized_layers":{"a.b":{"quant_algo":"FP8"}},"modules_to_not_convert":null}`,
		`{"quant_method":"quantscope","version":1,"targets":["Linear"],"bits":4,"group_size":-1,"quantscope":{"variant":"nvfp4"}}`,
		`{"quant_method":"gptq","bits":4,"group_size":-1,"sym":true,"dynamic":{"-:.*a":{},"+:b":{"bits":8},"Linear":{},"(?!x)":{}}}`,
		`{"quant_method":"awq","bits":4,"group_size":128,"version":"gemm","modules_to_not_convert":["Linear","fc",""]}`,
		`{"quant_method":"quark","global_quant_config":{"weight":{"dtype":"uint4","qscheme":"per_group","group_size":128}},"layer_quant_config":{"*k_proj":{"weight":[{"dtype":"int8"}]}},"layer_type_quant_config":{"torch.nn.Linear":{"weight":null}},"exclude":["lm_head","*o_proj"],"export":{"pack_method":"order"}}`,
		`{"quant_method":"compressed-tensors","format":"marlin-24","sparsity_config":{"format":"sparse-24-bitmask"},"transform_config":{"config_groups":{"u":{"type":"hadamard","apply":[{"location":"input"}]}}},"kv_cache_scheme":{"num_bits":8,"type":"float"},"global_compression_ratio":1.5}`,
		`{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","kv_cache_quant_algo":"FP8","quantized_layers":{"a":{"quant_algo":"NVFP4","group_size":16}},"config_groups":{"group_0":{"targets":["a"],"weights":{"num_bits":4,"type":"float","group_size":16}}}}`,
		`{"weight_block_size":"128x128"}`, `[]`, `{"ignore":[""]}`,
	} {
		f.Add([]byte(seed), "model.layers.0.self_attn.q_proj")
	}
	for _, name := range []string{"C25-two-conventions/divisor", "C37-ignore-list"} {
		data, err := os.ReadFile(casePath(name, "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		var root struct {
			Quant json.RawMessage `json:"quantization_config"`
		}
		if err := json.Unmarshal(data, &root); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(root.Quant), "mtp.fc")
	}
	f.Fuzz(func(t *testing.T, raw []byte, module string) {
		c, err := parseConfig(configFile, raw)
		if err != nil {
			return
		}
		ix := newMatchIndex(c.entries)
		for _, lin := range []bool{false, true} {
			found := ix.find(nil, []string{module}, lin)
			for i := range c.entries {
				// The index and the entry by itself agree.
				want := c.entries[i].match(module, lin)
				got := false
				for _, k := range found {
					got = got || k == i
				}
				if got != want {
					t.Errorf("%q against %q, linear %t: the index says %t, the entry %t", c.entries[i].Pattern, module, lin, got, want)
				}
			}
			c.cover(found, lin)
		}
		for i := range c.groups {
			if g := &c.groups[i]; g.first > g.last || g.last > len(c.entries) {
				t.Errorf("group %+v of %d entries", g, len(c.entries))
			}
		}
		if c.block[0] < 0 || c.block[1] < 0 {
			t.Errorf("tiles of %v", c.block)
		}
	})
}
