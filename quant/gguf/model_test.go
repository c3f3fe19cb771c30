package gguf

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

func TestModelOfLlama(t *testing.T) {
	m, err := llamaFixture(kernels.GGUFQ4_0).model(t)
	if err != nil {
		t.Fatal(err)
	}
	c := m.Topology.Config
	if c.ModelType != "llama" || c.Hidden != 64 || c.Heads != 4 || c.KVHeads != 2 || c.HeadDim != 16 || c.Vocab != 8 || !m.Topology.Tied || c.Layers != 1 {
		t.Errorf("config %s", m.Config)
	}
	if string(c.Text["rms_norm_eps"].(json.Number)) != "1e-05" || c.Rope.Theta != 10000 || len(c.Notes) > 0 {
		t.Errorf("ε %v, θ %v, notes %v", c.Text["rms_norm_eps"], c.Rope.Theta, c.Notes)
	}
	q, ok := m.Find(topology.Role{Kind: topology.Attention, Layer: 0, Expert: -1, Projection: "q", Param: "weight"})
	if !ok || q.Name != "model.layers.0.self_attn.q_proj.weight" || m.Stored(q) != "blk.0.attn_q.weight" || q.Bytes() != 64*64/32*18 || !q.Reordered() {
		t.Errorf("q is %+v", q)
	}
	// Of k there are fewer heads: of 32 rows in pairs, row 8 is the second one.
	k, ok := m.Find(topology.Role{Kind: topology.Attention, Layer: 0, Expert: -1, Projection: "k", Param: "weight"})
	if !ok || k.Rows != 32 || k.pieces[0].storedRow(8) != 1 || q.pieces[0].storedRow(8) != 1 {
		t.Errorf("k is %+v", k)
	}
	if types := m.Types(q); !slices.Equal(types, []kernels.GGUFType{kernels.GGUFQ4_0}) {
		t.Errorf("types %v", types)
	}
	if _, ok := m.Find(topology.Role{Kind: topology.Head, Layer: -1, Expert: -1, Param: "weight"}); ok {
		t.Error("a head where none is stored")
	}
	if len(m.Topology.Findings) > 0 || len(m.Topology.Unresolved) > 0 {
		t.Errorf("findings %v %v", m.Topology.Findings, m.Topology.Unresolved)
	}
}

func TestMetadataThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		key   string
		value any // nil takes the key away
		words []string
	}{
		"no architecture":          {"general.architecture", nil, []string{"general.architecture"}},
		"an unknown architecture":  {"general.architecture", "falcon", []string{`"falcon"`, "deepseek2, deepseek4, gemma3, gemma4, glm4moe, gpt-oss, llama, qwen2, qwen3, qwen35, qwen35moe, qwen3moe, qwen3next, step35"}},
		"no layers":                {"llama.block_count", nil, []string{"llama.block_count"}},
		"no hidden size":           {"llama.embedding_length", nil, []string{"llama.embedding_length"}},
		"no heads":                 {"llama.attention.head_count", uint32(0), []string{"llama.attention.head_count is 0"}},
		"no ε":                     {"llama.attention.layer_norm_rms_epsilon", nil, []string{"layer_norm_rms_epsilon"}},
		"no inner size":            {"llama.feed_forward_length", nil, []string{"llama.feed_forward_length"}},
		"a word for a number":      {"llama.block_count", "two", []string{"llama.block_count is two"}},
		"a negative count":         {"llama.block_count", int32(-1), []string{"llama.block_count is -1"}},
		"layers that differ":       {"llama.attention.head_count_kv", []uint32{2, 1}, []string{"head_count_kv is 2 in layer 0 and 1 in layer 1"}},
		"an empty list":            {"llama.attention.head_count_kv", []uint32{}, []string{"head_count_kv is an empty list"}},
		"half a rotation":          {"llama.rope.dimension_count", uint32(8), []string{"rope.dimension_count is 8 of a head of 16"}},
		"two widths of heads":      {"llama.attention.value_length", uint32(8), []string{"key_length is 16 and value_length 8"}},
		"a key nobody knows":       {"llama.attention.new_trick", float32(2), []string{"key llama.attention.new_trick is not known"}},
		"a list nobody knows":      {"llama.tricks", []uint32{1}, []string{"key llama.tricks, a list of UINT32, is not known"}},
		"softcapping":              {"llama.final_logit_softcapping", float32(30), []string{"final_logit_softcapping"}},
		"attention both ways":      {"llama.attention.causal", false, []string{"attention.causal"}},
		"a rope type nobody knows": {"llama.rope.scaling.type", "longrope", nil},
	} {
		x := llamaFixture(kernels.GGUFF16)
		if c.value == nil {
			delete(x.keys, c.key)
		} else {
			x.keys[c.key] = c.value
		}
		if name == "a rope type nobody knows" {
			x.keys["llama.rope.scaling.factor"] = float32(4)
			c.words = []string{`"longrope" is not known; known are none, linear and yarn`}
		}
		_, err := x.model(t)
		refused(t, name, err, c.words...)
	}
}

