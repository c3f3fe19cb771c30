package plan

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
	"quantscope/quant/topology/topologytest"
)

// qwenLayer is a layer of Qwen3-30B-A3B without its experts, in elements that a rank
// of r holds: of 32 heads of 128 over 2048 inputs, 4 of keys and values.
func qwenLayer(r int64) int64 {
	kv := max(1, 4/r)
	return 2*4096/r*2048 + 2*kv*128*2048 + 2*128 + 2*2048 + 128*2048
}

// The model card says 30.5 B parameters, and the files have 30,532,122,624. One
// token leaves 2·4·128 values in each of 48 layers, 96 KiB in bf16.
func TestQwen30(t *testing.T) {
	m := qwen30(t, false)
	const (
		vocab  = 151936 * 2048 // a multiple of 64 rows, so no padding
		expert = 3 * 768 * 2048
		total  = 30532122624
	)
	f := builtinOf(t, "moe-nvfp4", m)
	for _, ranks := range []int64{1, 4, 8} {
		p := resolved(t, m, f, Options{Ranks: int(ranks), KVTokens: 1000, Bandwidth: 1e12})
		if p.Err() != nil || p.Params != total || p.BytesBefore != 2*total {
			t.Fatalf("%d parameters, %d bytes: %v", p.Params, p.BytesBefore, p.Err())
		}
		rest := 2*vocab/ranks + 48*qwenLayer(ranks) + 2048
		before := 2 * (rest + 48*128*expert/ranks)
		// gate and up lose rows to ranks, down columns: 9/16 of a byte a weight, and a
		// global scale of 4 bytes a matrix on every rank
		packed := 48 * 128 * (expert/ranks*9/16 + 3*4)
		after := 2*rest + packed
		if p.Before.WeightsBytes != before || p.After.WeightsBytes != after {
			t.Errorf("%d ranks: %d → %d bytes, want %d → %d", ranks, p.Before.WeightsBytes, p.After.WeightsBytes, before, after)
		}
		if want := 48 * 2 * max(1, 4/ranks) * 128 * 2 * 1000; p.After.KVBytes != want || ranks == 1 && want != 96*1024*1000 {
			t.Errorf("%d ranks: %d bytes of keys and values, want %d", ranks, p.After.KVBytes, want)
		}
		// a row of the embedding, 8 of 128 experts, everything else whole
		reads := 2*2048 + 2*(vocab/ranks+48*qwenLayer(ranks)+2048) + packed*8/128 + p.After.KVBytes
		if d := p.DecodeAfter; d.BytesPerRank != reads || d.BytesPerToken != reads*ranks || math.Abs(d.TokensPerSec*float64(reads)/1e12-1) > 1e-12 {
			t.Errorf("%d ranks: a token reads %+v, want %d of each", ranks, d, reads)
		}
		if e := p.Experts; e.Expected != 48*128*3 || e.Targeted != e.Expected || len(e.Missing) > 0 {
			t.Errorf("%+v", e)
		}
	}
}

// Fused experts have the same weights, and so the same figures.
func TestQwen30Fused(t *testing.T) {
	single, fused := qwen30(t, false), qwen30(t, true)
	for _, name := range []string{"moe-nvfp4", "mixed-nvfp4-fp8", "int4-g128"} {
		o := Options{Ranks: 2, KVTokens: 4096, Layout: "compressed-tensors"}
		a, b := resolved(t, single, builtinOf(t, name, single), o), resolved(t, fused, builtinOf(t, name, fused), o)
		if b.Err() != nil || b.Experts.Fused != 48*128*3 {
			t.Errorf("%s: %v, %+v", name, b.Err(), b.Experts)
		}
		if a.BytesAfter != b.BytesAfter || a.After.WeightsBytes != b.After.WeightsBytes || a.DecodeAfter != b.DecodeAfter || a.Before.WeightsBytes != b.Before.WeightsBytes || a.Targeted != b.Targeted {
			t.Errorf("%s: %+v %+v, fused %+v %+v", name, a.After, a.DecodeAfter, b.After, b.DecodeAfter)
		}
	}
}

