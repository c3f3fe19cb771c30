package gguf

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/kernels"
)

// turns puts value heads in turns as llama.cpp's converter does: reshaped by key
// heads, value heads of one and their rows, the first two change places.
func turns[T any](x []T, keys, per, width int) (out []T) {
	for j := range per {
		for k := range keys {
			out = append(out, x[(k*per+j)*width:][:width]...)
		}
	}
	return out
}

func TestValueHeadsInTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, keys, per, width := rapid.IntRange(0, 5).Draw(t, "first"), rapid.IntRange(1, 4).Draw(t, "keys"), rapid.IntRange(1, 4).Draw(t, "per"), rapid.IntRange(1, 5).Draw(t, "width")
		x := &tiles{first: first, keys: keys, per: per, width: width}
		own := make([]int, x.all())
		for i := range own {
			own[i] = i
		}
		file := append(slices.Clone(own[:first]), turns(own[first:], keys, per, width)...)
		for r := range own {
			if got := file[x.stored(r)]; got != r {
				t.Fatalf("row %d stands at %d, where row %d is", r, x.stored(r), got)
			}
			n := rapid.IntRange(1, len(own)-r).Draw(t, "n")
			at, length := x.run(r, n)
			if length < 1 || length > n || !slices.Equal(file[at:at+length], own[r:r+length]) {
				t.Fatalf("%d rows from %d on: %d of them at %d", n, r, length, at)
			}
		}
	})
}

// deltaFixture is a Qwen3.5 of one layer with linear attention: hidden 32, 2 key heads
// with 3 value heads each, of 128 channels, 4 taps; matrices in Q8_0, but the output
// projection, whose blocks hold two heads, in Q4_K.
func deltaFixture() *fixture { return deltaFixtureOf(128, kernels.GGUFQ4_K) }

// deltaFixtureOf has heads of another width and another output projection.
func deltaFixtureOf(dim int, out kernels.GGUFType) *fixture {
	rng := rand.New(rand.NewPCG(11, 5))
	x := &fixture{keys: map[string]any{
		"general.architecture": "qwen35", "qwen35.block_count": uint32(1), "qwen35.context_length": uint32(64), "qwen35.embedding_length": uint32(32), "qwen35.feed_forward_length": uint32(32),
		"qwen35.attention.head_count": uint32(2), "qwen35.attention.head_count_kv": uint32(1), "qwen35.attention.key_length": uint32(16), "qwen35.attention.value_length": uint32(16),
		"qwen35.attention.layer_norm_rms_epsilon": float32(1e-6), "qwen35.rope.dimension_count": uint32(8), "qwen35.rope.dimension_sections": []int32{2, 1, 1, 0},
		"qwen35.ssm.conv_kernel": uint32(4), "qwen35.ssm.state_size": uint32(dim), "qwen35.ssm.group_count": uint32(2), "qwen35.ssm.time_step_rank": uint32(6), "qwen35.ssm.inner_size": uint32(6 * dim),
	}}
	f32, q8 := kernels.GGUFF32, kernels.GGUFQ8_0
	x.add(rng, "token_embd.weight", q8, 8, 32).add(rng, "output_norm.weight", f32, 32)
	for _, s := range []struct {
		name  string
		kind  kernels.GGUFType
		shape []int
	}{
		{"attn_norm.weight", f32, []int{32}}, {"post_attention_norm.weight", f32, []int{32}}, {"ssm_norm.weight", f32, []int{dim}}, {"ssm_a", f32, []int{6}}, {"ssm_dt.bias", f32, []int{6}},
		{"ssm_alpha.weight", q8, []int{6, 32}}, {"ssm_beta.weight", q8, []int{6, 32}}, {"attn_qkv.weight", q8, []int{10 * dim, 32}}, {"attn_gate.weight", q8, []int{6 * dim, 32}},
		{"ssm_conv1d.weight", f32, []int{10 * dim, 4}}, {"ssm_out.weight", out, []int{32, 6 * dim}},
		{"ffn_gate.weight", q8, []int{32, 32}}, {"ffn_up.weight", q8, []int{32, 32}}, {"ffn_down.weight", q8, []int{32, 32}},
	} {
		x.add(rng, "blk.0."+s.name, s.kind, s.shape...)
	}
	for i := range x.tensors {
		if d := x.tensors[i].data; x.tensors[i].name == "blk.0.ssm_a" { // negative
			for k := 3; k < len(d); k += 4 {
				d[k] |= 0x80
			}
		}
	}
	return x
}

// Quantized value heads come back to their places, rows, columns and values, also where
// a head begins within a block and ends in the next.
func TestValueHeadsOfAQuantizedFile(t *testing.T) {
	valueHeads(t, 128, deltaFixture())
	valueHeads(t, 48, deltaFixtureOf(48, kernels.GGUFQ8_0))
}