// Keys that do nothing, and lists that say the same of every layer, are no reason
// to refuse a file.
func TestMetadataThatAreHarmless(t *testing.T) {
	x := llamaFixture(kernels.GGUFF16)
	x.keys["llama.logit_scale"], x.keys["llama.use_parallel_residual"] = float32(0), false
	x.keys["llama.attention.head_count_kv"] = []uint32{2, 2}
	x.keys["llama.expert_count"], x.keys["llama.rope.scaling.type"] = uint32(0), "none"
	x.keys["general.quantized_by"], x.keys["tokenizer.ggml.model"] = "somebody", "gpt2"
	if m, err := x.model(t); err != nil || m.Topology.Config.KVHeads != 2 {
		t.Errorf("%v", err)
	}
}

func TestTensorsThatAreRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		change func(*fixture)
		words  []string
	}{
		"an unknown tensor":  {func(x *fixture) { x.add(rng, "blk.0.attn_gate.weight", kernels.GGUFF32, 4) }, []string{`"blk.0.attn_gate.weight"`, "is not known"}},
		"a scale of nothing": {func(x *fixture) { x.add(rng, "blk.0.attn_gate.scale", kernels.GGUFF32, 1) }, []string{`"blk.0.attn_gate.scale"`, "without its weight"}},
		"scales of rows":     {func(x *fixture) { x.add(rng, "blk.0.attn_q.scale", kernels.GGUFF32, 64) }, []string{`"blk.0.attn_q.scale"`, "64 values"}},
		"a scale in F16":     {func(x *fixture) { x.add(rng, "blk.0.attn_q.scale", kernels.GGUFF16, 1) }, []string{`"blk.0.attn_q.scale"`, "F16"}},
		"a scale below 0": {func(x *fixture) {
			x.add(rng, "blk.0.attn_q.scale", kernels.GGUFF32, 1)
			x.tensors[len(x.tensors)-1].data = []byte{0, 0, 0x80, 0xBF}
		}, []string{`"blk.0.attn_q.scale"`, "is -1"}},
		"three heads in qkv": {func(x *fixture) { x.add(rng, "blk.0.attn_qkv.weight", kernels.GGUFF32, 68, 64) }, []string{`"blk.0.attn_qkv.weight"`, "4 heads and twice 2"}},
		"outside of layers":  {func(x *fixture) { x.add(rng, "position_embd.weight", kernels.GGUFF32, 4, 4) }, []string{`"position_embd.weight"`}},
		"a number with 0":    {func(x *fixture) { x.add(rng, "blk.00.attn_q.weight", kernels.GGUFF32, 4, 4) }, []string{`"blk.00.attn_q.weight"`}},
		"no embedding":       {func(x *fixture) { x.tensors = x.tensors[1:] }, []string{"token_embd.weight"}},
		"odd heads": {func(x *fixture) {
			x.keys["llama.attention.head_count"] = uint32(3)
			x.keys["llama.attention.head_count_kv"] = uint32(3)
			x.keys["llama.attention.key_length"] = uint32(16)
		}, []string{"blk.0.attn_", "3 heads of even width"}},
		"half of kv_b":             {func(x *fixture) { x.add(rng, "blk.0.attn_k_b.weight", kernels.GGUFF32, 2, 2, 2) }, []string{"blk.0.attn_k_b.weight", "without attn_v_b"}},
		"the other half":           {func(x *fixture) { x.add(rng, "blk.0.attn_v_b.weight", kernels.GGUFF32, 2, 2, 2) }, []string{"blk.0.attn_v_b.weight", "without attn_k_b"}},
		"experts of none":          {func(x *fixture) { x.add(rng, "blk.0.ffn_gate_exps.weight", kernels.GGUFF32, 2, 4, 4) }, []string{"blk.0.ffn_gate_exps.weight", "a stack of 0 experts"}},
		"integers":                 {func(x *fixture) { x.add(rng, "blk.0.attn_q.bias", kernels.GGUFI32, 64) }, []string{"blk.0.attn_q.bias", "I32"}},
		"a type without a decoder": {func(x *fixture) { x.add(rng, "output.weight", 9, 1, 256) }, []string{"output.weight", "type Q8_1 (9) has no decoder"}},
		"four dimensions":          {func(x *fixture) { x.add(rng, "output.weight", kernels.GGUFF32, 1, 2, 2, 2) }, []string{"output.weight", "a matrix or a vector"}},
	} {
		x := llamaFixture(kernels.GGUFF16)
		c.change(x)
		_, err := x.model(t)
		refused(t, name, err, c.words...)
	}
}