// 46 layers with 2·8 heads of 128 keep 188,416 bytes of a token. The class for text
// leaves the MTP layer to another: a layer of experts, embedding, head, and what joins
// them.
func TestGLMAir(t *testing.T) {
	m := glmAir(t)
	const (
		hidden  = 4096
		vocab   = 151552 * hidden
		layer   = 12288*hidden + 12288 + 2*(1024*hidden+1024) + hidden*12288 + 2*hidden
		experts = 128 * 3 * 1408 * hidden
		moe     = layer + experts + 3*1408*hidden + 128*hidden
		main    = 2*vocab + layer + 3*10944*hidden + 45*moe + hidden
		mtp     = 2*vocab + moe + hidden*2*hidden + 3*hidden
		biases  = 4 * 128 // f32 of a layer
	)
	f := builtinOf(t, "moe-nvfp4", m)
	p := resolved(t, m, f, Options{KVTokens: 1})
	if p.Err() != nil || p.Before.KVBytes != 188416 {
		t.Fatalf("%d: %v", p.Before.KVBytes, p.Err())
	}
	if want := int64(2*main + 45*biases); p.Before.WeightsBytes != want || p.BytesBefore != want+2*mtp+biases {
		t.Errorf("%d of %d bytes, want %d of %d", p.Before.WeightsBytes, p.BytesBefore, want, want+2*mtp+biases)
	}
	if len(p.Before.LeftOut) != 1 || p.Before.LeftOut[0].Name != "MTP layers" || p.Before.LeftOut[0].Bytes != 2*mtp+biases {
		t.Errorf("left out %+v", p.Before.LeftOut)
	}
	draft := resolved(t, m, f, Options{Loader: "Glm4MoeMTPModel"})
	if want := int64(2*mtp + biases + 4*vocab); draft.Before.WeightsBytes != want {
		t.Errorf("a draft class holds %d, want %d", draft.Before.WeightsBytes, want)
	}
	everything := resolved(t, m, f, Options{Loader: "all"})
	if everything.Before.WeightsBytes != p.BytesBefore || len(everything.Before.LeftOut) > 0 {
		t.Errorf("%+v", everything.Before)
	}
	// 1408 inputs of down are 88 blocks of 16: over 16 ranks 5.5 each
	if w := resolved(t, m, f, Options{Ranks: 16}).found(RankBlocks); w == nil || !strings.Contains(w.Message, "down_proj") {
		t.Errorf("%+v", w)
	}
	if w := resolved(t, m, f, Options{Ranks: 5}).found(RankHeads); w == nil {
		t.Error("96 heads over 5 ranks")
	}
}

// The paper says 671 B parameters, and 61·(512+64)·2 = 70,272 bytes of a token; every
// rank keeps them all.
func TestDeepSeekV3(t *testing.T) {
	m := deepSeekV3(t)
	p := resolved(t, m, builtinOf(t, "mixed-nvfp4-fp8", m), Options{KVTokens: 1000, KVFormat: "bf16", Ranks: 8})
	if p.Err() != nil || p.Before.KVBytes != 70272*1000 {
		t.Fatalf("%d: %v", p.Before.KVBytes, p.Err())
	}
	experts := builtinOf(t, "moe-nvfp4", m)
	if half := resolved(t, m, experts, Options{KVTokens: 1000, KVFormat: "fp8"}); half.Before.KVBytes != 35136*1000 {
		t.Errorf("fp8: %d", half.Before.KVBytes)
	}
	const h = 7168
	for _, ranks := range []int64{1, 16} {
		attention := 1536*h + 128*192*1536/ranks + 576*h + 128*256*512/ranks + h*128*128/ranks + 1536 + 512 + 2*h
		dense, expert := 3*18432*h/ranks, 3*2048*h/ranks
		want := 2*(2*129280*h/ranks+61*attention+3*dense+58*(257*expert+256*h)+h) + 58*4*256
		if got := resolved(t, m, experts, Options{Ranks: int(ranks)}).Before.WeightsBytes; got != want {
			t.Errorf("%d ranks: %d, want %d", ranks, got, want)
		}
		if ranks == 1 && (want/2)/1e9 != 671 {
			t.Errorf("%d parameters", want/2)
		}
	}
	// 4-bit experts of the first 50 MoE layers, FP8 in 8 more
	if g := p.Groups; g[0].Matrices != 3*3+50*257*3 || g[1].Matrices != 8*257*3+61*5+1 {
		t.Errorf("%d and %d matrices", g[0].Matrices, g[1].Matrices)
	}
}

