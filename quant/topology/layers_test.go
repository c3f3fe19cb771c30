package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// short is a type of attention in a letter or two.
var short = map[string]string{"": "?", FullAttention: "F", SlidingAttention: "S", LinearAttention: "L", CompressedSparse: "C", HeavilyCompressed: "H"}

func typesOf(c *Config) string {
	var b strings.Builder
	for l := range c.Layers + c.MTPLayers {
		b.WriteString(short[c.LayerType(l)])
	}
	return b.String()
}

// What a config says of its layers, in the spellings of releases and of transformers.
func TestLayerTypes(t *testing.T) {
	for _, tt := range []struct {
		config, types string
		window        int // of the first layer that has one
	}{
		{`{"num_hidden_layers":3}`, "???", 0},
		{`{"model_type":"qwen3_next","num_hidden_layers":8,"full_attention_interval":4}`, "LLLFLLLF", 0},
		{`{"model_type":"qwen3_next","num_hidden_layers":5,"full_attention_interval":2}`, "LFLFL", 0},
		{`{"model_type":"qwen3_5","text_config":{"model_type":"qwen3_5_text","num_hidden_layers":2,"layer_types":["full_attention","linear_attention"],"full_attention_interval":4}}`, "FL", 0},
		{`{"model_type":"step3p7","text_config":{"model_type":"step3p5","num_hidden_layers":2,"num_nextn_predict_layers":2,"sliding_window":9,"layer_types":["full_attention","sliding_attention","sliding_attention","full_attention"]}}`, "FSSF", 9},
		{`{"model_type":"step3p5","num_hidden_layers":1,"num_nextn_predict_layers":1,"sliding_window":9,"layer_types":["full_attention"],"mtp_layer_types":["sliding_attention"]}`, "FS", 9},
		{`{"model_type":"deepseek_v4","num_hidden_layers":4,"num_nextn_predict_layers":1,"sliding_window":128,"compress_ratios":[0,128,4,128,0]}`, "SHCHS", 128},
		{`{"model_type":"deepseek_v4","num_hidden_layers":5,"sliding_window":128}`, "HHHCH", 128},
		{`{"model_type":"gemma4_text","num_hidden_layers":8,"sliding_window":512}`, "SSSSSFSF", 512},
		{`{"model_type":"gemma4_text","num_hidden_layers":2,"sliding_window":512,"layer_types":["sliding_attention","sliding_attention"]}`, "SF", 512},
		{`{"model_type":"gemma3_text","num_hidden_layers":7,"sliding_window":10}`, "SSSSSFS", 10},
		{`{"model_type":"qwen3","num_hidden_layers":2,"sliding_window":10,"layer_types":["sliding_attention","full_attention"]}`, "SF", 0}, // use_sliding_window is not said
		{`{"model_type":"mistral","num_hidden_layers":2,"sliding_window":10}`, "SS", 10},
	} {
		c := mustParse(t, tt.config)
		window := 0
		for l := range c.Layers + c.MTPLayers {
			if window == 0 {
				window = c.Window(l)
			}
		}
		if got := typesOf(&c); got != tt.types || window != tt.window || len(c.Notes) > 0 {
			t.Errorf("%s: %s, window %d, notes %q; want %s, %d", tt.config, got, window, c.Notes, tt.types, tt.window)
		}
	}
	c := mustParse(t, `{"model_type":"deepseek_v4","num_hidden_layers":2,"layer_types":["compressed_sparse_attention","heavily_compressed_attention"],"compress_rates":{"compressed_sparse_attention":8,"heavily_compressed_attention":64},"compress_rate_hca":32}`)
	if c.CompressRate(0) != 8 || c.CompressRate(1) != 32 || c.CompressRate(2) != 0 {
		t.Errorf("rates %d, %d", c.CompressRate(0), c.CompressRate(1))
	}
}