// Experts stacked in one tensor, and one tensor each as files had them before,
// are the same model.
func TestExpertsStackedAndApart(t *testing.T) {
	var names [2][]string
	for apart := range 2 {
		rng := rand.New(rand.NewPCG(3, 4))
		x := llamaFixture(kernels.GGUFF16)
		x.keys["llama.expert_count"], x.keys["llama.expert_used_count"] = uint32(2), uint32(1)
		x.tensors = slices.DeleteFunc(x.tensors, func(f fixtureTensor) bool {
			return strings.Contains(f.name, "ffn_") && !strings.Contains(f.name, "norm")
		})
		x.add(rng, "blk.0.ffn_gate_inp.weight", kernels.GGUFF32, 2, 64)
		for _, part := range []string{"gate", "up", "down"} {
			shape := []int{32, 64}
			if part == "down" {
				shape = []int{64, 32}
			}
			if apart == 0 {
				x.add(rng, "blk.0.ffn_"+part+"_exps.weight", kernels.GGUFQ8_0, append([]int{2}, shape...)...)
				continue
			}
			for _, e := range []string{"0", "1"} {
				x.add(rng, "blk.0.ffn_"+part+"."+e+".weight", kernels.GGUFQ8_0, shape...)
			}
		}
		m, err := x.model(t)
		if err != nil {
			t.Fatal(err)
		}
		if m.Topology.Family != "mixtral" || m.Topology.Experts != 2 || m.Topology.ExpertMatrices != 6 {
			t.Errorf("%s", m.Topology.Summary)
		}
		for i := range m.Weights {
			names[apart] = append(names[apart], m.Weights[i].Name)
		}
	}
	slices.Sort(names[0])
	slices.Sort(names[1])
	if !slices.Equal(names[0], names[1]) || !slices.Contains(names[0], "model.layers.0.block_sparse_moe.experts.1.w2.weight") {
		t.Errorf("%q\n%q", names[0], names[1])
	}
}

func FuzzModel(f *testing.F) {
	whole := llamaFixture(kernels.GGUFQ8_0).bytes()
	f.Add(whole)
	for _, n := range []int{0, 3, 24, 100, 400, 1000, len(whole) - 1} {
		f.Add(whole[:n])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if path := writeFile(t, b); len(b) < 1<<20 {
			m, err := OpenModel(path)
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("%q is more than a line", err)
				}
				return
			}
			_, _ = m.Vocabulary()
			_, _ = m.Identity()
			_ = m.Close()
		}
	})
}