// attention is a model of so many layers with one attention each.
func attention(t testing.TB, layers int, config string, names func(l int) shapes) *Plan {
	t.Helper()
	var s shapes
	s.add("model.embed_tokens.weight", 100, 64)
	for l := range layers {
		s = append(s, names(l)...)
	}
	m := s.model(t, config)
	return resolved(t, m, parse(t, "groups:\n  - {scheme: fp8, targets: ['*_proj']}\n"), Options{KVTokens: 1000})
}

// An indexer of sparse attention keeps a key of FP8 values and an f32 scale for each
// 128 of them, beside the latent: with 128 values 132 bytes, on every rank.
func TestIndexerKeys(t *testing.T) {
	const sizes = `{"model_type":"deepseek_v32","hidden_size":64,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":4,"tie_word_embeddings":true,"q_lora_rank":32,"kv_lora_rank":48,"qk_rope_head_dim":16,"qk_nope_head_dim":16,"v_head_dim":16,"index_head_dim":`
	names := func(l int) shapes {
		var s shapes
		p := "model.layers." + strconv.Itoa(l) + ".self_attn."
		s.add(p+"q_a_proj.weight", 32, 64)
		s.add(p+"q_b_proj.weight", 128, 32)
		s.add(p+"kv_a_proj_with_mqa.weight", 64, 64)
		s.add(p+"kv_b_proj.weight", 128, 48)
		if l > 0 {
			s.add(p+"indexer.wk.weight", 128, 64)
		}
		return s
	}
	for dim, key := range map[string]int64{"128": 132, "129": 137, "64": 68, "0": 0} {
		p := attention(t, 3, sizes+dim+"}", names)
		if want := (3*(48+16)*2 + 2*key) * 1000; p.Before.KVBytes != want {
			t.Errorf("%s values: %d bytes, want %d", dim, p.Before.KVBytes, want)
		}
	}
}

// Layers that see a window keep no more than it, of one sequence; those with linear
// attention keep no keys.
func TestWindows(t *testing.T) {
	const sizes = `{"hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"tie_word_embeddings":true,`
	const base = sizes + `"model_type":"qwen3",`
	kv := func(l int) shapes {
		var s shapes
		p := "model.layers." + string(rune('0'+l)) + ".self_attn."
		s.add(p+"q_proj.weight", 64, 64)
		s.add(p+"k_proj.weight", 32, 64)
		s.add(p+"v_proj.weight", 32, 64)
		return s
	}
	const layer = 2 * 32 * 2 // bytes of a token
	for _, c := range []struct {
		config string
		tokens int64 // of all four layers
	}{
		{`"sliding_window":null}`, 4000},
		{`"sliding_window":100}`, 4000},
		{`"sliding_window":100,"use_sliding_window":false}`, 4000},
		{`"sliding_window":100,"use_sliding_window":true,"max_window_layers":3}`, 3100},
		{`"sliding_window":100,"use_sliding_window":true,"sliding_window_pattern":3}`, 1300},
		{`"sliding_window":100,"use_sliding_window":true,"layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"]}`, 2200},
		{`"sliding_window":5000}`, 4000},
		{`"num_kv_shared_layers":1}`, 3000},
	} {
		if p := attention(t, 4, base+c.config, kv); p.Before.KVBytes != c.tokens*layer {
			t.Errorf("%s: %d tokens, want %d", c.config, p.Before.KVBytes/layer, c.tokens)
		}
	}
	// what a config leaves out is what transformers takes for its family
	for _, c := range []struct {
		layers int
		config string
		tokens int64
	}{
		{4, `"model_type":"mistral","sliding_window":100`, 400},
		{4, `"model_type":"qwen2_moe","sliding_window":100,"max_window_layers":2`, 4000},
		{7, `"model_type":"gemma3_text","sliding_window":100`, 1600},
		{7, `"model_type":"gemma3_text","sliding_window":100,"sliding_window_pattern":2`, 3400},
		{6, `"model_type":"gemma3n_text","sliding_window":100`, 1500},
		{5, `"model_type":"cohere2","sliding_window":100`, 1400},
		{5, `"model_type":"olmo3","sliding_window":100`, 1400},
		{5, `"model_type":"exaone4","sliding_window":100,"sliding_window_pattern":"LLG"`, 1400},
		{5, `"model_type":"gpt_oss","sliding_window":100`, 2300},
		{5, `"model_type":"gemma2","sliding_window":100`, 2300},
	} {
		config := strings.Replace(sizes, `"num_hidden_layers":4`, `"num_hidden_layers":`+strconv.Itoa(c.layers), 1) + c.config + "}"
		if p := attention(t, c.layers, config, kv); p.Before.KVBytes != c.tokens*layer {
			t.Errorf("%s: %d tokens, want %d", c.config, p.Before.KVBytes/layer, c.tokens)
		}
	}
	gated := func(l int) shapes {
		if l == 3 {
			return kv(l)
		}
		var s shapes
		p := "model.layers." + string(rune('0'+l)) + ".linear_attn."
		s.add(p+"in_proj_qkvz.weight", 192, 64)
		s.add(p+"conv1d.weight", 128, 1, 4)
		s.add(p+"out_proj.weight", 64, 64)
		return s
	}
	p := attention(t, 4, base+`"linear_num_value_heads":4,"linear_num_key_heads":2,"linear_key_head_dim":16,"linear_value_head_dim":16,"linear_conv_kernel_dim":4}`, gated)
	// 4·16·16 values of 4 bytes, and 3 tokens of 2·2·16 + 4·16 channels of 2
	if want := "keep 4864 bytes a layer and sequence"; p.Before.KVBytes != 1000*layer || !slices.ContainsFunc(p.Before.Notes, func(n string) bool { return strings.Contains(n, want) }) {
		t.Errorf("%d bytes, notes %v", p.Before.KVBytes, p.Before.Notes)
	}
}

