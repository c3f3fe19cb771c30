package ggufmake

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
)

// edited is a copy of a golden checkpoint with another config.json: the one of that
// name, with keys of its text model changed (nil takes one away).
func edited(t testing.TB, name, config string, change map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(checkpoints, name, config))
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	inner, ok := c["text_config"].(map[string]any)
	if !ok {
		inner = c
	}
	for k, v := range change {
		if inner[k] = v; v == nil {
			delete(inner, k)
		}
	}
	if text, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	weights, err := os.ReadFile(filepath.Join(checkpoints, name, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), weights, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// raw is a tensor as it is stored.
type raw struct {
	dtype checkpoint.DType
	shape []int64
	data  []byte
}

// rewritten replaces the weights of a checkpoint by what change makes of them.
func rewritten(t testing.TB, dir string, change func(map[string]raw)) {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]raw{}
	for i := range ck.Tensors {
		x := &ck.Tensors[i]
		data := make([]byte, x.Size)
		if err := ck.ReadAt(t.Context(), x, 0, data); err != nil {
			t.Fatal(err)
		}
		all[x.Name] = raw{x.DType, x.Shape, data}
	}
	if err := ck.Close(); err != nil {
		t.Fatal(err)
	}
	change(all)
	path := filepath.Join(dir, "model.safetensors")
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	save(t, path, all)
}

