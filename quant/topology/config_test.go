package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func mustParse(t *testing.T, config string) Config {
	t.Helper()
	c, err := ParseConfig([]byte(config))
	if err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	return c
}

// The derived sizes of case C40: one config nested and with heads that do not
// divide the hidden size, one flat and old.
func TestGeometry(t *testing.T) {
	nested := resolveFixture(t, "case_geometry_nested")
	c := nested.Config
	got := fmt.Sprint(c.Layers, c.Hidden, c.Heads, c.KVHeads, c.HeadDim, c.QOut(), c.KVOut(), c.RotaryDim(), " ", c.RopeScaling())
	if want := "1 56 24 4 8 192 32 4 none"; got != want {
		t.Errorf("nested: %s, want %s", got, want)
	}
	if !c.HeadDimStated || c.MaxPosition != 4096 || c.Rope.Theta != 1e6 {
		t.Errorf("nested: %+v", c)
	}
	for _, f := range nested.Findings {
		if strings.Contains(f.Message, "×") {
			t.Errorf("nested: shapes match the config, yet %q", f.Message)
		}
	}
	old := resolveFixture(t, "case_geometry_old")
	c = old.Config
	got = fmt.Sprint(c.Layers, c.HeadDim, c.RotaryDim(), " ", c.RopeScaling())
	if want := "2 8 8 yarn x4"; got != want || c.HeadDimStated {
		t.Errorf("old: %s (head_dim stated %t), want %s", got, c.HeadDimStated, want)
	}
	if !slices.ContainsFunc(old.Findings, func(f Finding) bool { return strings.Contains(f.Message, "original_max_position_embeddings") }) {
		t.Errorf("old: the missing original_max_position_embeddings is a finding: %q", old.Findings)
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for _, config := range []string{"", "[]", "3", "{", `{"a":1}x`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":1}}`, `{"a":}`, strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)} {
		_, err := ParseConfig([]byte(config))
		if !errors.Is(err, ErrConfig) {
			t.Errorf("%.40q: %v, want an error of the config", config, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: more than one line: %v", config, err)
		}
	}
	m, err := FromConfig([]byte(`{"num_hidden_layers":1,"num_hidden_layers":2}`), []Named{{"model.layers.0.mlp.up_proj.weight", "BF16", []int64{4, 2}}})
	if err != nil || m.Config.Present || m.Family != "unknown" || m.Layers != 1 {
		t.Fatalf("a broken config is no config: %+v, %v", m, err)
	}
	if len(m.Findings) == 0 || !strings.Contains(m.Findings[0].Message, `"num_hidden_layers" stands twice`) || !strings.Contains(m.Findings[0].Message, "derived from names and shapes") {
		t.Errorf("findings %q", m.Findings)
	}
}

// Values that cannot be sizes count as absent, and are said to.
func TestConfigNotes(t *testing.T) {
	tests := []struct{ config, note string }{
		{`{"hidden_size":-1}`, "hidden_size: -1 is outside"},
		{`{"hidden_size":1e30}`, "hidden_size: 1e30 is not an integer"},
		{`{"hidden_size":"64"}`, `hidden_size: "64" is not a number`},
		{`{"num_hidden_layers":3.5}`, "num_hidden_layers: 3.5 is not an integer"},
		{`{"num_hidden_layers":70000}`, "num_hidden_layers: 70000 is outside"},
		{`{"num_key_value_heads":[1,2]}`, "num_key_value_heads: [1,2] is not a number"},
		{`{"num_experts":8,"n_routed_experts":16}`, "n_routed_experts is 16, but num_experts is 8"},
		{`{"hidden_size":10,"num_attention_heads":3}`, "no multiple of 3 heads"},
		{`{"tie_word_embeddings":true,"text_config":{"hidden_size":8,"tie_word_embeddings":false}}`, "tie_word_embeddings is true, but false"},
		{`{"rope_theta":-2}`, "rope_theta: -2"},
		{`{"partial_rotary_factor":2}`, "2 is more than 1"},
		{`{"num_experts":4,"moe_layers_enum":"1,x"}`, "moe_layers_enum"},
		{`{"rope_scaling":{"rope_type":"llama3","factor":8}}`, "original_max_position_embeddings"},
	}
	for _, tt := range tests {
		c := mustParse(t, tt.config)
		if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], tt.note) {
			t.Errorf("%s: notes %q, want %q", tt.config, c.Notes, tt.note)
		}
	}
	for _, config := range []string{
		`{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":-1}}`,
		`{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":4,"group_size":-1}}}}}`,
	} { // a row is one group
		if c := mustParse(t, config); len(c.Notes) != 0 || c.QuantGroup != 0 || c.QuantBits != 4 {
			t.Errorf("%s: %+v", config, c)
		}
	}
	clean := mustParse(t, `{"hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2.0,"head_dim":null,"num_experts":null}`)
	if len(clean.Notes) != 0 || clean.Layers != 2 || clean.HeadDim != 16 {
		t.Errorf("%+v", clean)
	}
}