// A head that is tied is read as the embedding, whole; one that is stored all the
// same is left out. A head that is not there is not counted, whatever the config says.
func TestHeads(t *testing.T) {
	build := func(head bool, config string) *Plan {
		var s shapes
		s.add("model.embed_tokens.weight", 100, 64)
		s.add("model.layers.0.self_attn.q_proj.weight", 64, 64)
		if head {
			s.add("lm_head.weight", 100, 64)
		}
		m := s.model(t, `{"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","num_hidden_layers":1,`+config+`}`)
		return resolved(t, m, parse(t, "groups:\n  - {scheme: fp8, targets: ['*.q_proj']}\n"), Options{Ranks: 2})
	}
	const (
		vocab = 128 * 64 * 2 / 2 // padded to 128 rows, on one of two ranks
		q     = 64 * 64 * 2 / 2
		row   = 64 * 2
	)
	for _, c := range []struct {
		name           string
		head           bool
		config         string
		weights, reads int64
		left           int
	}{
		{"tied", false, `"tie_word_embeddings":true`, vocab + q, row + vocab + q, 0},
		{"tied and stored", true, `"tie_word_embeddings":true`, vocab + q, row + vocab + q, 1},
		{"its own", true, `"tie_word_embeddings":false`, 2*vocab + q, row + vocab + q, 0},
		{"missing", false, `"tie_word_embeddings":false`, vocab + q, row + q, 0},
	} {
		p := build(c.head, c.config)
		if p.Before.WeightsBytes != c.weights || p.DecodeBefore.BytesPerRank != c.reads || len(p.Before.LeftOut) != c.left {
			t.Errorf("%s: %+v reads %+v, want %d and %d", c.name, p.Before, p.DecodeBefore, c.weights, c.reads)
		}
	}
	if f := build(false, `"tie_word_embeddings":false`).found(OfCheckpoint); f == nil || !strings.Contains(f.Message, "lm_head.weight is missing") {
		t.Errorf("%+v", f)
	}
}

// The class for text of a checkpoint with a tower does not hold the tower.
func TestTower(t *testing.T) {
	var s shapes
	s.add("model.visual.blocks.0.attn.qkv.weight", 96, 32)
	s.add("model.language_model.embed_tokens.weight", 64, 64)
	s.add("model.language_model.layers.0.self_attn.q_proj.weight", 64, 64)
	s.add("mtp.fc.weight", 64, 128)
	s.add("mtp.layers.0.self_attn.q_proj.weight", 64, 64)
	s.add("lm_head.weight", 64, 64)
	m := s.model(t, `{"architectures":["Qwen3_5ForConditionalGeneration"],"model_type":"qwen3_5","vision_config":{},"text_config":{"model_type":"qwen3_5_text","hidden_size":64,"num_hidden_layers":1,"tie_word_embeddings":false}}`)
	f := parse(t, "groups:\n  - {scheme: fp8, targets: ['re:.*layers.*q_proj']}\nignore: ['re:^mtp.*', 're:^model\\.visual.*']\n")
	whole, text := resolved(t, m, f, Options{}), resolved(t, m, f, Options{Loader: "Qwen3_5ForCausalLM"})
	if d := whole.Before.WeightsBytes - text.Before.WeightsBytes; d != 96*32*2 {
		t.Errorf("%d bytes of a tower", d)
	}
	var names []string
	for _, part := range text.After.LeftOut {
		names = append(names, part.Name)
	}
	if !slices.Equal(names, []string{"vision and audio towers", "MTP layers"}) {
		t.Errorf("left out %v", names)
	}
	if whole.Err() != nil || whole.Targeted != 1 || whole.DecodeBefore != text.DecodeBefore {
		t.Errorf("%+v", whole.Findings)
	}
}

