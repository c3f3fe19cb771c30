package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// walked gathers what a walk tells, each layer looked at and then passed.
type walked struct {
	x       map[Place][]float32
	order   []Place
	choices map[int][][]int32
}

func (g *walked) looks() Looks {
	g.x, g.choices = map[Place][]float32{}, map[int][][]int32{}
	return Looks{
		Input: func(p Place, x []float32, n int) {
			g.x[p] = append(g.x[p], x[:len(x)/n*n]...)
			g.order = append(g.order, p)
		},
		Routed: func(layer int, _ []float32, choices []Choice) {
			for _, c := range choices {
				g.choices[layer] = append(g.choices[layer], slices.Clone(c.Experts))
			}
		},
	}
}

func newWalk(t testing.TB, spec *Spec, src Source, chunks [][]int32, o WalkOptions) *Walk {
	t.Helper()
	w, err := NewWalk(context.Background(), spec, src, chunks, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// walkModels are those of testdata and the demo.
func walkModels(t *testing.T) map[string]*fixture {
	all := map[string]*fixture{"demo": openedDemo(t)}
	for _, name := range slices.Concat(plainModels, mtpModels, []string{"llama_rope_dynamic"}) {
		all[name] = opened(t, name)
	}
	return all
}

// TestWalkIsRun: looking at layers and passing them gives the inputs that
// Options.Input and Routed tell and the hidden states of Run, bit for bit, for any
// number of threads, waves and tiles, whether or not the source can fork, and
// whether a look comes first or goes along.
func TestWalkIsRun(t *testing.T) {
	for name, f := range walkModels(t) {
		t.Run(name, func(t *testing.T) {
			chunks := texts(f.spec, 7, 40, 0, 1, 13, 30, 25, 16)
			want := gather(t, f.spec, f.source(), chunks, quick())
			hidden := hiddenOf(t, f.spec, f.source(), chunks, quick())
			for _, c := range []struct {
				o     WalkOptions
				fork  bool
				along bool
			}{
				{WalkOptions{Set: kernels.Best(), Threads: 1}, true, false},
				{WalkOptions{Set: kernels.Best(), Threads: 2}, true, true},
				{WalkOptions{Set: kernels.Best(), Threads: 3, Wave: 1, Tile: 20}, true, false},
				{WalkOptions{Set: kernels.Best(), Threads: 2, Wave: 1, Tile: 50}, false, false},
			} {
				var src Source = f.source()
				if !c.fork {
					src = bare{src}
				}
				var g walked
				l := g.looks()
				w := newWalk(t, f.spec, src, chunks, c.o)
				must(t, w.Entrance(t.Context(), src, l))
				for i := range f.spec.Layers {
					if at, ok := w.At(); !ok || at != &f.spec.Layers[i] || w.Rows() != 125 {
						t.Fatalf("at layer %v, %v with %d rows, want layer %d with 125", at, ok, w.Rows(), i)
					}
					if c.along {
						must(t, w.LookPass(t.Context(), src, l))
						continue
					}
					before := slices.Clone(w.x)
					must(t, w.Look(t.Context(), src, l))
					sameBits(t, "after a look", w.x, before)
					must(t, w.Pass(t.Context(), src))
				}
				sameBits(t, "hidden states", w.x, hidden)
				if len(g.x) != len(want.x) {
					t.Errorf("inputs of %d maps, want %d", len(g.x), len(want.x))
				}
				for p, x := range want.x {
					sameBits(t, p.String(), g.x[p], x)
				}
				for layer, c := range want.choices {
					if !slices.EqualFunc(g.choices[layer], c, slices.Equal[[]int32]) {
						t.Errorf("layer %d: other experts", layer)
					}
				}
				g.checkHead(t, f, w, src, hidden)
			}
		})
	}
}

// checkHead compares the head's inputs with what Head computes of hidden states.
func (g *walked) checkHead(t *testing.T, f *fixture, w *Walk, src Source, hidden []float32) {
	t.Helper()
	l := g.looks()
	must(t, w.Head(t.Context(), src, l))
	head, err := NewHead(t.Context(), f.spec, f.source(), quick())
	must(t, err)
	normed := make([]float32, len(hidden)/f.spec.Width()*f.spec.Hidden)
	must(t, head.Normed(normed, hidden))
	if len(g.x) != 1 {
		t.Errorf("the head has inputs of %d places", len(g.x))
	}
	sameBits(t, "the head's inputs", g.x[HeadPlace(src)], normed)
}

// TestWalkThroughOthers: layers may be passed with other weights than they were
// looked at with, and the text then goes on as if they were the model's.
func TestWalkThroughOthers(t *testing.T) {
	spec := moeSpec(4, 48, 4, 2, 12, 40, 8, 2, 90)
	chunks := texts(spec, 3, 30, 40, 20)
	ref := newRandom(spec, 1)
	changed := newRandom(spec, 1)
	changed.seeds = map[int]uint64{0: 5, 1: 6, 2: 7, 3: 8}
	for _, threads := range []int{1, 2} {
		w := newWalk(t, spec, ref, chunks, WalkOptions{Set: kernels.Best(), Threads: threads})
		through := newRandom(spec, 1) // of the layers that were passed
		through.seeds = map[int]uint64{}
		for i := range spec.Layers {
			var g walked
			l := g.looks()
			must(t, w.Look(t.Context(), ref, l))
			want := gather(t, spec, through, chunks, quick())
			n := 0
			for p, x := range want.x {
				if p.Layer == i {
					n++
					sameBits(t, p.String(), g.x[p], x)
				}
			}
			if n != len(g.x) {
				t.Errorf("layer %d: inputs of %d maps, want %d", i, len(g.x), n)
			}
			must(t, w.Pass(t.Context(), changed))
			through.seeds[i] = changed.seeds[i]
		}
		sameBits(t, "hidden states", w.x, hiddenOf(t, spec, changed, chunks, quick()))
		must(t, w.Close())
		if live := ref.shared.live.Load() + changed.shared.live.Load(); live != 0 {
			t.Errorf("%d bytes of weights were not given back", live)
		}
	}
}

// TestWalkWants: what is not asked for is neither told nor read.
func TestWalkWants(t *testing.T) {
	spec := moeSpec(2, 48, 4, 2, 12, 40, 8, 2, 90)
	chunks := texts(spec, 3, 30, 40, 20)
	src := newRandom(spec, 1)
	want := gather(t, spec, newRandom(spec, 1), chunks, quick())
	w := newWalk(t, spec, src, chunks, WalkOptions{Set: kernels.Best(), Threads: 2})
	must(t, w.Pass(t.Context(), src))
	l := &spec.Layers[1]
	asked := []Place{attn(l, "o"), router(l), expert(l, 3, "down"), expert(l, 5, "down"), l.mlp(topology.SharedExpert, "gate")}
	var g walked
	looks := g.looks()
	looks.Want = func(p Place) bool { return slices.Contains(asked, p) }
	must(t, w.Look(t.Context(), src, looks))
	if len(g.x) != len(asked) {
		t.Errorf("inputs of %d maps, want %d", len(g.x), len(asked))
	}
	for _, p := range asked {
		sameBits(t, p.String(), g.x[p], want.x[p])
	}
	for e := range l.MoE.Experts {
		reads := 0
		if e == 3 || e == 5 {
			reads = 1
		}
		if got := src.shared.reads[expert(l, e, "up")]; got != reads {
			t.Errorf("expert %d was read %d times, want %d", e, got, reads)
		}
	}
}

// TestWalkReadsAhead: the walk's own source is read once a layer beside experts,
// however often a layer is looked at.
func TestWalkReadsAhead(t *testing.T) {
	spec := moeSpec(3, 48, 4, 2, 12, 40, 8, 2, 90)
	src := newRandom(spec, 1)
	w := newWalk(t, spec, src, texts(spec, 3, 30, 40), WalkOptions{Set: kernels.Best(), Threads: 2})
	for i := range spec.Layers {
		for range 3 {
			must(t, w.Look(t.Context(), src, Looks{}))
		}
		must(t, w.Pass(t.Context(), src))
		src.shared.mu.Lock() // the next layer is being read
		n := src.shared.reads[attn(&spec.Layers[i], "q")]
		src.shared.mu.Unlock()
		if n != 1 {
			t.Errorf("layer %d was read %d times, want once", i, n)
		}
	}
	must(t, w.Close())
	if live := src.shared.live.Load(); live != 0 {
		t.Errorf("%d bytes of weights were not given back", live)
	}
}

// TestWalkDropsAhead: a layer that was read ahead and is passed with other weights
// without a look is given back.
func TestWalkDropsAhead(t *testing.T) {
	spec := moeSpec(4, 48, 4, 2, 12, 40, 8, 2, 90)
	src, other := newRandom(spec, 1), newRandom(spec, 2)
	w := newWalk(t, spec, src, texts(spec, 3, 30, 40), WalkOptions{Set: kernels.Best(), Threads: 2})
	must(t, w.Look(t.Context(), src, Looks{}))
	must(t, w.Pass(t.Context(), other))
	must(t, w.Pass(t.Context(), other))
	if live := src.shared.live.Load(); live != 0 {
		t.Errorf("%d bytes of a layer that was passed are kept", live)
	}
	must(t, w.Look(t.Context(), src, Looks{}))
	must(t, w.Pass(t.Context(), src))
}

// TestWalkNaN: hidden states that are not finite end a walk with layer, chunk and
// position, those of embeddings too.
func TestWalkNaN(t *testing.T) {
	spec := moeSpec(3, 48, 4, 2, 12, 40, 8, 2, 90)
	chunks := texts(spec, 3, 0, 40, 30)
	nan := float32(math.NaN())
	o := WalkOptions{Set: kernels.Best(), Threads: 2}
	var got *NonFiniteError
	token := chunks[2][slices.IndexFunc(chunks[2], func(id int32) bool { return !slices.Contains(chunks[1], id) })]
	_, err := NewWalk(t.Context(), spec, &damaged{newRandom(spec, 1), Place{Kind: topology.Embedding, Layer: -1, Expert: -1}, token, nan}, chunks, o)
	if !errors.As(err, &got) || got.Layer != -1 || got.Chunk != 2 || got.Position != slices.Index(chunks[2], token) || got.Channel != 5 {
		t.Errorf("embedding: %v", err)
	}
	src := &damaged{newRandom(spec, 1), attn(&spec.Layers[1], "o"), 0, nan}
	w := newWalk(t, spec, src, chunks, o)
	must(t, w.Pass(t.Context(), src))
	must(t, w.Look(t.Context(), src, Looks{})) // nothing is asked for
	err = w.Pass(t.Context(), src)
	if !errors.As(err, &got) || got.Layer != 1 || got.Chunk != 1 || got.Position != 0 {
		t.Errorf("attention: %v", err)
	}
	if again := w.Pass(t.Context(), src); again != err {
		t.Errorf("after that: %v", again)
	}
	if again := w.Look(t.Context(), src, Looks{}); again != err {
		t.Errorf("after that: %v", again)
	}
	if again := w.Head(t.Context(), src, Looks{}); again != err {
		t.Errorf("after that: %v", again)
	}
}

// absent has not all tensors.
type absent struct {
	*random
	at Place
}

func (s *absent) Fork() Source { return &absent{s.random.Fork().(*random), s.at} }

func (s *absent) Weight(ctx context.Context, p Place) (Weight, error) {
	if p == s.at {
		return Weight{}, fmt.Errorf("%s %w", p, ErrAbsent)
	}
	return s.random.Weight(ctx, p)
}

// TestWalkErrors: what cannot be read, tokens that are none, a head before its
// time and a context that has ended are told, and memory is given back.
func TestWalkErrors(t *testing.T) {
	spec := moeSpec(3, 48, 4, 2, 12, 40, 8, 2, 90)
	chunks := texts(spec, 3, 40, 30)
	o := WalkOptions{Set: kernels.Best(), Threads: 2}
	if _, err := NewWalk(t.Context(), spec, newRandom(spec, 1), [][]int32{{1, 90}}, o); err == nil {
		t.Error("a token outside the vocabulary is walked")
	}
	for _, at := range []Place{attn(&spec.Layers[1], "k"), expert(&spec.Layers[1], 2, "up")} {
		src := &absent{newRandom(spec, 1), at}
		w := newWalk(t, spec, src, chunks, o)
		if err := w.Head(t.Context(), src, Looks{}); err == nil {
			t.Error("the head is reached before the layers")
		}
		must(t, w.Look(t.Context(), src, Looks{}))
		must(t, w.Pass(t.Context(), src))
		if err := w.Look(t.Context(), src, Looks{}); !errors.Is(err, ErrAbsent) {
			t.Errorf("%s: %v", at, err)
		}
		good := newRandom(spec, 1)
		must(t, w.Look(t.Context(), good, Looks{})) // another source has it
		must(t, w.Pass(t.Context(), good))
		must(t, w.Close())
		if live := src.shared.live.Load() + good.shared.live.Load(); live != 0 {
			t.Errorf("%s: %d bytes of weights were not given back", at, live)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	src := newRandom(spec, 1)
	w := newWalk(t, spec, src, chunks, o)
	cancel()
	if err := w.Look(ctx, src, Looks{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want a context that has ended", err)
	}
	must(t, w.Pass(t.Context(), src))
	// Text too short for any MTP layer.
	f := opened(t, "glm4_moe_mtp")
	w = newWalk(t, f.spec, f.source(), [][]int32{{3}, {}, {4}}, o)
	for range len(f.spec.Layers) + 1 {
		must(t, w.Look(t.Context(), f.source(), Looks{}))
		must(t, w.Pass(t.Context(), f.source()))
	}
	if w.Rows() != 0 {
		t.Errorf("%d rows", w.Rows())
	}
}
