package model

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// damaged is a random source with one value of one matrix, or of the embedding of
// one token, that is not finite.
type damaged struct {
	*random
	at    Place
	token int32 // where at is the embedding
	value float32
}

func (s *damaged) Fork() Source { return &damaged{s.random.Fork().(*random), s.at, s.token, s.value} }

func (s *damaged) LayerOrigin(layer int) any {
	if layer == s.at.Layer {
		return s
	}
	return s.random.LayerOrigin(layer)
}

func (s *damaged) WeightOrigin(p Place) any {
	if p == s.at {
		return nil
	}
	return s.random.WeightOrigin(p)
}

func (s *damaged) Weight(ctx context.Context, p Place) (Weight, error) {
	w, err := s.random.Weight(ctx, p)
	if err != nil || p != s.at {
		return w, err
	}
	data := slices.Clone(s.data(p, w.Rows, w.Cols))
	binary.LittleEndian.PutUint16(data[2*(w.Cols+1):], uint16(math.Float32bits(s.value)>>16)) // [1,1]
	w.Operand = kernels.StoredOperand(kernels.Matrix{Element: kernels.BF16, Rows: w.Rows, Cols: w.Cols, Data: data})
	return w, nil
}

func (s *damaged) Rows(ctx context.Context, p Place, rows []int32, dst []float32) error {
	err := s.random.Rows(ctx, p, rows, dst)
	for i, row := range rows {
		if s.at.Kind == topology.Embedding && row == s.token {
			dst[i*s.spec.Hidden+5] = s.value
		}
	}
	return err
}