func TestAttentionSizes(t *testing.T) {
	const gemma = `{"model_type":"gemma4_text","num_hidden_layers":2,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"layer_types":["sliding_attention","full_attention"],`
	for config, want := range map[string]string{
		`{"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16}`: "4 2 16, 4 2 16",
		gemma + `"attention_k_eq_v":true,"global_head_dim":64,"num_global_key_value_heads":2}`:  "8 4 256, 8 2 64",
		gemma + `"attention_k_eq_v":false,"global_head_dim":64,"num_global_key_value_heads":2}`: "8 4 256, 8 4 64",
		gemma + `"num_global_key_value_heads":null}`:                                            "8 4 256, 8 4 512",
		gemma + `"per_layer_config":{"1":{"head_dim":32,"num_key_value_heads":1}}}`:             "8 4 256, 8 1 32",
		`{"model_type":"step3p5","num_hidden_layers":2,"num_attention_heads":4,"num_attention_groups":2,"head_dim":16,"layer_types":["full_attention","sliding_attention"],"sliding_window":5,"attention_other_setting":{"attention_type":"sliding_attention","num_attention_heads":6,"num_attention_groups":3,"head_dim":8}}`: "4 2 16, 6 3 8",
		`{"model_type":"step3p5","num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"layer_types":["full_attention","sliding_attention"],"sliding_window":5,"num_sliding_attention_heads":6}`:                                                                                                 "4 2 16, 6 2 16",
	} {
		c := mustParse(t, config)
		var got []string
		for l := range c.Layers {
			q, kv, dim := c.AttentionSizes(l)
			got = append(got, fmt.Sprint(q, kv, dim))
		}
		if s := strings.Join(got, ", "); s != want || len(c.Notes) > 0 {
			t.Errorf("%s: %s, notes %q; want %s", config, s, c.Notes, want)
		}
	}
}

// Both spellings of a golden model's config say the same of its layers.
func TestHubLayers(t *testing.T) {
	want := map[string]string{
		"step3p7": "FSF; 4 2 16, 6 2 16, 4 2 16; .xx", "gemma4_moe": "SSF; 4 2 16, 4 2 16, 4 1 32; xxx", "deepseek_v4": "SHC; 4 1 32, 4 1 32, 4 1 32; xxx",
		"gemma4_ple": "SFSF; 4 1 16, 4 1 32, 4 1 16, 4 1 32; ????", "qwen3_next": "LLLF; 4 2 32, 4 2 32, 4 2 32, 4 2 32; xxxx", "qwen3_5": "LLLF; 4 2 16, 4 2 16, 4 2 16, 4 2 16; ????",
		"qwen3_5_moe": "LLLF; 4 2 16, 4 2 16, 4 2 16, 4 2 16; xxxx", "deepseek_v2": "??; 4 4 8, 4 4 8; .x",
	}
	said := func(c *Config) string {
		var sizes []string
		moe := ""
		for l := range c.Layers {
			q, kv, dim := c.AttentionSizes(l)
			sizes = append(sizes, fmt.Sprint(q, kv, dim))
			switch is, known := c.MoELayer(l); {
			case !known:
				moe += "?"
			case is:
				moe += "x"
			default:
				moe += "."
			}
		}
		return typesOf(c)[:c.Layers] + "; " + strings.Join(sizes, ", ") + "; " + moe
	}
	for name, w := range want {
		f, _ := load(t, name)
		for _, text := range [][]byte{f.Config, f.Hub} {
			if text == nil {
				continue
			}
			c := mustParse(t, string(text))
			if name == "deepseek_v4" && len(f.Hub) > 0 {
				c.MTPLayers = 0
			}
			if got := said(&c); got != w || len(c.Notes) > 0 {
				t.Errorf("%s: %s, notes %q; want %s", name, got, c.Notes, w)
			}
		}
	}
}

