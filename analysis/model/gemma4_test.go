package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
)

// TestLentParties: sources that part at the layer that lends keys and values, at one
// that only uses them, between the two or at the embeddings have in one pass, whatever
// they have in common, the bits of each alone, and so has a pass that is used again.
func TestLentParties(t *testing.T) {
	for _, name := range []string{"gemma4_ple", "gemma4_moe"} {
		spec := opened(t, name).spec
		ref := newRandom(spec, 1)
		last := len(spec.Layers) - 1
		sources := []*random{
			ref, ref.with(0, 7), ref.with(1, 7), ref.with(last, 9), ref.with(-1, 5), ref.with(2, 4), ref.with(0, 7).with(last, 9),
			ref.with(-1, 5).with(last, 9), ref, newRandom(spec, 2),
		}
		chunks := texts(spec, 2, 50, 20, 30)
		for _, bare := range []bool{false, true} {
			var list []Source
			for _, src := range sources {
				if bare {
					list = append(list, unforked{src, src})
				} else {
					list = append(list, src)
				}
			}
			pass := NewPass(spec, list, quick())
			for range 2 {
				out, err := pass.Run(t.Context(), chunks)
				must(t, err)
				for c, src := range sources {
					sameBits(t, fmt.Sprintf("%s: candidate %d", name, c), out[c].X, hiddenOf(t, spec, src, chunks, quick()))
				}
			}
			if n := len(pass.lendings); name == "gemma4_ple" && (n < 2 || n > 2*len(sources)) {
				t.Errorf("%d of what was lent came back", n)
			}
			for _, l := range pass.lendings {
				if l.flows != 0 {
					t.Errorf("what came back is held by %d", l.flows)
				}
			}
		}
		for c, src := range sources {
			if live := src.shared.live.Load(); live != 0 {
				t.Errorf("%s: candidate %d keeps %d bytes of weights", name, c, live)
			}
		}
	}
}

// unforked is a source that cannot fork.
type unforked struct {
	Source
	Origins
}

// spoilt is a source with a row that is not finite in the table of the layers' own
// embeddings.
type spoilt struct {
	Source
	token int32
}

func (s spoilt) Rows(ctx context.Context, p Place, rows []int32, dst []float32) error {
	err := s.Source.Rows(ctx, p, rows, dst)
	for k, id := range rows {
		if width := len(dst) / len(rows); id == s.token && p == perLayerTable {
			dst[k*width] = float32(math.NaN()) // of layer 0
		}
	}
	return err
}

// TestLentDamage: keys of a lender that are not finite at some position stay within
// their chunk, and touch no earlier position in the layers that use them either.
func TestLentDamage(t *testing.T) {
	f := opened(t, "gemma4_ple")
	chunks := texts(f.spec, 4, 30, 30)
	chunks[0][20] = 5
	for k, id := range chunks[0][:20] {
		if id == 5 {
			chunks[0][k] = 6
		}
	}
	for k, id := range chunks[1] {
		if id == 5 {
			chunks[1][k] = 6
		}
	}
	want := hiddenOf(t, f.spec, f.source(), chunks, quick())
	var met []string
	o := quick()
	o.NonFinite = func(_, layer int, e *NonFiniteError) error {
		met = append(met, fmt.Sprint(layer, e.Chunk, e.Position))
		return nil
	}
	got := hiddenOf(t, f.spec, spoilt{f.source(), 5}, chunks, o)
	if !slices.Equal(met, []string{"0 0 20"}) {
		t.Errorf("met %v, want the output of layer 0, chunk 0, position 20", met)
	}
	h := f.spec.Hidden
	sameBits(t, "before it", got[:20*h], want[:20*h])
	sameBits(t, "another chunk", got[30*h:], want[30*h:])
}

// TestProportional: of a head of 32 channels, a quarter of which rotate, pairs
// (i, i+16) turn by θ^(−2i/32) for i below 4, and all others stay.
func TestProportional(t *testing.T) {
	r := opened(t, "gemma4_moe").spec.Layers[2].Attn.Rope
	if r.Dim != 32 || r.Turned != 4 || r.Theta != 1e6 {
		t.Fatalf("%+v", r)
	}
	for i, f := range r.Frequencies(1) {
		want := 0.0
		if i < 4 {
			want = []float64{1, 0.42169650342858224, 0.1778279410038923, 0.07498942093324558}[i] // 10^(−6·i/16)
		}
		if d := f - want; d > 1e-15 || d < -1e-15 {
			t.Errorf("pair %d turns by %g, want %g", i, f, want)
		}
	}
	v := make([]float32, 32)
	for i := range v {
		v[i] = float32(i + 1)
	}
	before := slices.Clone(v)
	r.rotate(v, r.anglesFrom(8, 0), 7)
	for i := range v {
		if turned := i%16 < 4; turned == (v[i] == before[i]) {
			t.Errorf("channel %d is %g, was %g", i, v[i], before[i])
		}
	}
}

