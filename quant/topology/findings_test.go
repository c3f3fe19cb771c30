package topology

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestFindings(t *testing.T) {
	drop := func(part string) func([]Named) []Named {
		return func(ts []Named) []Named {
			return slices.DeleteFunc(slices.Clone(ts), func(n Named) bool { return strings.Contains(n.Name, part) })
		}
	}
	add := func(more ...Named) func([]Named) []Named {
		return func(ts []Named) []Named { return append(slices.Clone(ts), more...) }
	}
	tests := []struct {
		name   string
		config map[string]any // over the demo's
		change func([]Named) []Named
		want   []string // parts of the findings, in order
	}{
		{name: "as it is"},
		{name: "no head", change: drop("lm_head"), want: []string{"lm_head.weight is missing, yet tie_word_embeddings is false"}},
		{name: "tied with a head", config: map[string]any{"tie_word_embeddings": true}, want: []string{"a head is stored, yet tie_word_embeddings is true"}},
		{name: "tied", config: map[string]any{"tie_word_embeddings": true}, change: drop("lm_head")},
		{name: "silent and no head", config: map[string]any{"tie_word_embeddings": nil}, change: drop("lm_head"), want: []string{"lm_head.weight is missing, yet tie_word_embeddings is not in the config, which means false for model type glm4_moe"}},
		{name: "unknown family, silent and no head", config: map[string]any{"tie_word_embeddings": nil, "model_type": "novel"}, change: drop("lm_head"), want: []string{"taken as tied"}},
		{name: "no generation", config: map[string]any{"architectures": []string{"Glm4MoeModel"}}, change: drop("lm_head")},
		{name: "no embedding", change: drop("model.embed_tokens"), want: []string{"no token embedding"}},
		{name: "MTP absent", change: drop("layers.5."), want: []string{"declares 1 MTP layer, none is stored"}},
		{name: "MTP not declared", config: map[string]any{"num_nextn_predict_layers": nil}, want: []string{"stores 1 MTP layer, the config declares none"}},
		{name: "more MTP declared", config: map[string]any{"num_nextn_predict_layers": 3}, want: []string{"declares 3 MTP layers, the checkpoint stores 1"}},
		{name: "a layer gone", change: drop("layers.3."), want: []string{"1 of 5 decoder layers not stored: 3"}},
		{name: "more layers declared", config: map[string]any{"num_hidden_layers": 9, "num_nextn_predict_layers": 0}, want: []string{"4 of 9 decoder layers not stored: 5–8", "stores 1 MTP layer"}},
		{name: "a layer too many", change: add(Named{"model.layers.7.mlp.up_proj.weight", "BF16", []int64{384, 128}}), want: []string{"layer 7 lies beyond the 5 layers"}},
		{name: "an expert gone", change: drop("layers.2.mlp.experts.9."), want: []string{"layer 2 has 15 experts, the config says 16 (1 layer like it)"}},
		{name: "experts miscounted", config: map[string]any{"n_routed_experts": 64}, want: []string{"layer 1 has 16 experts, the config says 64 (5 layers like it)"}},
		{name: "a projection gone", change: drop("layers.2.mlp.experts.9.up_proj"), want: []string{"expert 9 of layer 2 has no up (1 expert not whole)"}},
		{name: "dense where MoE is declared", config: map[string]any{"first_k_dense_replace": 0}, want: []string{"layer 0 has no routed experts"}},
		{name: "MoE where dense is declared", config: map[string]any{"first_k_dense_replace": 3}, want: []string{"layer 1 has routed experts, the config says it is dense (2 layers like it)"}},
		{name: "other heads", config: map[string]any{"num_key_value_heads": 4}, want: []string{"64 × 128, but the config makes it 128 outputs and hidden_size 128 (12 attention weights like it)"}},
	}
	f, tensors := load(t, "demo")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var config map[string]any
			if err := json.Unmarshal(f.Config, &config); err != nil {
				t.Fatal(err)
			}
			for k, v := range tt.config {
				config[k] = v
			}
			text, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			ts := tensors
			if tt.change != nil {
				ts = tt.change(tensors)
			}
			m, err := FromConfig(text, ts)
			if err != nil {
				t.Fatal(err)
			}
			ok := len(m.Findings) == len(tt.want)
			for i := 0; ok && i < len(tt.want); i++ {
				ok = strings.Contains(m.Findings[i].Message, tt.want[i])
			}
			if !ok {
				t.Errorf("findings %q, want %q", m.Findings, tt.want)
			}
		})
	}
}

