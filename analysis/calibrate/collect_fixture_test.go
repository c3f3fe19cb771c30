package calibrate

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

// opened is a checkpoint with its forward pass.
type opened struct {
	ck   *checkpoint.Checkpoint
	top  *topology.Model
	spec *model.Spec
}

func (o *opened) source() *model.Stored { return model.NewStored(o.ck, o.top) }

func openedOf(t testing.TB, ck *checkpoint.Checkpoint, err error) *opened {
	t.Helper()
	must(t, err)
	t.Cleanup(func() { ck.Close() })
	o := &opened{ck: ck}
	o.top, err = topology.FromCheckpoint(ck)
	must(t, err)
	o.spec, err = model.NewSpec(o.top)
	must(t, err)
	return o
}

// openModel opens one of analysis/model's models, or the demo.
func openModel(t testing.TB, name string) *opened {
	t.Helper()
	if name == "demo" {
		ck, err := demo.Open()
		return openedOf(t, ck, err)
	}
	ck, err := checkpoint.Open(filepath.Join("..", "model", "testdata", name))
	return openedOf(t, ck, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// someTexts are chunks of random tokens.
func someTexts(vocab int, seed uint64, lengths ...int) [][]int32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	var chunks [][]int32
	for _, n := range lengths {
		c := make([]int32, n)
		for i := range c {
			c[i] = rng.Int32N(int32(vocab))
		}
		chunks = append(chunks, c)
	}
	return chunks
}

// told are the inputs that a walk tells, of every map, and which rows chose each
// expert.
type told struct {
	x      map[model.Place][]float32
	choice map[int][][]int32
}

func tell(t testing.TB, o *opened, chunks [][]int32) told {
	t.Helper()
	g := told{map[model.Place][]float32{}, map[int][][]int32{}}
	l := model.Looks{
		Input: func(p model.Place, x []float32, n int) { g.x[p] = append(g.x[p], x[:len(x)/n*n]...) },
		Routed: func(layer int, _ []float32, choices []model.Choice) {
			for _, c := range choices {
				g.choice[layer] = append(g.choice[layer], slices.Clone(c.Experts))
			}
		},
	}
	w, err := model.NewWalk(t.Context(), o.spec, o.source(), chunks, model.WalkOptions{Set: kernels.Best(), Threads: 2})
	must(t, err)
	defer w.Close()
	for {
		if _, ok := w.At(); !ok {
			break
		}
		must(t, w.LookPass(t.Context(), o.source(), l))
	}
	must(t, w.Head(t.Context(), o.source(), l))
	return g
}

func sameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %g, want the bits of %g", what, i, got[i], want[i])
		}
	}
}