// TestNaNStops: a value that is not finite in the weights stops the pass with
// layer, chunk and position.
func TestNaNStops(t *testing.T) {
	spec := moeSpec(3, 48, 4, 2, 12, 40, 8, 2, 90)
	chunks := texts(spec, 3, 0, 40, 40, 30)
	nan := float32(math.NaN())
	// The first token that chooses expert 3 in layer 1.
	chunk, position := -1, -1
	o := quick()
	o.Routed = func(_, layer int, _ []float32, choices []Choice) {
		row := slices.IndexFunc(choices, func(c Choice) bool { return slices.Contains(c.Experts, 3) })
		if layer != 1 || row < 0 {
			return
		}
		for chunk, position = 0, row; position >= len(chunks[chunk]); chunk++ {
			position -= len(chunks[chunk])
		}
	}
	hiddenOf(t, spec, newRandom(spec, 1), chunks, o)
	if chunk < 0 || position == 0 {
		t.Fatalf("expert 3 is chosen first in chunk %d at %d: choose other texts", chunk, position)
	}
	token := chunks[2][7]
	tokenChunk := 2
	for i, c := range chunks[:2] {
		if slices.Contains(c, token) {
			tokenChunk = i
		}
	}
	for _, c := range []struct {
		name string
		src  Source
		want NonFiniteError
	}{
		{"embedding", &damaged{newRandom(spec, 1), Place{Kind: topology.Embedding, Layer: -1, Expert: -1}, token, nan},
			NonFiniteError{"embedding", -1, tokenChunk, slices.Index(chunks[tokenChunk], token), 5, nan}},
		{"attention", &damaged{newRandom(spec, 1), attn(&spec.Layers[2], "o"), 0, nan}, NonFiniteError{"output", 2, 1, 0, 0, nan}},
		{"expert", &damaged{newRandom(spec, 1), expert(&spec.Layers[1], 3, "down"), 0, nan}, NonFiniteError{"output", 1, chunk, position, 1, nan}},
		{"router", &damaged{newRandom(spec, 1), router(&spec.Layers[1]), 0, nan}, NonFiniteError{"output", 1, 1, 0, 0, nan}},
		{"router, infinite", &damaged{newRandom(spec, 1), router(&spec.Layers[1]), 0, float32(math.Inf(1))}, NonFiniteError{"output", 1, 1, 0, 0, nan}},
		{"expert, infinite", &damaged{newRandom(spec, 1), expert(&spec.Layers[1], 3, "down"), 0, float32(math.Inf(1))}, NonFiniteError{"output", 1, chunk, position, 1, 0}},
	} {
		for _, threads := range []int{1, 2} {
			_, err := Run(t.Context(), spec, []Source{c.src}, chunks, Options{Set: kernels.Best(), Threads: threads})
			var got *NonFiniteError
			if !errors.As(err, &got) {
				t.Fatalf("%s: %v, want a NonFiniteError", c.name, err)
			}
			value := got.Value
			got.Value, c.want.Value = 0, 0
			if *got != c.want || finite64(float64(value)) {
				t.Errorf("%s: %+v, %g; want %+v", c.name, *got, value, c.want)
			}
			if c.want.Layer == 1 && !strings.Contains(err.Error(), "layer 1: output of chunk") {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	d, err := NewDecoder(t.Context(), spec, &damaged{newRandom(spec, 1), attn(&spec.Layers[2], "o"), 0, nan}, quick())
	if err != nil {
		t.Fatal(err)
	}
	var got *NonFiniteError
	if _, err := d.Feed(t.Context(), chunks[1]); !errors.As(err, &got) || got.Layer != 2 {
		t.Errorf("decoding: %v, want a NonFiniteError of layer 2", err)
	}
	if d, err = NewDecoder(t.Context(), spec, &damaged{newRandom(spec, 1), Place{Kind: topology.Embedding, Layer: -1, Expert: -1}, 89, nan}, quick()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Feed(t.Context(), []int32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Feed(t.Context(), []int32{4, 89}); !errors.As(err, &got) || got.Layer != 0 || got.Position != 4 {
		t.Errorf("decoding: %v, want a NonFiniteError of position 4", err)
	}
}

// TestNaNBehindTheWindow: queries whose window begins behind a NaN do not meet it,
// in a pass and in decoding.
func TestNaNBehindTheWindow(t *testing.T) {
	spec := llamaSpec(1, 32, 4, 2, 8, 24, 2000)
	spec.Layers[0].Attn.Window = 40
	text := texts(spec, 1, 600)[0]
	at := 70
	for text[at] = 1999; slices.Index(text, 1999) != at; {
		text[slices.Index(text, 1999)] = 0
	}
	sick := &damaged{newRandom(spec, 1), Place{Kind: topology.Embedding, Layer: -1, Expert: -1}, 1999, float32(math.NaN())}
	o := quick()
	o.NonFinite = func(int, int, *NonFiniteError) error { return nil }
	clean, x := hiddenOf(t, spec, newRandom(spec, 1), [][]int32{text}, o), hiddenOf(t, spec, sick, [][]int32{text}, o)
	h := spec.Hidden
	sameBits(t, "before", x[:at*h], clean[:at*h])
	within(t, "behind", x[(at+40)*h:], clean[(at+40)*h:], 1e-5)
	// From here on no block of keys holds the NaN.
	sameBits(t, "far behind", x[(256+40)*h:], clean[(256+40)*h:])
	for i := at; i < at+40; i++ {
		if !math.IsNaN(float64(x[i*h])) {
			t.Fatalf("position %d, which sees the NaN, is %g", i, x[i*h])
		}
	}
}

// TestNaNStays: where the pass goes on, a NaN reaches no other candidate, no other
// chunk and no earlier position, and is told of once.
func TestNaNStays(t *testing.T) {
	spec := moeSpec(3, 48, 4, 2, 12, 40, 8, 2, 900)
	spec.Layers[1].Attn.Window = 300
	chunks := texts(spec, 3, 620, 40, 50, 400)
	count := map[int32]int{}
	for _, c := range chunks {
		for _, id := range c {
			count[id]++
		}
	}
	at := 70
	for count[chunks[0][at]] > 1 {
		at++
	}
	token := chunks[0][at]
	sick := &damaged{newRandom(spec, 1), Place{Kind: topology.Embedding, Layer: -1, Expert: -1}, token, float32(math.NaN())}
	want := hiddenOf(t, spec, newRandom(spec, 1), chunks, quick())
	for _, threads := range []int{1, 2} {
		o := Options{Set: kernels.Best(), Threads: threads}
		told := 0
		o.NonFinite = func(c, layer int, e *NonFiniteError) error {
			told++
			if c != 1 || layer != -1 || e.Chunk != 0 || e.Position != at {
				t.Errorf("candidate %d, layer %d: %v", c, layer, e)
			}
			return nil
		}
		out, err := Run(t.Context(), spec, []Source{newRandom(spec, 1), sick, newRandom(spec, 1)}, chunks, o)
		if err != nil {
			t.Fatal(err)
		}
		h := spec.Hidden
		sameBits(t, "the candidate before", out[0].X, want)
		sameBits(t, "the candidate after", out[2].X, want)
		sameBits(t, "positions before", out[1].X[:at*h], want[:at*h])
		sameBits(t, "other chunks", out[1].X[620*h:], want[620*h:])
		if told != 1 {
			t.Errorf("told %d times, want once", told)
		}
		for i := at; i < at+300; i++ {
			if !math.IsNaN(float64(out[1].X[i*h])) {
				t.Fatalf("position %d, which sees the NaN, is %g", i, out[1].X[i*h])
			}
		}
		for i, rms := range out[1].RMS {
			if !finite64(rms) {
				t.Errorf("norm %d is %g: rows that are not finite are not left out", i, rms)
			}
		}
	}
}

// TestNaNOfEach: of candidates that part from the reference in one layer, each is
// told of, since what is known of one says nothing of the other.
func TestNaNOfEach(t *testing.T) {
	spec := llamaSpec(3, 32, 2, 1, 16, 24, 50)
	sick := func() Source {
		return &damaged{newRandom(spec, 1), attn(&spec.Layers[1], "o"), 0, float32(math.NaN())}
	}
	told := map[int]int{}
	o := quick()
	o.NonFinite = func(c, layer int, _ *NonFiniteError) error {
		if told[c]++; layer != 1 {
			t.Errorf("candidate %d: layer %d, want 1", c, layer)
		}
		return nil
	}
	if _, err := Run(t.Context(), spec, []Source{newRandom(spec, 1), sick(), sick()}, texts(spec, 1, 20), o); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[1] != 1 || told[2] != 1 {
		t.Errorf("told by candidate: %v, want 1 and 2 once each", told)
	}
}

// TestNaNStopsByAnswer: what NonFinite returns is what Run returns.
func TestNaNStopsByAnswer(t *testing.T) {
	spec := llamaSpec(2, 32, 2, 1, 16, 24, 50)
	enough := errors.New("enough")
	o := quick()
	o.NonFinite = func(int, int, *NonFiniteError) error { return enough }
	src := &damaged{newRandom(spec, 1), attn(&spec.Layers[1], "v"), 0, float32(math.NaN())}
	if _, err := Run(t.Context(), spec, []Source{src}, texts(spec, 1, 20), o); !errors.Is(err, enough) {
		t.Errorf("%v, want %v", err, enough)
	}
}
