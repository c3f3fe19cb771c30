package recipe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/topology"
)

const moeConfig = `{"model_type":"glm4_moe","hidden_size":16,"num_hidden_layers":2,"num_nextn_predict_layers":1,"first_k_dense_replace":1,"n_routed_experts":2,"num_experts_per_tok":1,"moe_intermediate_size":8,"tie_word_embeddings":false}`

// moe is a mixture of experts: dense layer 0, MoE layer 1, MTP layer 2.
func moe(dtype string) []topology.Named {
	var ts []topology.Named
	add := func(name string, shape ...int64) {
		ts = append(ts, topology.Named{Name: name, DType: dtype, Shape: shape})
	}
	add("model.embed_tokens.weight", 32, 16)
	for l := range 3 {
		p := fmt.Sprintf("model.layers.%d.", l)
		add(p+"input_layernorm.weight", 16)
		for _, n := range []string{"q", "k", "v", "o"} {
			add(p+"self_attn."+n+"_proj.weight", 16, 16)
		}
		add(p+"self_attn.q_proj.bias", 16)
		if l == 0 {
			add(p+"mlp.gate_proj.weight", 24, 16)
			add(p+"mlp.up_proj.weight", 24, 16)
			add(p+"mlp.down_proj.weight", 16, 24)
			continue
		}
		add(p+"mlp.gate.weight", 2, 16)
		for x := range 2 {
			e := fmt.Sprintf("%smlp.experts.%d.", p, x)
			add(e+"gate_proj.weight", 8, 16)
			add(e+"up_proj.weight", 8, 16)
			add(e+"down_proj.weight", 16, 8)
		}
		add(p+"mlp.shared_experts.up_proj.weight", 8, 16)
	}
	add("model.layers.2.eh_proj.weight", 16, 32)
	add("model.layers.2.enorm.weight", 16)
	add("model.norm.weight", 16)
	add("lm_head.weight", 32, 16)
	return ts
}

