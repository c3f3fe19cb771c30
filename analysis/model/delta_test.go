package model

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// TestDeltaMemory: what a layer of gated delta rule keeps of a text is of a fixed
// size, goes back 64 tokens from any length, one by one too, and forgets all where it
// cannot go back as far.
func TestDeltaMemory(t *testing.T) {
	d := opened(t, "qwen3_next").spec.Layers[0].Delta
	set := kernels.Best()
	fill := func(n int) *deltaText {
		m := d.empty().(*deltaText)
		keys, values := n*d.KeyHeads*d.KeyDim, n*d.values()
		if err := set.Delta(d.DeltaShape, make([]float32, keys), make([]float32, keys), make([]float32, values), make([]float32, n*d.ValueHeads),
			make([]float32, n*d.ValueHeads), n, &m.state, make([]float32, values), 1); err != nil {
			t.Fatal(err)
		}
		c := d.convolution()
		x := make([]float32, n*c.Channels)
		if err := set.Convolve(c, x, make([]float32, c.Taps*c.Channels), n, &m.conv, make([]float32, len(x)), 1); err != nil {
			t.Fatal(err)
		}
		return m
	}
	for n := 1; n < 200; n += 3 {
		m := fill(n)
		for back := 0; back <= 64; back++ {
			want := max(n-back, 0)
			if c := m.copyOf(want, 0); c.tokens() != want {
				t.Fatalf("a copy of %d of %d tokens has %d", want, n, c.tokens())
			}
			if got := m.cut(want); got != want || m.conv.Len() != want || m.state.Len() != want {
				t.Fatalf("of %d tokens %d are left, want %d", n, got, want)
			}
		}
		long := fill(n + 128)
		if got := long.cut(1); got > 1 || long.tokens() != long.conv.Len() {
			t.Fatalf("of %d tokens %d are left, and %d rows", n+128, got, long.conv.Len())
		}
	}
	if d.perToken() != 0 || d.fixed() < 2*4*int64(d.values()*d.KeyDim) {
		t.Errorf("%d bytes a token, %d for all", d.perToken(), d.fixed())
	}
}

// TestQwenNames: a text-only save has other names (model.layers, model_type with
// _text, a tensor an expert) and is the same model, bit for bit.
func TestQwenNames(t *testing.T) {
	for _, name := range []string{"qwen3_5", "qwen3_5_moe"} {
		f := opened(t, name)
		dir := filepath.Join(t.TempDir(), name)
		textOnly(t, f, dir)
		ck, err := checkpoint.Open(dir)
		other := fixtureOf(t, ck, err)
		if strings.HasPrefix(other.ck.Tensors[0].Name, "model.language_model.") || other.spec.Family != name+"_text" {
			t.Fatalf("the copy has %s of %s", other.ck.Tensors[0].Name, other.spec.Family)
		}
		if a, b := *f.spec, *other.spec; !reflect.DeepEqual(a.Layers, b.Layers) || a.Tied != b.Tied {
			t.Errorf("%s: %+v\ntext-only %+v", name, a, b)
		}
		chunks := texts(f.spec, 5, 30, 9)
		_, want := logitsOf(t, f, f.source(), chunks, quick())
		_, got := logitsOf(t, other, other.source(), chunks, quick())
		sameBits(t, name, got, want)
	}
}

// TestDeltaConvolutionBias: a tensor that the arithmetic has no place for is refused.
func TestDeltaConvolutionBias(t *testing.T) {
	f := opened(t, "qwen3_next")
	src := withBias{f.source()}
	if _, err := Run(t.Context(), f.spec, []Source{src}, texts(f.spec, 1, 5), quick()); err == nil || !strings.Contains(err.Error(), "layer 0 attention conv has a bias") {
		t.Errorf("a bias of the convolution: %v", err)
	}
}

type withBias struct{ Source }

func (s withBias) Has(p Place, param string) bool {
	return p.Kind == topology.Attention && p.Projection == "conv" && param == "bias" || s.Source.Has(p, param)
}