func save(t testing.TB, path string, all map[string]raw) {
	t.Helper()
	var specs []checkpoint.Spec
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		specs = append(specs, checkpoint.Spec{Name: name, DType: all[name].dtype, Shape: all[name].shape})
	}
	w, err := checkpoint.NewWriter(path, specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := w.Write(all[name].data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// beside puts two matrices of so many rows next to each other.
func beside(a, b raw) raw {
	out := raw{a.dtype, []int64{a.shape[0], a.shape[1] + b.shape[1]}, nil}
	n := int(a.shape[0])
	for r := range n {
		out.data = append(out.data, a.data[r*len(a.data)/n:][:len(a.data)/n]...)
		out.data = append(out.data, b.data[r*len(b.data)/n:][:len(b.data)/n]...)
	}
	return out
}

// The released spellings of configs, and MTP layers, give the same files.
func TestNewestAsReleased(t *testing.T) {
	for _, c := range []struct {
		name, golden, config string
		change               map[string]any
		weights              func(map[string]raw)
	}{
		{name: "step3p7", config: "config.hub.json"},
		{name: "deepseek_v4", config: "config.hub.json"},
		{name: "gemma4_moe", config: "config.hub.json"},
		{name: "qwen3_5_mtp", golden: "qwen3_5", config: "config.json", change: map[string]any{"mtp_num_hidden_layers": 1, "attn_output_gate": true}, weights: func(m map[string]raw) {
			const p = "model.language_model.layers."
			for k, v := range m {
				if rest, ok := strings.CutPrefix(k, p+"3."); ok {
					m["mtp.layers.0."+rest] = v
				}
			}
			m["mtp.fc.weight"] = beside(m[p+"0.linear_attn.out_proj.weight"], m[p+"1.linear_attn.out_proj.weight"])
			m["mtp.pre_fc_norm_embedding.weight"], m["mtp.pre_fc_norm_hidden.weight"] = m[p+"0.input_layernorm.weight"], m[p+"1.input_layernorm.weight"]
			m["mtp.norm.weight"] = m[p+"2.input_layernorm.weight"]
		}},
		{name: "step3p7_mtp", golden: "step3p7", config: "config.hub.json", change: map[string]any{
			"num_nextn_predict_layers": 1, "layer_types": []any{"full_attention", "sliding_attention", "full_attention", "sliding_attention"}, "rope_theta": []any{5e6, 1e4, 5e6, 1e4},
			"partial_rotary_factors": []any{0.5, 1, 0.5, 1}, "swiglu_limits": []any{0, 0, 0.9, nil}, "swiglu_limits_shared": []any{0, 0, 1.2, 0},
		}, weights: func(m map[string]raw) {
			const p = "model.layers."
			for k, v := range m {
				rest, ok := strings.CutPrefix(k, p+"1.")
				if ok && (strings.HasPrefix(rest, "self_attn.") || strings.HasSuffix(rest, "layernorm.weight")) {
					m[p+"3."+rest] = v
				}
				if rest, ok := strings.CutPrefix(k, p+"0.mlp."); ok {
					m[p+"3.mlp."+rest] = v
				}
			}
			m[p+"3.eh_proj.weight"] = beside(m[p+"0.self_attn.o_proj.weight"], m[p+"2.self_attn.o_proj.weight"])
			m[p+"3.enorm.weight"], m[p+"3.hnorm.weight"] = m[p+"0.input_layernorm.weight"], m[p+"1.input_layernorm.weight"]
			m[p+"3.transformer.shared_head.norm.weight"], m[p+"3.transformer.shared_head.output.weight"] = m[p+"2.input_layernorm.weight"], m["lm_head.weight"]
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.golden == "" {
				c.golden = c.name
			}
			dir := edited(t, c.golden, c.config, c.change)
			if c.weights != nil {
				rewritten(t, dir, c.weights)
			}
			got, _, _ := write(t, openCheckpoint(t, dir, Options{}), Request{Type: kernels.GGUFBF16}, 2)
			asConverted(t, got, openGGUF(t, filepath.Join(readFiles, c.name+".gguf")))
		})
	}
}

// deltaCheckpoint is a random Qwen3.5 or Qwen3-Next of one layer with linear attention: 3 key
// heads with 2 value heads each, of 16 channels, hidden 32, in f32.
func deltaCheckpoint(t testing.TB, joined bool) (dir string, weights map[string]raw) {
	t.Helper()
	dir = t.TempDir()
	kind, extra := "qwen3_5_text", ""
	if joined {
		kind, extra = "qwen3_next", `"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "norm_topk_prob": true,`
	}
	config := fmt.Sprintf(`{"model_type": %q, "architectures": ["x"], %s "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
		"vocab_size": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "hidden_act": "silu", "layer_types": ["linear_attention"], "tie_word_embeddings": true,
		"linear_num_key_heads": 3, "linear_num_value_heads": 6, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4,
		"rope_parameters": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.5}}`, kind, extra)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	shapes := map[string][]int64{
		"embed_tokens.weight": {8, 32}, "norm.weight": {32}, "layers.0.input_layernorm.weight": {32}, "layers.0.post_attention_layernorm.weight": {32},
		"layers.0.linear_attn.conv1d.weight": {192, 1, 4}, "layers.0.linear_attn.A_log": {6}, "layers.0.linear_attn.dt_bias": {6}, "layers.0.linear_attn.norm.weight": {16},
		"layers.0.linear_attn.out_proj.weight": {32, 96},
	}
	if joined {
		shapes["layers.0.linear_attn.in_proj_qkvz.weight"], shapes["layers.0.linear_attn.in_proj_ba.weight"] = []int64{288, 32}, []int64{12, 32}
		shapes["layers.0.mlp.gate.weight"], shapes["layers.0.mlp.shared_expert_gate.weight"] = []int64{2, 32}, []int64{1, 32}
		for _, m := range []string{"experts.0", "experts.1", "shared_expert"} {
			for _, p := range []string{"gate_proj", "up_proj", "down_proj"} {
				shapes["layers.0.mlp."+m+"."+p+".weight"] = []int64{32, 32}
			}
		}
	} else {
		shapes["layers.0.linear_attn.in_proj_qkv.weight"], shapes["layers.0.linear_attn.in_proj_z.weight"] = []int64{192, 32}, []int64{96, 32}
		shapes["layers.0.linear_attn.in_proj_a.weight"], shapes["layers.0.linear_attn.in_proj_b.weight"] = []int64{6, 32}, []int64{6, 32}
		for _, p := range []string{"gate_proj", "up_proj", "down_proj"} {
			shapes["layers.0.mlp."+p+".weight"] = []int64{32, 32}
		}
	}
	rng := rand.New(rand.NewPCG(3, 9))
	weights = map[string]raw{}
	for _, name := range sortedNames(shapes) {
		n := int64(1)
		for _, d := range shapes[name] {
			n *= d
		}
		var data []byte
		for range n { // eighths, which stay as they are with 1 added and taken away
			data = appendF32(data, float32(rng.IntN(41)-20)/8)
		}
		weights["model."+name] = raw{checkpoint.F32, shapes[name], data}
	}
	save(t, filepath.Join(dir, "model.safetensors"), weights)
	return dir, weights
}

func appendF32(b []byte, x float32) []byte {
	u := math.Float32bits(x)
	return append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
}

func sortedNames[T any](m map[string]T) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Heads whose order is not its own inverse are written as the reader, which is held
// against llama.cpp's definition, reads them.
func TestValueHeadsThereAndBack(t *testing.T) {
	for _, joined := range []bool{false, true} {
		dir, weights := deltaCheckpoint(t, joined)
		f, _, _ := write(t, openCheckpoint(t, dir, Options{}), Request{Type: kernels.GGUFF32}, 2)
		m, err := gguf.NewModel(f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range m.Weights {
			w := &m.Weights[i]
			r, ok := weights[w.Name]
			if !ok {
				t.Fatalf("%s is not in the checkpoint", w.Name)
			}
			var got []float32
			if w.Vector {
				got, err = m.ReadVector(t.Context(), w)
			} else {
				got = make([]float32, w.Rows*w.Cols)
				var l *gguf.Loaded
				if l, err = m.Load(t.Context(), w, kernels.Best(), make([]byte, w.Bytes())); err == nil {
					err = kernels.Best().ExpandRows(got, l.Operand(), 0)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			want := make([]float32, len(r.data)/4)
			if err := checkpoint.DecodeF32(want, checkpoint.F32, r.data); err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) {
				t.Fatalf("%s has %d values, want %d", w.Name, len(got), len(want))
			}
			for k := range want {
				if d := got[k] - want[k]; d != 0 && (!strings.HasSuffix(w.Name, "A_log") || math.Abs(float64(d)) > 1e-6) {
					t.Errorf("%s: value %d is %v, want %v", w.Name, k, got[k], want[k])
					break
				}
			}
		}
		if len(m.Weights) != len(weights) {
			t.Errorf("%d weights, want %d", len(m.Weights), len(weights))
		}
	}
}

// Rows of a part that is stored in groups of rows are read whole, and come out in
// their order too.
func TestOrderOfGroupedRows(t *testing.T) {
	list := []int{0, 1, 4, 5, 2, 3, 6, 7}
	p := &part{rows: 8, cols: 2, group: 4, read: func(_ context.Context, _ *reader, first, n int, dst []float32) error {
		if first%4 != 0 || n%4 != 0 {
			t.Fatalf("rows %d to %d of groups of 4", first, first+n)
		}
		for i := range dst {
			dst[i] = float32(first*2 + i)
		}
		return nil
	}}
	in := p.input("x.weight")
	inOrder(&in, list, p)
	dst := make([]float32, 16)
	if err := in.rows(t.Context(), &reader{}, 0, 8, dst); err != nil || in.group != 8 {
		t.Fatal(err, in.group)
	}
	if want := []float32{0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15}; !slices.Equal(dst, want) {
		t.Errorf("%v, want %v", dst, want)
	}
}

// What a config asks for and files of its architecture cannot say is refused by name.
func TestNewestThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, config, key string
		value             any
		want              string
	}{
		{"qwen3_next", "config.json", "linear_value_head_dim", 32, "linear_value_head_dim is 32 and linear_key_head_dim 16"},
		{"qwen3_next", "config.json", "linear_num_value_heads", 5, "5, and no multiple of 2 key heads"},
		{"qwen3_next", "config.json", "linear_conv_kernel_dim", nil, "sizes of linear attention"},
		{"qwen3_next", "config.json", "linear_num_value_heads", 6, "has 4 values for 6 value heads"},
		{"qwen3_next", "config.json", "norm_topk_prob", false, "norm_topk_prob is false"},
		{"qwen3_next", "config.json", "mlp_only_layers", []any{1}, "layer 1 has no experts"},
		{"qwen3_5", "config.json", "attn_output_gate", false, "attn_output_gate is false"},
		{"qwen3_5", "config.json", "layer_types", []any{"linear_attention", "linear_attention", "sliding_attention", "full_attention"}, "layer 2 is sliding_attention"},
		{"qwen3_5", "config.json", "hidden_act", "gelu", "hidden_act is gelu"},
		{"step3p7", "config.hub.json", "norm_expert_weight", false, "norm_expert_weight is false"},
		{"step3p7", "config.json", "query_pre_attn_scalar", 8, "query_pre_attn_scalar is 8"},
		{"step3p7", "config.hub.json", "partial_rotary_factors", []any{1, 1, 1}, "1 of the channels rotate in full and 1 in sliding layers"},
		{"step3p7", "config.hub.json", "moe_layers_enum", "1", "layer 2 has no experts, and layer 1 has some"},
		{"deepseek_v2", "config.json", "topk_method", "noaux_tc", "topk_method is noaux_tc"},
		{"deepseek_v2", "config.json", "topk_method", "greedy", "greedy with 4 groups"},
		{"deepseek_v2", "config.json", "scoring_func", "sigmoid", "scoring_func is sigmoid"},
		{"deepseek_v4", "config.json", "scoring_func", "sigmoid", "scoring_func is sigmoid"},
		{"deepseek_v4", "config.json", "mlp_layer_types", []any{"moe", "hash_moe", "moe"}, "layer 1 is hash_moe"},
		{"deepseek_v4", "config.json", "compress_rates", map[string]any{"compressed_sparse_attention": 8, "heavily_compressed_attention": 16}, "with a rate of 8"},
		{"gemma4_moe", "config.json", "layer_types", []any{"linear_attention", "sliding_attention", "full_attention"}, "layer 0 is linear_attention"},
		{"gemma4_moe", "config.json", "hidden_activation", "silu", "hidden_activation is silu"},
		{"gemma4_moe", "config.json", "use_bidirectional_attention", "all", "use_bidirectional_attention is all"},
		{"gemma4_moe", "config.json", "per_layer_config", map[string]any{"1": map[string]any{"num_key_value_heads": 1}}, "layer 1 has"},
		{"gemma4_ple", "config.json", "rope_parameters", map[string]any{"full_attention": map[string]any{"rope_type": "default", "rope_theta": 1e6}}, "proportional and default ones"},
	} {
		dir := edited(t, c.name, c.config, map[string]any{c.key: c.value})
		ck, err := checkpoint.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := FromCheckpoint(ck, Options{})
		if err == nil {
			_, err = NewPlan(s, Request{Type: kernels.GGUFBF16})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s with %s %v: %v, want %q", c.name, c.key, c.value, err, c.want)
		}
		_ = ck.Close()
	}
	// A table of experts that names one that is not there.
	dir := edited(t, "deepseek_v4", "config.json", nil)
	rewritten(t, dir, func(m map[string]raw) { m["layers.0.ffn.gate.tid2eid"].data[8*5] = 4 })
	p, err := NewPlan(openCheckpoint(t, dir, Options{}), Request{Type: kernels.GGUFBF16})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Write(context.Background(), filepath.Join(t.TempDir(), "x.gguf"), Settings{Threads: 1, Set: kernels.Best()})
	if err == nil || !strings.Contains(err.Error(), "value 5 is no number of 4 experts") {
		t.Errorf("an expert that is not there: %v", err)
	}
}

// Scales of Gemma 4's router stay beside weights that are stored otherwise, and are
// not multiplied into them.
func TestRouterScalesStay(t *testing.T) {
	f, _, _ := write(t, openSource(t, filepath.Join(readFiles, "gemma4_moe.gguf")), Request{Type: kernels.GGUFF16}, 1)
	old := openGGUF(t, filepath.Join(readFiles, "gemma4_moe.gguf"))
	for _, name := range []string{"blk.0.ffn_down_exps.scale", "blk.2.ffn_gate_inp.scale", "blk.1.ffn_down_exps.weight"} {
		a, ok := old.Lookup(name)
		b, also := f.Lookup(name)
		if !ok || !also {
			t.Fatalf("%s is missing", name)
		}
		x, y := make([]float32, a.Elements()), make([]float32, b.Elements())
		if err := old.Decode(t.Context(), a, 0, x); err != nil {
			t.Fatal(err)
		}
		if err := f.Decode(t.Context(), b, 0, y); err != nil {
			t.Fatal(err)
		}
		for i := range x {
			if math.Abs(float64(x[i]-y[i])) > 1e-3*math.Abs(float64(x[i]))+1e-6 {
				t.Errorf("%s: value %d was %v and is %v", name, i, x[i], y[i])
				break
			}
		}
	}
}
