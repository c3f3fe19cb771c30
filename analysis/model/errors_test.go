package model

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// faulty is a source that fails at one place.
type faulty struct {
	Source
	at   Place
	fail func(w Weight) (Weight, error)
}

func (s *faulty) Fork() Source {
	if f, ok := s.Source.(Forker); ok {
		return &faulty{f.Fork(), s.at, s.fail}
	}
	return nil
}

func (s *faulty) Weight(ctx context.Context, p Place) (Weight, error) {
	w, err := s.Source.Weight(ctx, p)
	if err == nil && p == s.at {
		return s.fail(w)
	}
	return w, err
}

// TestErrors: errors of sources come with the layer, whether they were met in
// reading ahead or not, and the first one wins.
func TestErrors(t *testing.T) {
	spec := moeSpec(4, 32, 2, 1, 16, 24, 6, 2, 60)
	chunks := texts(spec, 1, 64, 64)
	broken := errors.New("broken disk")
	give := func(Weight) (Weight, error) { return Weight{}, broken }
	for _, c := range []struct {
		at   Place
		fail func(Weight) (Weight, error)
		want string
	}{
		{attn(&spec.Layers[0], "q"), give, "layer 0: broken disk"},
		{attn(&spec.Layers[2], "o"), give, "layer 2: broken disk"},
		{expert(&spec.Layers[1], 4, "up"), give, "layer 1: broken disk"},
		{spec.Layers[0].mlp(topology.MLP, "down"), func(w Weight) (Weight, error) { w.Rows--; return w, nil }, "layer 0: forward pass: layer 0 mlp down is 31×24 where the config asks for 32×24"},
	} {
		for _, wave := range []int64{0, 1} {
			o := quick()
			o.Wave = wave
			for _, src := range []Source{newRandom(spec, 1), bare{newRandom(spec, 1)}} {
				_, err := Run(t.Context(), spec, []Source{newRandom(spec, 2), &faulty{src, c.at, c.fail}}, chunks, o)
				if err == nil || err.Error() != c.want {
					t.Errorf("%s: %v, want %s", c.at, err, c.want)
				}
			}
		}
	}
}

// TestCancelled: a pass ends soon after its context, with its error.
func TestCancelled(t *testing.T) {
	spec := moeSpec(4, 32, 2, 1, 16, 24, 6, 2, 60)
	ctx, cancel := context.WithCancel(t.Context())
	o := quick()
	layers := 0
	o.Done = func(int, int) {
		if layers++; layers == 2 {
			cancel()
		}
	}
	if _, err := Run(ctx, spec, []Source{newRandom(spec, 1)}, texts(spec, 1, 64), o); !errors.Is(err, context.Canceled) || layers != 2 {
		t.Errorf("%v after %d layers, want %v after 2", err, layers, context.Canceled)
	}
}

// TestTokensOutside: tokens that the model does not have are refused with where
// they stand.
func TestTokensOutside(t *testing.T) {
	f := opened(t, "llama_tied")
	for _, id := range []int32{-1, 256, 1 << 30} {
		_, err := Run(t.Context(), f.spec, []Source{f.source()}, [][]int32{{1, 2}, {3, id}}, quick())
		if err == nil || !strings.Contains(err.Error(), "at position 1 of chunk 1 is outside the vocabulary of 256") {
			t.Errorf("token %d: %v", id, err)
		}
		d, err := NewDecoder(t.Context(), f.spec, f.source(), quick())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Feed(t.Context(), []int32{id}); err == nil {
			t.Errorf("token %d is decoded", id)
		}
	}
}

// TestMissingTensor: a checkpoint without a tensor that the pass reads, with one
// of another shape.
func TestMissingTensor(t *testing.T) {
	for _, c := range []struct {
		was, is string
		want    []string
	}{
		{"model.layers.1.self_attn.o_proj.weight", "model.layers.1.self_attn.x_proj.weight", []string{"layer 1", "attention o", "is not there"}},
		{"model.layers.0.input_layernorm.weight", "model.layers.0.inputXlayernorm.weight", []string{"layer 0", "input_layernorm", "is not there"}},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("testdata/llama_tied")); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "model.safetensors")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.was) != len(c.is) || !strings.Contains(string(data), c.was) {
			t.Fatalf("%s is not in the file", c.was)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(data), c.was, c.is, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		ck, err := checkpoint.Open(dir)
		f := fixtureOf(t, ck, err)
		_, err = Run(t.Context(), f.spec, []Source{f.source()}, texts(f.spec, 1, 9), quick())
		if !errors.Is(err, ErrAbsent) {
			t.Fatalf("%s: %v, want ErrAbsent", c.was, err)
		}
		for _, w := range append(c.want, dir) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %s in it", c.was, err, w)
			}
		}
	}
}

// TestStrideOutside: a matrix that would leave its tensor is refused.
func TestStrideOutside(t *testing.T) {
	f := opened(t, "gpt_oss")
	at := expert(&f.spec.Layers[0], 1, "up")
	for i := range f.top.Matrices {
		if placeOf(f.top.Matrices[i].Role) == at {
			f.top.Matrices[i].RowStride = 1 << 40
		}
	}
	var e *checkpoint.FileError
	if _, err := f.source().Weight(t.Context(), at); !errors.As(err, &e) || e.Tensor == "" {
		t.Errorf("%v, want a FileError", err)
	}
}
