package model

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// added are what Options.Adds says of one candidate, by layer and part.
type added struct {
	y     map[int]*[3][]float32
	order []string
}

func newAdded() *added { return &added{y: map[int]*[3][]float32{}} }

func (a *added) take(layer int, p Part, y []float32, n int) {
	if a.y[layer] == nil {
		a.y[layer] = &[3][]float32{}
	}
	a.y[layer][p] = append(a.y[layer][p], y...)
	a.order = append(a.order, fmt.Sprint(layer, p, n))
}

// TestAddsMakeTheStream: what the parts of a layer add is what leads from the hidden
// states before it to those after it, bit for bit, in every architecture; it comes in
// the same order for any number of threads and changes nothing.
func TestAddsMakeTheStream(t *testing.T) {
	for _, name := range plainModels {
		t.Run(name, func(t *testing.T) {
			f := opened(t, name)
			chunks := texts(f.spec, 8, 40, 9, 25, 1)
			plain := hiddenOf(t, f.spec, f.source(), chunks, quick())
			var orders [][]string
			for _, threads := range []int{1, 2, 5} {
				got := newAdded()
				var stream [][]float32
				o := Options{Set: kernels.Best(), Threads: threads, Tile: 30}
				o.Adds = func(_, layer int, p Part, y []float32, n int) {
					if len(y) != n*f.spec.Hidden {
						t.Fatalf("%d values of %d rows", len(y), n)
					}
					got.take(layer, p, y, n)
				}
				o.Layer = func(_, _ int, x []float32) { stream = append(stream, slices.Clone(x)) }
				sameBits(t, "hidden states", hiddenOf(t, f.spec, f.source(), chunks, o), plain)
				for i := range f.spec.Layers {
					if f.spec.Hyper != nil {
						x := stream[i]
						for p, y := range got.y[i][:2] {
							x = streamsAfter(t, f, Part(p), i, x, y)
						}
						within(t, fmt.Sprintf("layer %d", i), x, stream[i+1], 1e-5)
						continue
					}
					x := slices.Clone(stream[i])
					for _, y := range got.y[i] {
						for k, v := range y {
							x[k] += v
						}
					}
					if l := &f.spec.Layers[i]; l.Scalar {
						s, err := f.source().Vector(t.Context(), mixingAt(l, "layer_scalar"), "weight")
						must(t, err)
						for k := range x {
							x[k] *= s[0]
						}
					}
					sameBits(t, fmt.Sprintf("layer %d", i), x, stream[i+1])
				}
				orders = append(orders, got.order)
			}
			if !slices.Equal(orders[0], orders[1]) || !slices.Equal(orders[0], orders[2]) {
				t.Error("another number of threads tells in another order")
			}
		})
	}
}

// plainMap is x·Wᵀ of one row in f64.
func plainMap(t *testing.T, src Source, p Place, x []float32) []float64 {
	t.Helper()
	w, err := src.Weight(t.Context(), p)
	must(t, err)
	defer src.Release()
	rows := make([]float32, w.Rows*w.Cols)
	must(t, kernels.Best().ExpandRows(rows, w.Operand, 0))
	out := make([]float64, w.Rows)
	for r := range out {
		for c := range w.Cols {
			out[r] += float64(rows[r*w.Cols+c]) * float64(x[c])
		}
	}
	return out
}

// TestAddsAreTheOutputs: what is told of attention is W_o times what goes into it, of
// an MLP W_down times that, of experts the sum weighed as the router says, each behind
// its norm where the architecture has one.
func TestAddsAreTheOutputs(t *testing.T) {
	for _, name := range []string{"llama_tied", "qwen3_moe", "gemma3_text"} {
		t.Run(name, func(t *testing.T) {
			f := opened(t, name)
			src, h := f.source(), f.spec.Hidden
			chunks := texts(f.spec, 3, 6, 3)
			const rows = 9
			in := gather(t, f.spec, f.source(), chunks, quick())
			routed := map[int][]Choice{}
			got := newAdded()
			o := quick()
			o.Adds = func(_, layer int, p Part, y []float32, n int) { got.take(layer, p, y, n) }
			o.Routed = func(_, layer int, _ []float32, c []Choice) {
				for _, c := range c {
					routed[layer] = append(routed[layer], Choice{slices.Clone(c.Experts), slices.Clone(c.Weights)})
				}
			}
			hiddenOf(t, f.spec, f.source(), chunks, o)
			row := func(p Place, i int) []float32 {
				width := len(in.x[p]) / rows
				return in.x[p][i*width:][:width]
			}
			for i := range f.spec.Layers {
				l := &f.spec.Layers[i]
				seen := map[int32]int{} // rows that experts had so far
				for k := range rows {
					want := [2][]float64{plainMap(t, src, attn(l, "o"), row(attn(l, "o"), k)), make([]float64, h)}
					if l.MoE == nil {
						want[1] = plainMap(t, src, l.mlp(topology.MLP, "down"), row(l.mlp(topology.MLP, "down"), k))
					} else {
						for j, e := range routed[i][k].Experts {
							x := in.x[expert(l, int(e), "down")][seen[e]*l.MoE.Inner:][:l.MoE.Inner]
							seen[e]++
							for c, v := range plainMap(t, src, expert(l, int(e), "down"), x) {
								want[1][c] += float64(routed[i][k].Weights[j]) * v
							}
						}
					}
					for p, norm := range []string{"post_attention_layernorm", "post_feedforward_layernorm"} {
						if name == "gemma3_text" {
							w, _ := golden{t, f.ck}.values(fmt.Sprintf("model.layers.%d.%s.weight", i, norm))
							var sum float64
							for _, v := range want[p] {
								sum += v * v
							}
							for c := range want[p] {
								want[p][c] *= (1 + float64(w[c])) / math.Sqrt(sum/float64(h)+l.Norm.Eps)
							}
						}
						for c, v := range want[p] {
							if y := float64(got.y[i][p][k*h+c]); math.Abs(y-v) > 1e-5*(1+math.Abs(v)) {
								t.Fatalf("layer %d, %s, row %d, channel %d: %g, want %g", i, Part(p), k, c, y, v)
							}
						}
					}
				}
			}
		})
	}
}

// TestAddsOfShared: candidates that share a layer are told of all the same, with what
// each of them has alone.
func TestAddsOfShared(t *testing.T) {
	spec := moeSpec(4, 48, 4, 2, 12, 40, 8, 2, 90)
	chunks := texts(spec, 2, 50, 20, 64)
	make := func() []Source {
		ref := newRandom(spec, 1)
		late := ref.with(2, 7)
		return []Source{ref, late, ref, ref.with(1, 7), late.with(3, 9)}
	}
	tell := func(of []*added) func(int, int, Part, []float32, int) {
		return func(c, layer int, p Part, y []float32, n int) { of[c].take(layer, p, y, n) }
	}
	together := []*added{newAdded(), newAdded(), newAdded(), newAdded(), newAdded()}
	o := quick()
	o.Adds = tell(together)
	if _, err := Run(t.Context(), spec, make(), chunks, o); err != nil {
		t.Fatal(err)
	}
	for c, src := range make() {
		alone := newAdded()
		o.Adds = tell([]*added{alone})
		hiddenOf(t, spec, src, chunks, o)
		if !slices.Equal(together[c].order, alone.order) {
			t.Errorf("candidate %d: told %v, want %v", c, together[c].order, alone.order)
		}
		for i := range spec.Layers {
			for p := range 2 {
				sameBits(t, fmt.Sprintf("candidate %d, layer %d, %s", c, i, Part(p)), together[c].y[i][p], alone.y[i][p])
			}
		}
	}
}