func valueHeads(t *testing.T, dim int, x *fixture) {
	t.Helper()
	m, err := x.model(t)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Weights {
		w := &m.Weights[i]
		stored := dequantized(t, m, m.Stored(w))
		var got []float32
		if w.Vector {
			got = valuesOf(t, m, w)
		} else {
			got = expanded(t, m, w)
		}
		module := strings.TrimPrefix(m.Stored(w), "blk.0.")
		switch module {
		case "attn_qkv.weight":
			got = append(slices.Clone(got[:4*dim*32]), turns(got[4*dim*32:], 2, 3, dim*32)...)
		case "ssm_conv1d.weight":
			got = append(slices.Clone(got[:4*dim*4]), turns(got[4*dim*4:], 2, 3, dim*4)...)
		case "attn_gate.weight":
			got = turns(got, 2, 3, dim*32)
		case "ssm_alpha.weight", "ssm_beta.weight":
			got = turns(got, 2, 3, 32)
		case "ssm_dt.bias":
			got = turns(got, 2, 3, 1)
		case "ssm_out.weight":
			for r := range 32 {
				copy(got[r*6*dim:], turns(slices.Clone(got[r*6*dim:][:6*dim]), 2, 3, dim))
			}
		case "ssm_a":
			continue // TestFamiliesByRole has its values
		case "attn_norm.weight", "post_attention_norm.weight", "output_norm.weight":
			for k := range got {
				stored[k]--
			}
		}
		if !slices.Equal(got, stored) {
			t.Errorf("%s, as %s: has other values", m.Stored(w), w.Name)
		}
	}
}

// What the file says of linear attention and what its tensors are must agree.
func TestLinearAttentionThatIsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	without := func(x *fixture, name string) *fixture {
		x.tensors = slices.DeleteFunc(x.tensors, func(t fixtureTensor) bool { return t.name == "blk.0."+name })
		return x
	}
	for name, c := range map[string]struct {
		change func(x *fixture)
		words  []string
	}{
		"odd heads":        {func(x *fixture) { x.keys["qwen35.ssm.time_step_rank"] = uint32(5) }, []string{"inner_size is 768 of 5 value heads"}},
		"no multiple":      {func(x *fixture) { x.keys["qwen35.ssm.group_count"] = uint32(4) }, []string{"time_step_rank", "is 6, and no multiple of 4 key heads"}},
		"no width":         {func(x *fixture) { delete(x.keys, "qwen35.ssm.state_size") }, []string{"qwen35.ssm.state_size"}},
		"other width":      {func(x *fixture) { x.keys["qwen35.ssm.state_size"] = uint32(64) }, []string{"has shape"}},
		"few flags":        {func(x *fixture) { x.keys["qwen35.attention.recurrent_layers"] = []bool{} }, []string{"recurrent_layers has 0 values, want 1"}},
		"flags of numbers": {func(x *fixture) { x.keys["qwen35.attention.recurrent_layers"] = uint32(1) }, []string{"recurrent_layers is no list of truths"}},
		"MTP alone":        {func(x *fixture) { x.keys["qwen35.nextn_predict_layers"] = uint32(1) }, []string{"nextn_predict_layers is 1 of 1 blocks"}},
		"three sections":   {func(x *fixture) { x.keys["qwen35.rope.dimension_sections"] = []int32{2, 1, 1} }, []string{"dimension_sections has 3 values, want 4"}},
		"short rows": {func(x *fixture) {
			without(x, "ssm_out.weight").add(rng, "blk.0.ssm_out.weight", kernels.GGUFQ8_0, 32, 512)
		}, []string{`"blk.0.ssm_out.weight"`, "[32 512]", "value heads"}},
		"few rates": {func(x *fixture) { without(x, "ssm_a").add(rng, "blk.0.ssm_a", kernels.GGUFF32, 4) }, []string{`"blk.0.ssm_a"`, "[4]"}},
		"few taps": {func(x *fixture) {
			without(x, "ssm_conv1d.weight").add(rng, "blk.0.ssm_conv1d.weight", kernels.GGUFF32, 1280, 3)
		}, []string{`"blk.0.ssm_conv1d.weight"`, "[1280, 4]"}},
		"a vector for a matrix": {func(x *fixture) {
			without(x, "ssm_alpha.weight").add(rng, "blk.0.ssm_alpha.weight", kernels.GGUFF32, 6)
		}, []string{`"blk.0.ssm_alpha.weight"`}},
	} {
		x := deltaFixture()
		c.change(x)
		_, err := x.model(t)
		refused(t, name, err, c.words...)
	}
	x := deltaFixture()
	for i := range x.tensors {
		if x.tensors[i].name == "blk.0.ssm_a" {
			x.tensors[i].data[3] &= 0x7f // above 0
		}
	}
	m, err := x.model(t)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Weights {
		if w := &m.Weights[i]; m.Stored(w) == "blk.0.ssm_a" {
			_, err = m.ReadVector(t.Context(), w)
			refused(t, "a state that grows", err, `"blk.0.ssm_a"`, "value 0 is", "rate of decay")
		}
	}
}

// A qkvz is made of two tensors, or of neither.
func TestHalfOfAJoinedMatrix(t *testing.T) {
	for _, missing := range []string{"attn_gate", "attn_qkv"} {
		f := open(t, filepath.Join("testdata", "families", "qwen3_next.gguf"))
		delete(f.byName, "blk.1."+missing+".weight")
		f.Tensors = slices.DeleteFunc(f.Tensors, func(x Tensor) bool { return x.Name == "blk.1."+missing+".weight" })
		clear(f.byName)
		for i := range f.Tensors {
			f.byName[f.Tensors[i].Name] = i
		}
		if _, err := NewModel(f); err == nil || !strings.Contains(err.Error(), "stands without "+missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}
