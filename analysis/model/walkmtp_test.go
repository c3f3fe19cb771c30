package model

import (
	"errors"
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// mtpInputs gathers the inputs that MTP.Feed tells of every chunk, and what comes
// out of the layer.
func mtpInputs(t *testing.T, spec *Spec, src Source, chunks [][]int32) (*walked, []float32) {
	g, h := &walked{x: map[Place][]float32{}, choices: map[int][][]int32{}}, spec.Width()
	var out []float32
	for _, c := range chunks {
		if len(c) < 2 {
			continue
		}
		x := hiddenOf(t, spec, src, [][]int32{c}, quick())
		b, err := NewBatch(t.Context(), spec, src, quick())
		must(t, err)
		normed := make([]float32, len(x))
		b.Normed(normed, x)
		o, l := quick(), g
		o.Input = func(_ int, p Place, x []float32, n int) {
			if p.Kind != topology.Embedding && p.Kind != topology.Head {
				l.x[p] = append(l.x[p], x[:len(x)/n*n]...)
			}
		}
		o.Routed = func(_, layer int, _ []float32, choices []Choice) {
			for _, c := range choices {
				l.choices[layer] = append(l.choices[layer], slices.Clone(c.Experts))
			}
		}
		o.Layer = func(_, _ int, x []float32) { out = append(out, x...) }
		m, err := NewMTP(t.Context(), spec, src, o)
		must(t, err)
		_, err = m.Feed(t.Context(), normed[:(len(c)-1)*h], c[1:])
		must(t, err)
	}
	return g, out
}

// TestWalkIsMTP: in an MTP layer a walk tells the inputs that MTP.Feed tells of
// every chunk but its last token, eh_proj's and the own head's among them, and
// passes on the same hidden states.
func TestWalkIsMTP(t *testing.T) {
	for name, f := range walkModels(t) {
		if len(f.spec.MTP) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			chunks := texts(f.spec, 7, 40, 0, 1, 13, 2, 30, 16)
			want, out := mtpInputs(t, f.spec, f.source(), chunks)
			for _, c := range []struct {
				o     WalkOptions
				fork  bool
				along bool
			}{
				{WalkOptions{Set: kernels.Best(), Threads: 1}, true, false},
				{WalkOptions{Set: kernels.Best(), Threads: 2}, true, true},
				{WalkOptions{Set: kernels.Best(), Threads: 3, Wave: 1, Tile: 20}, true, false},
				{WalkOptions{Set: kernels.Best(), Threads: 2, Wave: 1, Tile: 20}, false, false},
			} {
				var src Source = f.source()
				if !c.fork {
					src = bare{src}
				}
				w := newWalk(t, f.spec, src, chunks, c.o)
				for range f.spec.Layers {
					must(t, w.Pass(t.Context(), src))
				}
				if at, ok := w.At(); !ok || at != &f.spec.MTP[0] || w.Rows() != 39+12+1+29+15 {
					t.Fatalf("at layer %+v with %d rows", at, w.Rows())
				}
				var g walked
				l := g.looks()
				if c.along {
					must(t, w.LookPass(t.Context(), src, l))
				} else {
					must(t, w.Look(t.Context(), src, Looks{})) // ends before the last maps, and leaves nothing behind
					must(t, w.Look(t.Context(), src, l))
					must(t, w.Pass(t.Context(), src))
				}
				if _, more := w.At(); more != (len(f.spec.MTP) > 1) {
					t.Errorf("a layer after the first MTP layer of %d: %t", len(f.spec.MTP), more)
				}
				sameBits(t, "hidden states", w.mtp.y, out)
				if len(g.x) != len(want.x) {
					t.Errorf("inputs of %d maps, want %d", len(g.x), len(want.x))
				}
				for p, x := range want.x {
					sameBits(t, p.String(), g.x[p], x)
				}
				into := map[string]int{"eh_proj": 96 * 2 * f.spec.Hidden}
				if f.spec.Hyper != nil {
					into = map[string]int{"e_proj": 96 * f.spec.Hidden, "h_proj": 96 * f.spec.Width()}
				}
				for name, n := range into {
					if at := moduleAt(&f.spec.MTP[0], name); len(g.x[at]) != n {
						t.Errorf("%d values go into %s, want %d", len(g.x[at]), at, n)
					}
				}
				g.checkHead(t, f, w, src, hiddenOf(t, f.spec, f.source(), chunks, quick()))
			}
		})
	}
}

// TestWalkOfSeveralMTP: each later module is given the states of the one before
// it and the token one further on.
func TestWalkOfSeveralMTP(t *testing.T) {
	f := opened(t, "glm4_moe_mtp")
	spec := *f.spec
	second := spec.MTP[0]
	spec.MTP = append(slices.Clone(spec.MTP), second)
	chunks := texts(&spec, 3, 12, 2, 9)
	src := f.source()
	w := newWalk(t, &spec, src, chunks, WalkOptions{Set: kernels.Best(), Threads: 2})
	for range len(spec.Layers) + 1 {
		must(t, w.Pass(t.Context(), src))
	}
	first := slices.Clone(w.mtp.y)
	if at, _ := w.At(); at != &spec.MTP[1] || w.Rows() != 10+7 {
		t.Fatalf("at %+v with %d rows", at, w.Rows())
	}
	var g walked
	must(t, w.Look(t.Context(), src, g.looks()))
	// The second module's eh_proj, made by hand.
	h := spec.Hidden
	r := newRun(&spec, quick(), nil)
	e, err := reader{ctx: t.Context(), spec: &spec, src: src}.entry(&spec.MTP[1])
	must(t, err)
	var want []float32
	for _, c := range []struct {
		chunk, from, n int
	}{{0, 0, 10}, {2, 11 + 1, 7}} {
		embedded := make([]float32, c.n*h)
		must(t, src.Rows(t.Context(), e.embedding, chunks[c.chunk][2:], embedded))
		s := r.worker(0, 1)
		_, err := r.enter(s, &spec.MTP[1], &e, embedded, first[c.from*h:][:c.n*h], nil)
		must(t, err)
		want = append(want, s.both...)
	}
	sameBits(t, "eh_proj", g.x[mtpExtra(&second, "eh_proj")], want)
	must(t, w.Pass(t.Context(), src))
	if _, ok := w.At(); ok || !errors.Is(w.Look(t.Context(), src, Looks{}), errPassed) || !errors.Is(w.Pass(t.Context(), src), errPassed) {
		t.Error("a layer comes after the last")
	}
}