func resolve(t testing.TB, config string, tensors []topology.Named) *topology.Model {
	t.Helper()
	m, err := topology.FromConfig([]byte(config), tensors)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func names(s Selection) []string {
	var out []string
	for _, m := range s.Matrices {
		out = append(out, m.Name)
	}
	return out
}

func TestDefaultExperts(t *testing.T) {
	s, err := Select(resolve(t, moeConfig, moe("BF16")), "")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, l := range []int{1, 2} { // the MTP layer's experts included
		for x := range 2 {
			for _, p := range []string{"gate", "up", "down"} {
				want = append(want, fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s_proj.weight", l, x, p))
			}
		}
	}
	if got := names(s); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if s.Description != DefaultExperts || len(s.Excluded) != 0 || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "6 in MTP layers") {
		t.Errorf("%+v", s)
	}
}

func TestDefaultDense(t *testing.T) {
	var dense []topology.Named
	for _, ts := range moe("F16") {
		if !strings.Contains(ts.Name, "experts") && !strings.Contains(ts.Name, "layers.2") && !strings.Contains(ts.Name, "mlp.gate.") {
			dense = append(dense, ts)
		}
	}
	dense = append(dense, topology.Named{Name: "visual.blocks.0.attn.qkv.weight", DType: "F16", Shape: []int64{48, 16}})
	s, err := Select(resolve(t, "", dense), " ")
	if err != nil {
		t.Fatal(err)
	}
	if s.Description != DefaultDense || len(s.Matrices) != 2*4+3 {
		t.Errorf("%s: %q", s.Description, names(s))
	}
	for _, n := range names(s) {
		if !strings.Contains(n, "_proj.weight") {
			t.Errorf("%s is among the defaults", n)
		}
	}
}

// Fused experts are expanded, and each can be named by expert and half.
func TestFusedTargets(t *testing.T) {
	m := resolve(t, `{"model_type":"gpt_oss","hidden_size":6,"intermediate_size":4,"num_local_experts":3,"num_hidden_layers":1}`, []topology.Named{
		{Name: "model.layers.0.mlp.experts.gate_up_proj", DType: "BF16", Shape: []int64{3, 6, 8}},
		{Name: "model.layers.0.mlp.experts.gate_up_proj_bias", DType: "BF16", Shape: []int64{3, 8}},
		{Name: "model.layers.0.mlp.experts.down_proj", DType: "BF16", Shape: []int64{3, 4, 6}},
	})
	for targets, want := range map[string]int{
		"":                    9,
		"*.gate_up_proj":      6, // the stored tensor
		"*.gate":              3,
		`*gate_up_proj\[1\]*`: 2,
		"model.layers.0.mlp.experts.gate_up_proj[2].up": 1,
		"re:.*down_proj\\[[01]\\]":                      2,
		"*.gate,*.up":                                   6,
	} {
		s, err := Select(m, targets)
		if err != nil {
			t.Errorf("%q: %v", targets, err)
			continue
		}
		if len(s.Matrices) != want {
			t.Errorf("%q: %q, want %d", targets, names(s), want)
		}
	}
}

func TestSelectPatterns(t *testing.T) {
	m := resolve(t, moeConfig, moe("BF16"))
	tests := []struct {
		targets            string
		matrices, excluded int
		notes              []string
	}{
		{"*.q_proj", 3, 0, []string{"1 in MTP layers"}}, // a module's name, as in other tools' recipes
		{"*.q_proj.weight", 3, 0, []string{"1 in MTP layers"}},
		{"*layers.1.mlp.*", 7, 1, []string{"not taken: 1; the first, model.layers.1.mlp.gate.weight: a router; a pattern of its own takes it"}},
		{"*layers.1.mlp.*,*.mlp.gate", 9, 0, []string{"2 of a kind that is usually kept: a router", "1 in MTP layers"}},
		{"*.mlp.gate", 2, 0, []string{"2 of a kind that is usually kept: a router", "1 in MTP layers"}},
		{"lm_head", 1, 0, []string{"1 of a kind that is usually kept: the head"}},
		{"*eh_proj*", 1, 0, []string{"joins it to the model", "1 in MTP layers"}},
		{"re:.*layers\\.0\\.", 7, 2, []string{"not taken: 2; the first, model.layers.0.input_layernorm.weight: a vector"}},
		// 12 attention, 3 dense, 12 experts, 2 shared; embedding, head, 2 routers, eh_proj; 3 layer norms, 3 biases, enorm, norm
		{"*", 29, 13, []string{"not taken: 13; the first, model.embed_tokens.weight: an embedding", "in MTP layers"}},
	}
	for _, tt := range tests {
		s, err := Select(m, tt.targets)
		if err != nil {
			t.Errorf("%s: %v", tt.targets, err)
			continue
		}
		if len(s.Matrices) != tt.matrices || len(s.Excluded) != tt.excluded || s.Description != tt.targets {
			t.Errorf("%s: %d matrices, %d excluded %q; want %d, %d", tt.targets, len(s.Matrices), len(s.Excluded), s.Excluded, tt.matrices, tt.excluded)
		}
		ok := len(s.Notes) == len(tt.notes)
		for i := 0; ok && i < len(tt.notes); i++ {
			ok = strings.Contains(s.Notes[i], tt.notes[i])
		}
		if !ok {
			t.Errorf("%s: notes %q, want %q", tt.targets, s.Notes, tt.notes)
		}
	}
}

func TestNoMatch(t *testing.T) {
	m := resolve(t, moeConfig, moe("BF16"))
	_, err := Select(m, "*.q_proj,*self_atn.k_porj*")
	var no *NoMatchError
	if !errors.As(err, &no) || no.Pattern != "*self_atn.k_porj*" || len(no.Nearest) != 3 {
		t.Fatalf("%v", err)
	}
	if no.Nearest[0] != "model.layers.0.self_attn.k_proj.weight" {
		t.Errorf("nearest %q", no.Nearest)
	}
	if !strings.Contains(err.Error(), no.Nearest[2]) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// What cannot be quantized is said by count, with the first and its reason.
func TestNothing(t *testing.T) {
	mixed := append(moe("BF16"), topology.Named{Name: "model.layers.1.mlp.experts.0.w9.weight", DType: "F64", Shape: []int64{4, 4}})
	packed := func(config string, tensors ...topology.Named) *topology.Model { return resolve(t, config, tensors) }
	const up = "model.layers.0.mlp.experts.0.up_proj."
	tests := []struct {
		name, targets string
		model         *topology.Model
		want          string
	}{
		{"vectors", "*norm*", resolve(t, moeConfig, mixed), "none of 5 matches can be quantized; the first, model.layers.0.input_layernorm.weight: a vector"},
		{"f64", "*w9*", resolve(t, moeConfig, mixed), "the only match cannot be quantized: model.layers.1.mlp.experts.0.w9.weight: stored as F64; BF16, F16 and F32 can be quantized"},
		{"modelopt", "", packed(`{"model_type":"qwen3_moe","quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}}`, topology.Named{Name: up + "weight", DType: "U8", Shape: []int64{8, 16}}, topology.Named{Name: up + "weight_scale", DType: "F8_E4M3", Shape: []int64{8, 2}}), "default: routed experts: the only match cannot be quantized: " + up + "weight: already quantized (modelopt NVFP4), stored as U8"},
		{"fp8", "*", packed(`{"model_type":"deepseek_v3","quantization_config":{"quant_method":"fp8","fmt":"e4m3"}}`, topology.Named{Name: up + "weight", DType: "F8_E4M3", Shape: []int64{8, 16}}, topology.Named{Name: up + "weight_scale_inv", DType: "F32", Shape: []int64{1, 1}}), "already quantized (fp8 e4m3), stored as F8_E4M3"},
		{"scales", "*_scale_inv", packed("", topology.Named{Name: up + "weight_scale_inv", DType: "F32", Shape: []int64{1, 1}}), "weight_scale_inv, not a weight"},
		{"compressed-tensors", "", packed(``, topology.Named{Name: up + "weight_packed", DType: "U8", Shape: []int64{8, 16}}), "already quantized (the config does not say how), stored as U8"},
		{"mxfp4", "", packed(`{"model_type":"gpt_oss","quantization_config":{"quant_method":"mxfp4"}}`, topology.Named{Name: "model.layers.0.mlp.experts.down_proj_blocks", DType: "U8", Shape: []int64{4, 8, 2, 16}}), "already quantized (mxfp4), stored as U8"},
		{"unresolved", "", packed(``, topology.Named{Name: "model.layers.0.mlp.experts.down_proj", DType: "BF16", Shape: []int64{4, 8, 8}}), "fits both [out, in] and [in, out]"},
		{"integers", "*", packed(``, topology.Named{Name: "counter", DType: "U64", Shape: []int64{2, 2}}), "stored as U64, not in floating point"},
		{"convolution", "*", packed(``, topology.Named{Name: "visual.conv1.weight", DType: "F32", Shape: []int64{8, 3, 4, 4}}), "4-dimensional, and not a stack of experts"},
		{"empty", "*", packed(``, topology.Named{Name: "model.layers.0.mlp.up_proj.weight", DType: "F32", Shape: []int64{0, 4}}), "up_proj.weight: empty"},
		{"nothing at all", "", packed(``, topology.Named{Name: "model.norm.weight", DType: "F32", Shape: []int64{4}}), "default: attention and MLP: the checkpoint has no such matrices"},
	}
	for _, tt := range tests {
		s, err := Select(tt.model, tt.targets)
		if !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), tt.want) || len(s.Matrices) > 0 {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	// Part of the experts packed: the rest is taken.
	tensors := moe("BF16")
	for i := range tensors {
		if strings.Contains(tensors[i].Name, "experts.1.") {
			tensors[i].DType = "F8_E4M3"
		}
	}
	s, err := Select(resolve(t, moeConfig, tensors), "")
	if err != nil || len(s.Matrices) != 6 || len(s.Excluded) != 6 || !strings.Contains(s.Notes[0], "not taken: 6") {
		t.Errorf("%d taken, %d excluded, %q, %v", len(s.Matrices), len(s.Excluded), s.Notes, err)
	}
}

// A matrix of unknown role is taken only by a pattern of its own, as it stands.
func TestUnknownRole(t *testing.T) {
	tensors := append(moe("BF16"), topology.Named{Name: "adapter.weight", DType: "BF16", Shape: []int64{8, 16}})
	m := resolve(t, moeConfig, tensors)
	s, err := Select(m, "adapter*")
	if err != nil || len(s.Matrices) != 1 || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "role unknown") {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = Select(m, "*")
	if err != nil || slices.Contains(names(s), "adapter.weight") {
		t.Errorf("%q, %v", names(s), err)
	}
}

func BenchmarkSelect(b *testing.B) {
	var tensors []topology.Named
	for l := range 100 {
		for x := range 256 {
			for _, p := range []string{"gate", "up", "down"} {
				tensors = append(tensors, topology.Named{Name: fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s_proj.weight", l, x, p), DType: "BF16", Shape: []int64{16, 16}})
			}
		}
	}
	m := resolve(b, `{"model_type":"qwen3_moe","hidden_size":16,"num_hidden_layers":100,"num_experts":256,"moe_intermediate_size":16}`, tensors)
	for _, targets := range []string{"", "*.experts.*.down_proj", "re:.*experts\\.\\d+\\.(gate|up)_proj"} {
		b.Run("targets="+targets, func(b *testing.B) {
			for b.Loop() {
				if _, err := Select(m, targets); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
