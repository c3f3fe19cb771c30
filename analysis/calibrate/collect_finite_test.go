package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// sick is a source with one value that is not finite, or too large.
type sick struct {
	model.Source
	at    model.Place
	value float32
}

func (s sick) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	w, err := s.Source.Weight(ctx, p)
	if err != nil || p != s.at {
		return w, err
	}
	dense, err := kernels.NewDense(w.Rows, w.Cols)
	if err != nil {
		return w, err
	}
	if err := kernels.Best().ExpandRows(dense.Data, w.Operand, 0); err != nil {
		return w, err
	}
	dense.Data[2*w.Cols+1] = s.value // output 2
	w.Operand = kernels.DenseOperand(dense)
	return w, nil
}

// TestCollectNotFinite: an input with a NaN is told by layer, tensor and the first
// position, and so is a column whose squares overflow; by any number of waves, and
// before the hidden states behind it.
func TestCollectNotFinite(t *testing.T) {
	o := openModel(t, "qwen3_moe")
	nan := float32(math.NaN())
	chunks := someTexts(o.spec.Vocab, 5, 0, 30, 40)
	choices := tell(t, o, chunks).choice[1]
	first := slices.IndexFunc(choices, func(c []int32) bool { return slices.Contains(c, 2) })
	if first < 1 || first >= 30 {
		t.Fatalf("the first token of expert 2 is at %d: choose other texts", first)
	}
	attn := func(p string) model.Place {
		return model.Place{Kind: topology.Attention, Layer: 1, Expert: -1, Projection: p}
	}
	expert := func(p string) model.Place {
		return model.Place{Kind: topology.Expert, Layer: 1, Expert: 2, Projection: p}
	}
	for _, c := range []struct {
		name  string
		at    model.Place
		value float32
		want  InputError
		text  string
	}{
		{"v", attn("v"), nan, InputError{At: attn("o"), Chunk: 1, Column: 2, Value: nan}, "layer 1 attention o (some.weight): its input at chunk 1, position 0, column 2 is NaN"},
		{"gate of an expert", expert("gate"), nan, InputError{At: expert("down"), Chunk: 1, Position: first, Column: 2, Value: nan}, fmt.Sprintf("layer 1 expert 2 down (some.weight): its input at chunk 1, position %d, column 2 is NaN", first)},
		{"a column that overflows", expert("up"), 1e25, InputError{At: expert("down"), Chunk: -1, Position: -1, Column: 2}, ""},
	} {
		for _, mem := range []int64{0, 1} {
			for _, pass := range []bool{false, true} {
				src := sick{o.source(), c.at, c.value}
				w, err := model.NewWalk(t.Context(), o.spec, o.source(), chunks, model.WalkOptions{Set: kernels.Best(), Threads: 2})
				must(t, err)
				must(t, w.Pass(t.Context(), o.source()))
				wants := wantsOf(o, &o.spec.Layers[1], nil)
				for i := range wants {
					wants[i].Tensor = "some.weight"
				}
				col := NewCollector(CollectOptions{Set: kernels.Best(), Threads: 2, Mem: mem})
				each := func(v Wave) error {
					for _, m := range v.Moments {
						if m.At == c.want.At {
							t.Errorf("%s: moments of %s are handed over", c.name, m.At)
						}
					}
					return nil
				}
				if pass {
					err = col.LayerPass(t.Context(), w, src, wants, each)
				} else {
					err = col.Layer(t.Context(), w, src, wants, each)
				}
				var got *InputError
				if !errors.As(err, &got) {
					t.Fatalf("%s: %v", c.name, err)
				}
				if c.want.Chunk >= 0 && err.Error() != c.text {
					t.Errorf("%s: %q, want %q", c.name, err, c.text)
				}
				if v := got.Value; v-v == 0 {
					t.Errorf("%s: the value is %g", c.name, v)
				}
				if c.want.Chunk < 0 && (got.Rows <= 0 || math.IsNaN(float64(got.Value))) {
					t.Errorf("%s: %+v", c.name, got)
				}
				got.Tensor, got.Value, c.want.Value, got.Rows = "", 0, 0, 0
				if *got != c.want {
					t.Errorf("%s: %+v, want %+v", c.name, *got, c.want)
				}
				if col.squares.lent != 0 || col.batches.lent != 0 {
					t.Errorf("%s: memory was not given back", c.name)
				}
				must(t, w.Close())
			}
		}
	}
}