func TestConfigKeys(t *testing.T) {
	tests := []struct {
		config string
		got    func(Config) any
		want   any
	}{
		{`{"model_type":"gpt_oss","intermediate_size":2880,"num_local_experts":32,"experts_per_token":4}`, func(c Config) any { return [3]int{c.Experts, c.TopK, c.MoEIntermediate} }, [3]int{32, 4, 2880}},
		{`{"moe_num_experts":288,"moe_top_k":8,"share_expert_dim":1280}`, func(c Config) any { return [3]int{c.Experts, c.TopK, c.SharedExperts} }, [3]int{288, 8, 1}},
		{`{"num_experts":128,"shared_expert_intermediate_size":512}`, func(c Config) any { return c.SharedExperts }, 1},
		{`{"num_experts":128,"shared_expert_intermediate_size":0}`, func(c Config) any { return c.SharedExperts }, 0},
		{`{"model_type":"qwen3_omni_moe","thinker_config":{"text_config":{"model_type":"qwen3_omni_moe_text","hidden_size":2048}}}`, func(c Config) any { return fmt.Sprint(c.ModelType, c.TextModelType, c.Hidden) }, "qwen3_omni_moeqwen3_omni_moe_text2048"},
		{`{"model_type":"llava","text_config":{"model_type":"llama","vocab_size":32064},"hidden_size":99}`, func(c Config) any { return c.Hidden }, 0},
		{`{"model_type":"gpt2","n_embd":768,"n_layer":12,"n_head":12}`, func(c Config) any { return [3]int{c.Hidden, c.Layers, c.HeadDim} }, [3]int{768, 12, 64}},
		{`{"tie_word_embeddings":false,"text_config":{"hidden_size":8}}`, func(c Config) any { return [2]bool{c.Tied, c.TiedStated} }, [2]bool{false, true}},
		{`{"hidden_size":8}`, func(c Config) any { return c.TiedStated }, false},
		{`{"mtp_num_hidden_layers":1}`, func(c Config) any { return c.MTPLayers }, 1},
		{`{"quantization_config":{"quant_method":"fp8","fmt":"e4m3"}}`, func(c Config) any { return c.QuantMethod + " " + c.QuantFormat }, "fp8 e4m3"},
		{`{"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4","config_groups":{"group_0":{"weights":{"num_bits":4,"group_size":16}}}}}`, func(c Config) any { return fmt.Sprint(c.QuantMethod, " ", c.QuantFormat, c.QuantBits, c.QuantGroup) }, "modelopt NVFP44 16"},
		{`{"quantization_config":{"quant_method":"compressed-tensors","format":"mixed-precision","config_groups":{"a":{"weights":{"num_bits":4}},"b":{"weights":{"num_bits":8}}}}}`, func(c Config) any { return c.QuantBits }, 0},
		{`{"quantization":{"group_size":64,"bits":4,"mode":"affine"}}`, func(c Config) any { return fmt.Sprint(c.QuantMethod, c.QuantBits, c.QuantGroup) }, "mlx4 64"},
		{`{"text_config":{"hidden_size":8,"quantization_config":{"quant_method":"gptq","bits":4}}}`, func(c Config) any { return c.QuantMethod }, "gptq"},
		{`{"quantization_config":{"bits":4}}`, func(c Config) any { return c.QuantMethod }, "not named"},
		{`{"kv_lora_rank":512,"qk_rope_head_dim":64,"num_attention_heads":128,"head_dim":64}`, func(c Config) any { return c.RotaryDim() }, 64},
		{`{"rope_parameters":{"full_attention":{"rope_type":"linear","factor":4},"sliding_attention":{"rope_type":"default"}}}`, func(c Config) any { return c.RopeScaling() }, "full_attention linear x4, sliding_attention none"},
	}
	for _, tt := range tests {
		if got := tt.got(mustParse(t, tt.config)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.config, got, tt.want)
		}
	}
}

func TestMoELayers(t *testing.T) {
	tests := []struct {
		config string
		want   string // x where layer 0 … 5 is MoE
	}{
		{`"first_k_dense_replace":2`, "..xxxx"},
		{`"first_k_dense_replace":1,"moe_layer_freq":2`, "..x.x."},
		{`"first_k_dense_replace":0`, "xxxxxx"},
		{`"decoder_sparse_step":2,"mlp_only_layers":[3]`, ".x...x"},
		{`"decoder_sparse_step":1,"mlp_only_layers":[]`, "xxxxxx"},
		{`"moe_layers_enum":"1, 2,5"`, ".xx..x"},
		{`"moe_layers_enum":[4]`, "....x."},
		{`"moe_layers":[1,3]`, ".x.x.."},
		{`"mlp_layer_types":["dense","sparse","hash_moe","dense"]`, ".xx..."},
		{`"moe_layer_freq":[0,1,1,0,1,1]`, ".xx.xx"},
		{`"interleave_moe_layer_step":2`, ".x.x.x"},
		{`"model_type":"step3p5","num_hidden_layers":5`, "...xx."},
		{`"moe_layer_start_index":1,"moe_layer_end_index":4,"moe_layer_interval":1`, ".xxxx."},
	}
	for _, tt := range tests {
		c := mustParse(t, `{"num_experts":4,`+tt.config+`}`)
		got := []byte("......")
		for i := range got {
			moe, known := c.MoELayer(i)
			if !known {
				t.Fatalf("%s: layer %d is not known", tt.config, i)
			}
			if moe {
				got[i] = 'x'
			}
		}
		if string(got) != tt.want {
			t.Errorf("%s: %s, want %s", tt.config, got, tt.want)
		}
	}
	c := mustParse(t, `{"num_experts":4}`)
	if _, known := c.MoELayer(0); known {
		t.Error("without a rule nothing is known")
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, name := range fixtures(f) {
		fix, _ := load(f, name)
		if fix.Config != nil {
			f.Add([]byte(fix.Config))
			f.Add([]byte(fix.Config)[:len(fix.Config)/2])
		}
	}
	_, tensors := load(f, "demo")
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := FromConfig(data, tensors)
		if err != nil {
			t.Fatalf("a config alone cannot make the tensors unreadable: %v", err)
		}
		if len(m.Unknown) > 0 {
			t.Fatalf("unknown %v", m.Unknown)
		}
	})
}