// What cannot both be true is noted, once.
func TestContradictions(t *testing.T) {
	const linear = `"linear_num_key_heads":2,"linear_key_head_dim":8,"linear_value_head_dim":8,"linear_conv_kernel_dim":4`
	for config, note := range map[string]string{
		`{"num_hidden_layers":3,"layer_types":["full_attention"]}`:                                                                                     "layer_types has 1 entry, num_hidden_layers is 3",
		`{"num_hidden_layers":2,"num_nextn_predict_layers":1,"layer_types":["full_attention","full_attention","full_attention","x"]}`:                  "layer_types has 4 entries, num_hidden_layers is 2",
		`{"num_hidden_layers":2,"layer_types":"full_attention"}`:                                                                                       `layer_types: "full_attention" is no list`,
		`{"num_hidden_layers":1,"layer_types":[3]}`:                                                                                                    "layer_types[0]: 3 is no type",
		`{"model_type":"deepseek_v4","num_hidden_layers":3,"compress_ratios":[0,4]}`:                                                                   "compress_ratios has 2 entries, num_hidden_layers is 3",
		`{"model_type":"deepseek_v4","num_hidden_layers":1,"compress_ratios":[5]}`:                                                                     "compress_ratios[0]: 5 is none of 0, 4 and 128",
		`{"num_hidden_layers":2,"full_attention_interval":0}`:                                                                                          "full_attention_interval is 0",
		`{"num_hidden_layers":4,"linear_num_value_heads":3,` + linear + `}`:                                                                            "linear_num_value_heads 3 is no multiple of linear_num_key_heads 2",
		`{"num_hidden_layers":4,"linear_num_value_heads":2,"linear_num_key_heads":2,"linear_key_head_dim":8,"linear_conv_kernel_dim":4}`:               "layer 0 has linear attention, and one of",
		`{"num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":3,"head_dim":8}`:                                                         "layer 0: 4 heads of queries are no multiple of 3",
		`{"num_hidden_layers":2,"num_kv_shared_layers":2}`:                                                                                             "num_kv_shared_layers is 2 of 2 layers: no layer has keys and values",
		`{"num_hidden_layers":3,"num_kv_shared_layers":1,"sliding_window":4,"layer_types":["sliding_attention","sliding_attention","full_attention"]}`: "layer 2 uses the keys and values of a layer of type full_attention, and none before layer 2 is one",
		`{"num_hidden_layers":2,"num_experts":2,"num_experts_per_tok":3}`:                                                                              "a token takes 3 experts of 2",
		`{"num_hidden_layers":2,"num_experts":2,"mlp_layer_types":["sparse"]}`:                                                                         "mlp_layer_types has 1 entry, num_hidden_layers is 2",
		`{"num_hidden_layers":2,"num_experts":2,"moe_layers_enum":"1,7"}`:                                                                              "a list of layers with experts names layer 7 of 2",
		`{"num_hidden_layers":2,"per_layer_config":{"x":{"head_dim":8}}}`:                                                                              `per_layer_config: "x" with {"head_dim":8} says nothing of one of 2 layers`,
		`{"num_hidden_layers":2,"per_layer_config":{"2":{"head_dim":8}}}`:                                                                              `per_layer_config: "2"`,
		`{"num_hidden_layers":2,"per_layer_config":{"1":8}}`:                                                                                           `per_layer_config: "1" with 8`,
		`{"num_hidden_layers":2,"per_layer_config":{"1":{"head_dim":-8}}}`:                                                                             "head_dim: -8 is outside",
	} {
		c := mustParse(t, config)
		if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], note) {
			t.Errorf("%s: notes %q, want %q", config, c.Notes, note)
		}
	}
}

// Weights of attention that do not have the sizes of their own layer are a finding.
func TestGeometryByLayer(t *testing.T) {
	for _, tt := range []struct {
		fixture, tensor string
		shape           []int64
		want            string
	}{
		{"gemma4_moe", "model.layers.2.self_attn.k_proj.weight", []int64{64, 64}, "64 × 64, but the config makes it 32 outputs"},
		{"gemma4_ple", "model.layers.1.self_attn.q_proj.weight", []int64{64, 64}, "64 × 64, but the config makes it 128 outputs"},
		{"step3p7", "model.layers.1.self_attn.o_proj.weight", []int64{64, 64}, "64 × 64, but the config makes it 96 inputs"},
		{"qwen3_next", "model.layers.0.linear_attn.in_proj_qkvz.weight", []int64{128, 64}, "128 × 64, but the config makes it 192 outputs"},
		{"qwen3_next", "model.layers.0.linear_attn.in_proj_ba.weight", []int64{4, 64}, "4 × 64, but the config makes it 8 outputs"},
		{"qwen3_5", "model.language_model.layers.0.linear_attn.in_proj_qkv.weight", []int64{64, 64}, "64 × 64, but the config makes it 128 outputs"},
		{"qwen3_5", "model.language_model.layers.1.linear_attn.out_proj.weight", []int64{64, 32}, "64 × 32, but the config makes it 64 inputs"},
	} {
		f, tensors := load(t, tt.fixture)
		i := slices.IndexFunc(tensors, func(n Named) bool { return n.Name == tt.tensor })
		if i < 0 {
			t.Fatalf("%s has no %s", tt.fixture, tt.tensor)
		}
		tensors[i].Shape = tt.shape
		m, err := FromConfig(f.Config, tensors)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Findings) != 1 || m.Findings[0].ID != Geometry || m.Findings[0].Tensor != tt.tensor || !strings.HasPrefix(m.Findings[0].Message, tt.want) {
			t.Errorf("%s: %+v, want %s", tt.tensor, m.Findings, tt.want)
		}
	}
}