// Case C38: untied by the outer config of a vision model, and no head.
func TestUntiedHead(t *testing.T) {
	m := resolveFixture(t, "case_untied_head")
	i := slices.IndexFunc(m.Findings, func(f Finding) bool { return f.Tensor == "lm_head.weight" })
	if i < 0 || !strings.Contains(m.Findings[i].Message, "tie_word_embeddings is false") || m.Tied || m.HeadStored {
		t.Errorf("findings %q, tied %t, head %t", m.Findings, m.Tied, m.HeadStored)
	}
}

// Names that no table knows are listed and get no role; nothing panics.
func TestHostileNames(t *testing.T) {
	wide := resolveFixture(t, "case_wide_names")
	if len(wide.Unknown) != len(wide.Tensors) || len(wide.Unknown) != 8 {
		t.Errorf("%d of %d unknown", len(wide.Unknown), len(wide.Tensors))
	}
	names := []string{
		"", ".", "..", "weight", ".weight", "model.", "model.weight", "model..norm.weight", "model.layers", "model.layers.0", "model.layers.0.weight", "layers.weight",
		"model.layers.99999999999999999999.mlp.up_proj.weight", "model.layers.65536.mlp.up_proj.weight", "model.layers.-1.mlp.up_proj.weight", "model.layers.01.mlp.up_proj.weight", "model.layers.٣.mlp.up_proj.weight",
		"model.layers.0.mlp.experts.weight", "model.layers.0.mlp.experts.0.weight", "model.layers.0.mlp.experts.00.up_proj.weight", "model.layers.0.mlp.experts.70000.up_proj.weight", "model.layers.0.mlp.experts.0.0.up_proj.weight",
		"model.layers.0.self_attn.weight", "model.layers.0.self_attn.q_proj.q_proj.weight", "model.layers.0.mlp.w1.weight", "model.layers.0.mlp.experts.gate_up_proj_", "model.layers.0.mlp.experts.gate_up_proj_foo", "model.layers.0.mlp.old_proj.weight",
		"model.layers.0.Self_attn.q_proj.weight", " model.norm.weight", "model.norm.weight ", "model.layers.0.self_attn.q_proj\x00.weight", "\xff\xfe.weight", strings.Repeat("a.", 5000) + "weight", strings.Repeat("model.", 30) + "norm.weight", "mtp", "mtp.weight", "mtp.0", "mtp.layers",
	}
	var tensors []Named
	for _, n := range names {
		tensors = append(tensors, Named{n, "BF16", []int64{2, 2}})
	}
	m, err := Resolve(Config{}, tensors)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range m.Roles {
		if r.Kind != Unknown || r.Layer != -1 || r.Expert != -1 {
			t.Errorf("%.60q: %+v, want unknown", names[i], r)
		}
	}
	if !slices.Equal(m.Unknown, names) {
		t.Errorf("unknown names are listed in order: %q", m.Unknown)
	}
	if m.Layers != 0 || m.Params[Unknown] != int64(4*len(names)) {
		t.Errorf("%d layers, %v", m.Layers, m.Params)
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, ts := range [][]Named{
		{{"a.weight", "BF16", nil}, {"a.weight", "BF16", nil}},
		{{"a.weight", "BF16", []int64{-1}}},
		{{"a.weight", "BF16", []int64{1 << 40, 1 << 40}}},
		{{"a.weight", "BF16", []int64{1 << 62}}},
	} {
		if _, err := Resolve(Config{}, ts); !errors.Is(err, ErrTensors) || !strings.Contains(err.Error(), "a.weight") {
			t.Errorf("%v: %v", ts, err)
		}
	}
	if m, err := Resolve(Config{}, nil); err != nil || m.Summary != "unknown · 0 params" {
		t.Errorf("%+v, %v", m, err)
	}
}

func FuzzNames(f *testing.F) {
	for _, name := range fixtures(f) {
		_, tensors := load(f, name)
		for i := 0; i < len(tensors); i += 17 {
			f.Add(tensors[i].Name, uint8(len(tensors[i].Shape)))
		}
	}
	f.Fuzz(func(t *testing.T, name string, rank uint8) {
		shape := make([]int64, rank%5)
		for i := range shape {
			shape[i] = int64(i + 2)
		}
		m, err := FromConfig([]byte(`{"model_type":"gpt_oss","hidden_size":3,"num_hidden_layers":2}`), []Named{{name, "F32", shape}})
		if err != nil {
			t.Fatal(err)
		}
		if known := m.Roles[0].Kind != Unknown; known == slices.Contains(m.Unknown, name) {
			t.Fatalf("%q: role %v, unknown %q", name, m.Roles[0], m.Unknown)
		}
		whole(t, m, cover(t, m))
	})
}
