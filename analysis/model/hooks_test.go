package model

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// inputs gathers what Options.Input says, and what the routers chose.
type inputs struct {
	t       *testing.T
	x       map[Place][]float32
	order   []Place
	choices map[int][][]int32
}

func gather(t *testing.T, spec *Spec, src Source, chunks [][]int32, o Options) *inputs {
	g := &inputs{t, map[Place][]float32{}, nil, map[int][][]int32{}}
	o.Input = func(c int, p Place, x []float32, n int) {
		if c != 0 {
			t.Fatalf("candidate %d", c)
		}
		g.x[p] = append(g.x[p], x[:len(x)/n*n]...)
		g.order = append(g.order, p)
	}
	o.Routed = func(_, layer int, _ []float32, choices []Choice) {
		for _, c := range choices {
			g.choices[layer] = append(g.choices[layer], slices.Clone(c.Experts))
		}
	}
	hiddenOf(t, spec, src, chunks, o)
	return g
}

// TestInputs: every linear map's inputs come exactly once and in order: those of
// a dense map from every row, those of an expert from the rows that chose it.
// What the maps make of them is what the next ones get.
func TestInputs(t *testing.T) {
	for _, name := range plainModels {
		t.Run(name, func(t *testing.T) {
			f := opened(t, name)
			src := f.source()
			chunks := texts(f.spec, 8, 40, 9, 25)
			const rows = 40 + 9 + 25
			g := gather(t, f.spec, src, chunks, Options{Set: kernels.Best(), Threads: 2})
			seen := 0
			width := func(p Place) int {
				w, err := src.Weight(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				return w.Cols
			}
			for i := range f.spec.Layers {
				l := &f.spec.Layers[i]
				for _, p := range l.places(f.spec) {
					if !src.Has(p, "weight") {
						continue // q or q_a and q_b
					}
					x, cols, want := g.x[p], width(p), rows
					if p.Kind == topology.Expert {
						want = 0
						for _, c := range g.choices[i] {
							if slices.Contains(c, int32(p.Expert)) {
								want++
							}
						}
					}
					want *= timesOf(f.spec, l, p)
					if len(x) != want*cols {
						t.Errorf("%s: %d values, want %d rows of %d", p, len(x), want, cols)
					}
					if want > 0 {
						seen++
					}
				}
				for _, n := range l.Tensors(f.spec) { // maps of one input
					if n.Linear() && n.Input != router(l) && n.At.Kind != topology.Expert && n.At != n.Told {
						sameBits(t, n.At.String(), g.x[n.At], g.x[n.Told])
					}
				}
				if l.MoE == nil || l.Beside != nil {
					g.checkGated(src, f.spec, l.MLP, func(n string) Place { return l.mlp(topology.MLP, n) })
				}
				if l.MoE != nil {
					g.checkExperts(src, f.spec, l)
				}
				if l.Beside != nil {
					seen++ // what all experts read
				}
			}
			if f.spec.PerLayer != nil {
				x := make([]float32, rows*f.spec.Hidden)
				must(t, newRun(f.spec, quick(), nil).embed(t.Context(), src, slices.Concat(chunks...), false, x))
				sameBits(t, "the embeddings", g.x[perLayerModel], x)
				seen++
			}
			if seen != len(g.x) {
				t.Errorf("inputs of %d maps, want %d", len(g.x), seen)
			}
			again := gather(t, f.spec, src, chunks, Options{Set: kernels.Best(), Threads: 5})
			if !slices.Equal(again.order, g.order) {
				t.Error("another number of threads calls in another order")
			}
		})
	}
}

// checkExperts: an expert gets the rows of those tokens that chose it, which are
// those that the router got.
func (g *inputs) checkExperts(src Source, spec *Spec, l *Layer) {
	g.t.Helper()
	h := spec.Hidden
	all := g.x[InputOf(expert(l, 0, "gate"), l.Behind())]
	for e := range l.MoE.Experts {
		var want []float32
		for t, c := range g.choices[l.Index] {
			if slices.Contains(c, int32(e)) {
				want = append(want, all[t*h:(t+1)*h]...)
			}
		}
		sameBits(g.t, fmt.Sprintf("layer %d expert %d", l.Index, e), g.x[expert(l, e, "gate")], want)
		if len(want) > 0 {
			g.checkGated(src, spec, l.MoE.FeedForward, func(n string) Place { return expert(l, e, n) })
		}
	}
	if l.MoE.Shared > 0 {
		shared := func(n string) Place { return l.mlp(topology.SharedExpert, n) }
		sameBits(g.t, "the shared expert", g.x[shared("gate")], all)
		g.checkGated(src, spec, l.MoE.shared(), shared)
	}
}

// checkGated computes down's input from gate's.
func (g *inputs) checkGated(src Source, spec *Spec, f FeedForward, place func(string) Place) {
	g.t.Helper()
	x := g.x[place("gate")]
	sameBits(g.t, "up's input", g.x[place("up")], x)
	r := newRun(spec, Options{Set: kernels.Best(), Threads: 1}, nil)
	rd := reader{ctx: context.Background(), spec: spec, src: src}
	n := len(x) / spec.Hidden
	var out [2][]float32
	for i, name := range []string{"gate", "up"} {
		w, err := rd.linear(place(name), f.Inner, spec.Hidden)
		if err != nil {
			g.t.Fatal(err)
		}
		if out[i], err = r.apply(r.worker(0, 1), w, x, n, nil); err != nil {
			g.t.Fatal(err)
		}
	}
	f.apply(r.o.Set, out[0], out[1])
	sameBits(g.t, place("down").String(), g.x[place("down")], out[0])
}

// TestLayerHooks: Layer sees the embeddings and every layer, Done every layer,
// and RMS is that of what Layer saw.
func TestLayerHooks(t *testing.T) {
	f := opened(t, "qwen3_moe")
	var after, done []int
	var rms []float64
	o := quick()
	o.Layer = func(_, n int, x []float32) {
		after = append(after, n)
		var sum float64
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		rms = append(rms, sum/float64(len(x)))
	}
	o.Done = func(_, layer int) { done = append(done, layer) }
	out, err := Run(t.Context(), f.spec, []Source{f.source()}, texts(f.spec, 1, 20, 30), o)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(after, []int{0, 1, 2}) || !slices.Equal(done, []int{0, 1}) || len(out[0].RMS) != 3 {
		t.Fatalf("layers after %v, done %v, %d norms", after, done, len(out[0].RMS))
	}
	for i, want := range rms {
		if got := out[0].RMS[i] * out[0].RMS[i]; !(got > want*(1-1e-12) && got < want*(1+1e-12)) {
			t.Errorf("after %d: mean square %g, want %g", i, got, want)
		}
	}
}

// TestRoutersAreExact: activations are rounded to bf16, what routers say of them
// is not, as in every peer.
func TestRoutersAreExact(t *testing.T) {
	f := opened(t, "qwen3_moe")
	o, rounded, all := quick(), 0, 0
	o.BF16 = true
	o.Routed = func(_, _ int, logits []float32, _ []Choice) {
		for _, x := range logits {
			if all++; math.Float32bits(x)&0xffff == 0 {
				rounded++
			}
		}
	}
	hiddenOf(t, f.spec, f.source(), texts(f.spec, 3, 40), o)
	if all == 0 || rounded > all/100 {
		t.Errorf("%d of %d router logits are bf16", rounded, all)
	}
}

// timesOf is how many inputs of a map are told of each token.
func timesOf(s *Spec, l *Layer, p Place) int {
	for _, n := range l.Tensors(s) {
		if n.At == p {
			return max(n.Times, 1)
		}
	}
	return 1
}