// Whatever the checkpoint: one rank holds what is stored but for what is left out, and
// rows that vocabularies are padded with; more ranks hold less each and more
// together, and what a class leaves out does not depend on them.
func TestRanksOfFamilies(t *testing.T) {
	for _, fixture := range topologyFixtures(t) {
		m := topologytest.Model(t, fixture)
		padding := int64(0)
		for i := range m.Tensors {
			if r := &m.Roles[i]; cutOf(r) == byVocab && r.Param == "weight" && len(m.Tensors[i].Shape) == 2 {
				rows := m.Tensors[i].Shape[0]
				padding += (divided(rows, vocabUnit)*vocabUnit - rows) * m.Tensors[i].Shape[1] * elementBytes(m.Tensors[i].DType)
			}
		}
		f := parse(t, "groups:\n  - {scheme: nvfp4, targets: ['*proj*', '*.w1', '*.w2', '*.w3', '*.weight']}\n")
		for _, loader := range []string{"all", "", "XForCausalLM", "XMTPModel", "XModel"} {
			one, err := Resolve(m, f, Options{Loader: loader, KVTokens: 100})
			if errors.Is(err, recipe.ErrNothing) {
				break // packed
			}
			if err != nil {
				t.Fatalf("%s: %v", fixture, err)
			}
			left := int64(0)
			for _, part := range one.Before.LeftOut {
				left += part.Bytes
			}
			got := one.Before.WeightsBytes + left - one.BytesBefore
			if got < 0 || got > padding || loader == "all" && got != padding {
				t.Errorf("%s as %q: %d and %d left out of %d, padding %d", fixture, loader, one.Before.WeightsBytes, left, one.BytesBefore, padding)
			}
			for _, ranks := range []int64{2, 3, 8} {
				p := resolved(t, m, f, Options{Loader: loader, KVTokens: 100, Ranks: int(ranks)})
				for _, pair := range [][2]Memory{{p.Before, one.Before}, {p.After, one.After}} {
					many, single := pair[0], pair[1]
					if many.WeightsBytes > single.WeightsBytes || many.WeightsBytes*ranks < single.WeightsBytes || many.KVBytes > single.KVBytes || many.KVBytes*ranks < single.KVBytes {
						t.Errorf("%s as %q: %d ranks hold %+v each, one %+v", fixture, loader, ranks, many, single)
					}
					if !slices.Equal(many.LeftOut, single.LeftOut) {
						t.Errorf("%s: left out %+v and %+v", fixture, many.LeftOut, single.LeftOut)
					}
				}
			}
		}
	}
}

// Packed keys and values are as many as the config says, by the side that no packing
// shows, and ranks that are more than heads hold one each.
func TestPackedHeads(t *testing.T) {
	var s shapes
	p := "model.layers.0.self_attn."
	for _, n := range []string{"k", "v"} {
		s = append(s, topology.Named{Name: p + n + "_proj.qweight", DType: "I32", Shape: []int64{64 / 8, 32}})
	}
	s.add("model.layers.0.mlp.up_proj.weight", 16, 64)
	m := s.model(t, `{"model_type":"qwen3","hidden_size":64,"num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"tie_word_embeddings":true,"quantization_config":{"quant_method":"gptq","bits":4,"group_size":64}}`)
	f := parse(t, "groups:\n  - {scheme: nvfp4, targets: ['*.up_proj']}\n")
	const packed, up = 2 * 8 * 32 * 4, 16 * 64 * 2
	for ranks, share := range map[int64]int64{1: 1, 2: 2, 4: 2} {
		got := resolved(t, m, f, Options{KVTokens: 10, Ranks: int(ranks)}).Before
		if got.WeightsBytes != packed/share+up/ranks || got.KVBytes != 2*32*2*10/share {
			t.Errorf("%d ranks: %+v", ranks, got)
		}
	}
}