// TestDeltaTogether: texts that are decoded beside each other, cut back at random and
// gone on with, have the bits of a pass over the whole of each, across chunks of 64.
func TestDeltaTogether(t *testing.T) {
	f := opened(t, "qwen3_next")
	src := NewResident(f.source())
	rng := rand.New(rand.NewPCG(4, 4))
	chunks := texts(f.spec, 8, 150, 90, 70)
	var want [][]float32
	for _, c := range chunks {
		x, _ := logitsOf(t, f, src, [][]int32{c}, quick())
		want = append(want, x)
	}
	for _, threads := range []int{1, 3} {
		o := quick()
		o.Threads = threads
		b, err := NewBatch(t.Context(), f.spec, src, o)
		if err != nil {
			t.Fatal(err)
		}
		all := []*Text{NewText(f.spec, 0), NewText(f.spec, 0), NewText(f.spec, 0)}
		h := f.spec.Hidden
		for round := 0; round < 60; round++ {
			var steps []*Step
			var from, of []int
			for i, text := range all {
				if text.Len() > 0 && rng.IntN(3) == 0 {
					text.Cut(text.Len() - rng.IntN(20))
				}
				at := text.Len()
				if n := min(rng.IntN(14), len(chunks[i])-at); n > 0 {
					steps, from, of = append(steps, &Step{Text: text, Tokens: chunks[i][at : at+n]}), append(from, at), append(of, i)
				}
			}
			if len(steps) == 0 {
				continue
			}
			x, err := b.Feed(t.Context(), steps)
			if err != nil {
				t.Fatal(err)
			}
			for k, s := range steps {
				n := len(s.Tokens) * h
				sameBits(t, "states", x[:n], want[of[k]][from[k]*h:][:n])
				x = x[n:]
			}
		}
	}
}

// TestQwenRope: configs of the first releases leave out how much of a head turns.
func TestQwenRope(t *testing.T) {
	got, err := edited(t, "qwen3_next", func(c map[string]any) {
		c["rope_parameters"] = map[string]any{"rope_theta": 10000000, "rope_type": "default"}
		delete(c, "partial_rotary_factor")
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := got.Layers[3].Attn; a.Dim != 32 || a.Rope.Dim != 8 {
		t.Errorf("%d of %d channels turn", a.Rope.Dim, a.Dim)
	}
}

// TestDeltaInputs: all projections into a layer of gated delta rule read the same, and
// the first of them is told.
func TestDeltaInputs(t *testing.T) {
	for name, maps := range map[string][]string{"qwen3_next": {"qkvz", "ba", "o"}, "qwen3_5": {"qkv", "z", "b", "a", "o"}} {
		spec := opened(t, name).spec
		l := &spec.Layers[0]
		var got []string
		for _, x := range l.Tensors(spec) {
			if x.At.Kind != topology.Attention || x.Rows == 0 {
				continue
			}
			got = append(got, x.At.Projection)
			if in := x.Input.Projection; x.At.Projection != "o" && (in != "q" || x.Told != attn(l, maps[0])) || x.At.Projection == "o" && in != "o" {
				t.Errorf("%s: %s reads the input of %s, which %s tells", name, x.At, x.Input, x.Told)
			}
		}
		if !reflect.DeepEqual(got, maps) {
			t.Errorf("%s: maps %v, want %v", name, got, maps)
		}
	}
}

// textOnly writes a checkpoint of the released layout as transformers saves its text
// model.
func textOnly(t *testing.T, f *fixture, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var specs []checkpoint.Spec
	var data [][]byte
	for i := range f.ck.Tensors {
		x := &f.ck.Tensors[i]
		raw := make([]byte, x.Size)
		if err := f.ck.ReadAt(t.Context(), x, 0, raw); err != nil {
			t.Fatal(err)
		}
		add := func(name string, shape []int64, raw []byte) {
			specs, data = append(specs, checkpoint.Spec{Name: name, DType: x.DType, Shape: shape}), append(data, raw)
		}
		name := strings.Replace(x.Name, "model.language_model.", "model.", 1)
		layer, fused, ok := strings.Cut(name, "experts.")
		if !ok || strings.HasPrefix(fused, "gate_up_proj") == strings.HasPrefix(fused, "down_proj") {
			add(name, x.Shape, raw)
			continue
		}
		parts := []string{"down_proj"}
		if strings.HasPrefix(fused, "gate_up_proj") {
			parts = []string{"gate_proj", "up_proj"}
		}
		n, shape := int(x.Shape[0])*len(parts), []int64{x.Shape[1] / int64(len(parts)), x.Shape[2]}
		for k := range n {
			size := len(raw) / n
			add(fmt.Sprintf("%sexperts.%d.%s.weight", layer, k/len(parts), parts[k%len(parts)]), shape, raw[k*size:][:size])
		}
	}
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range data {
		if _, err := w.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(f.top.Config.Text)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