// TestGemma4Spec reads what the golden configs say of layers.
func TestGemma4Spec(t *testing.T) {
	s := opened(t, "gemma4_ple").spec
	var got []string
	for i := range s.Layers {
		l := &s.Layers[i]
		got = append(got, fmt.Sprint(l.Attn.Dim, l.Attn.Window, l.Attn.Borrows, l.Attn.Lender, l.Attn.LendsTo, l.MLP.Inner))
	}
	want := []string{"16 10 false 0 2 32", "32 0 false 0 3 32", "16 10 true 0 0 64", "32 0 true 1 0 64"}
	if !slices.Equal(got, want) {
		t.Errorf("layers\n%q, want\n%q", got, want)
	}
	// Of a token: one head of 16+16 and one of 32+32 channels; those that borrow keep nothing.
	if n, _ := s.CacheBytes(true); n != 4*(32+64) {
		t.Errorf("a token takes %d bytes of a text's memory", n)
	}
	if a, outer := s.along(); a != 4*(32+64)+4*4*8 || outer != 4*8*64 {
		t.Errorf("%d bytes go along with a row, %d weights stand before the layers", a, outer)
	}
	if s.Softcap != 10 || s.EmbedScale != 8 || *s.PerLayer != (PerLayer{8, 128, GELUTanh}) {
		t.Errorf("%+v", s)
	}
	m := opened(t, "gemma4_moe").spec
	if l := &m.Layers[2]; !l.Attn.KeyIsValue || l.Attn.KVHeads != 1 || l.Attn.Scale != 1 || m.Layers[1].Attn.KeyIsValue || m.PerLayer != nil {
		t.Errorf("%+v", l)
	}
}

// TestGemma4Refused: what these configs may say and is not computed is refused by name.
func TestGemma4Refused(t *testing.T) {
	ropes := func(kind, key string, v any) func(map[string]any) {
		return func(c map[string]any) {
			all := maps.Clone(c["rope_parameters"].(map[string]any))
			of := maps.Clone(all[kind].(map[string]any))
			of[key], all[kind] = v, of
			c["rope_parameters"] = all
		}
	}
	const full, sliding = fullAttention, slidingAttention
	for _, c := range []struct {
		model string
		edit  func(map[string]any)
		want  string
	}{
		{"gemma4_ple", set("use_bidirectional_attention", "all"), "use_bidirectional_attention is all"},
		{"gemma4_ple", set("attn_logit_softcapping", 50.0), "attn_logit_softcapping is 50"},
		{"gemma4_ple", set("final_logit_softcapping", -1.0), "final_logit_softcapping is -1"},
		{"gemma4_ple", set("num_kv_shared_layers", 3), "no layer of type full_attention before them"},
		{"gemma4_ple", set("num_kv_shared_layers", 4), "num_kv_shared_layers is 4 of 4"},
		{"gemma4_ple", set("hidden_size_per_layer_input", 8.5), "hidden_size_per_layer_input is 8.5"},
		{"gemma4_ple", set("vocab_size_per_layer_input", 127), "vocab_size_per_layer_input is 127"},
		{"gemma4_ple", set("per_layer_config", map[string]any{"3": map[string]any{"head_dim": 64}, "1": map[string]any{"head_dim": 32}}), "layer 3 uses keys and values of layer 1"},
		{"gemma4_moe", set("per_layer_config", map[string]any{"2": map[string]any{"sliding_window": 4}}), "gives layer 2 a sliding_window"},
		{"gemma4_moe", set("per_layer_config", map[string]any{"2": map[string]any{"num_attention_heads": 8}}), "gives layer 2 8 heads"},
		{"gemma4_moe", set("head_dim", nil), "gives no head_dim"},
		{"gemma4_moe", set("num_key_value_heads", nil), "gives no num_key_value_heads"},
		{"gemma4_moe", set("layer_types", []string{sliding, "linear_attention", full}), `layer type "linear_attention"`},
		{"gemma4_moe", ropes(full, "rope_type", "yarn"), `rope type "yarn" of full_attention`},
		{"gemma4_moe", ropes(full, "partial_rotary_factor", 1.5), "partial_rotary_factor: 1.5 is more than 1"},
		{"gemma4_moe", ropes(sliding, "partial_rotary_factor", 0.5), "partial_rotary_factor of sliding_attention is 0.5"},
		{"gemma4_moe", set("top_k_experts", 9), "9 of 5 experts"},
		{"gemma4_moe", set("model_type", "gemma4_assistant"), `"gemma4_assistant"`},
	} {
		if _, err := edited(t, c.model, c.edit); err == nil || !errors.Is(err, ErrArchitecture) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.model, err, c.want)
		}
	}
	for _, edit := range []func(map[string]any){
		set("use_bidirectional_attention", "vision"), set("final_logit_softcapping", nil), set("layer_types", []string{sliding, sliding, sliding}), set("rope_parameters", nil),
	} {
		spec, err := edited(t, "gemma4_moe", edit)
		if err != nil {
			t.Error(err)
		} else if r := spec.Layers[2].Attn.Rope; r.Turned != 4 || r.Theta != 1e6 || spec.Layers[2].Attn.Window != 0 {
			t.Errorf("the last layer has rope %+v", r)
		}
	}
}

// TestEmbeds: the tensors outside layers are those before the first one and those of
// the head.
func TestEmbeds(t *testing.T) {
	for _, name := range append([]string{"llama_untied"}, "gemma4_ple") {
		f := opened(t, name)
		for _, x := range f.spec.Tensors() {
			head := x.At == finalNormAt || x.At == HeadPlace(f.source()) && !f.spec.Tied
			if Embeds(x.At) == head {
				t.Errorf("%s: %s stands before the first layer: %t", name, x.At, !head)
			}
		}
	}
}

// TestAlongIsPlanned: what goes along with hidden states is counted in plans of a pass
// and of a walk, for each row and party.
func TestAlongIsPlanned(t *testing.T) {
	spec := lendingSpec(5, 128, 4, 4, 64, 192, 100, 64)
	const along = 4*(2*4*128) + 4*5*64 // two layers lend 4 heads of 64+64; 64 values for each of 5 layers
	plain := *spec
	plain.PerLayer, plain.Layers = nil, slices.Clone(spec.Layers)
	for i := range plain.Layers {
		plain.Layers[i].Attn.LendsTo = 0
	}
	w := Workload{Chunk: 10, Parties: 3, Threads: 1, Bits: 16}
	_, with := spec.needs(w, 1)
	if _, without := plain.needs(w, 1); with-without != 3*along {
		t.Errorf("a row of a pass takes %d bytes more, want %d", with-without, 3*along)
	}
	o := WalkOptions{Threads: 1}
	const look = 4 * 128 // a copy of the hidden states
	if more := WalkNeeds(spec, 100, 10, 16, o).States - WalkNeeds(&plain, 100, 10, 16, o).States; more != 100*(along+look) {
		t.Errorf("a walk over 100 rows takes %d bytes more, want %d", more, 100*(along+look))
	}
}

// TestGemma4Wrapped: under the names of the multimodal release, with towers beside it
// and keys and values stored for layers that borrow, a model has the same hidden states.
func TestGemma4Wrapped(t *testing.T) {
	f, dir := opened(t, "gemma4_ple"), t.TempDir()
	var specs []checkpoint.Spec
	var data [][]byte
	add := func(name string, dtype checkpoint.DType, shape []int64, raw []byte) {
		specs, data = append(specs, checkpoint.Spec{Name: name, DType: dtype, Shape: shape}), append(data, raw)
	}
	for i := range f.ck.Tensors {
		x := &f.ck.Tensors[i]
		raw := make([]byte, x.Size)
		must(t, f.ck.ReadAt(t.Context(), x, 0, raw))
		name := strings.Replace(x.Name, "model.", "model.language_model.", 1)
		add(name, x.DType, x.Shape, raw)
		if at := strings.Index(name, "layers.0.self_attn.k_"); at > 0 { // of no use to layer 2
			add(name[:at]+"layers.2"+name[at+len("layers.0"):], x.DType, x.Shape, bytes.Repeat([]byte{0xff}, len(raw)))
		}
	}
	for _, name := range []string{"model.vision_tower.encoder.layers.0.self_attn.q_proj.linear.weight", "model.audio_tower.layers.0.feed_forward1.ffw_layer_1.linear.weight", "model.embed_vision.embedding_projection.weight"} {
		add(name, checkpoint.BF16, []int64{2, 2}, bytes.Repeat([]byte{0xff}, 8))
	}
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	must(t, err)
	for _, raw := range data {
		_, err := w.Write(raw)
		must(t, err)
	}
	must(t, w.Commit())
	config := fmt.Sprintf(`{"architectures":["Gemma4ForConditionalGeneration"],"model_type":"gemma4","vision_config":{"model_type":"gemma4_vision"},"text_config":%s}`, f.ck.ConfigJSON())
	must(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	ck, err := checkpoint.Open(dir)
	wrapped := fixtureOf(t, ck, err)
	if !reflect.DeepEqual(wrapped.spec, f.spec) {
		t.Errorf("%+v, want %+v", wrapped.spec, f.spec)
	}
	text := texts(f.spec, 3, 40)
	sameBits(t, "hidden states", hiddenOf(t, wrapped.spec, wrapped.source(), text, quick()), hiddenOf(t, f.spec, f.source(), text, quick()))
}
