package calibrate

import (
	"context"
	"errors"
	"slices"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// collected are models of every family.
var collected = []string{
	"demo", "llama_tied", "qwen2", "qwen3", "qwen3_moe", "mixtral", "glm4_moe_mtp", "gemma3_text", "deepseek_v3", "deepseek_v3_mtp", "gpt_oss", "gemma4_moe", "gemma4_ple",
}

// TestInputs: every map's input is one of Inputs, named by InputOf, with its width
// and, but for experts' gate and up, with its very rows.
func TestInputs(t *testing.T) {
	for _, name := range collected {
		t.Run(name, func(t *testing.T) {
			o := openModel(t, name)
			src := o.source()
			g := tell(t, o, someTexts(o.spec.Vocab, 3, 9, 21, 14))
			known := map[model.Place]Input{}
			layers := slices.Concat(o.spec.Layers, o.spec.MTP)
			behind := map[int]model.Behind{}
			for i := range layers {
				behind[layers[i].Index] = layers[i].Behind()
				for _, in := range Inputs(o.spec, &layers[i], OwnHead(src, &layers[i])) {
					if _, twice := known[in.At]; twice {
						t.Errorf("%s is listed twice", in.At)
					}
					known[in.At] = in
				}
			}
			head := HeadInput(o.spec, src)
			known[head.At] = head
			used := map[model.Place]bool{}
			for p, x := range g.x {
				if p.Kind == topology.Mixing && p.Layer < 0 || p == model.ExpertsInput(p.Layer) {
					continue // before the layers; what all experts read, which is no map
				}
				in, ok := known[model.InputOf(p, behind[p.Layer])]
				if !ok {
					t.Fatalf("%s reads %s, which is not listed", p, model.InputOf(p, behind[p.Layer]))
				}
				used[in.At] = true
				if len(g.x[in.told])%in.N != 0 {
					t.Errorf("%s: %d values are no rows of %d", in.At, len(x), in.N)
				}
				if p.Kind != topology.Expert || p.Projection == "down" {
					sameBits(t, p.String(), x, g.x[in.told])
				}
				if w, err := src.Weight(t.Context(), p); err != nil || w.Cols != in.N {
					t.Errorf("%s has %d columns, its input %d (%v)", p, w.Cols, in.N, err)
				}
			}
			for at := range known {
				if !used[at] && at.Kind != topology.Expert {
					t.Errorf("%s is listed and read by no map", at)
				}
			}
		})
	}
}

// wantsOf asks for all of a layer, Hessians too unless sums says otherwise.
func wantsOf(o *opened, l *model.Layer, sums func(Input) bool) []Want {
	var out []Want
	for _, in := range Inputs(o.spec, l, OwnHead(o.source(), l)) {
		out = append(out, Want{Input: in, Hessian: sums == nil || !sums(in)})
	}
	return out
}

// checkMoments compares moments with one SYRK of all rows, and with a sum in
// order.
func checkMoments(t testing.TB, m *Moments, x []float32, hessian bool) {
	t.Helper()
	rows := len(x) / m.N
	if m.Rows != int64(rows) || len(m.Sum2) != m.N {
		t.Fatalf("%s: %d rows, %d sums; want %d and %d", m.At, m.Rows, len(m.Sum2), rows, m.N)
	}
	for c := range m.N {
		var sum float64
		for r := range rows {
			v := float64(x[r*m.N+c])
			sum += v * v
		}
		if sum != m.Sum2[c] {
			t.Fatalf("%s: column %d sums to %g, want %g", m.At, c, m.Sum2[c], sum)
		}
	}
	if !hessian || rows == 0 {
		if m.H.Data != nil {
			t.Fatalf("%s has a Hessian", m.At)
		}
		return
	}
	h, err := kernels.NewDense(m.N, m.N)
	must(t, err)
	must(t, kernels.Best().SYRK(h, kernels.DenseOperand(kernels.Dense{Rows: rows, Cols: m.N, Stride: m.N, Data: x}), kernels.GEMMOptions{Alpha: 1, Threads: 1}))
	if m.H.Rows != m.N || m.H.Cols != m.N || m.H.Stride != m.N {
		t.Fatalf("%s: a Hessian of %d×%d", m.At, m.H.Rows, m.H.Cols)
	}
	sameBits(t, m.At.String(), m.H.Data, h.Data)
}

// TestCollect: moments are those of one sum over all rows, bit for bit, for any
// cut of the layer into waves, threads, tiles and both ways through a layer; counts
// are those of the router's choices.
func TestCollect(t *testing.T) {
	for _, name := range collected {
		t.Run(name, func(t *testing.T) {
			o := openModel(t, name)
			// More rows than a panel is deep, in chunks that end anywhere.
			chunks := someTexts(o.spec.Vocab, 3, 120, 1, 77, 0, 119, 64, 111, 90, 25, 100)
			want := tell(t, o, chunks)
			for i, c := range []struct {
				threads, tile int
				mem           int64
				pass          bool
				sums          func(Input) bool
				b             batching
			}{
				{1, 0, 0, false, nil, usual}, {2, 0, 0, true, nil, usual}, {3, 130, 1, false, nil, usual},
				{2, 200, 40 << 10, true, nil, batching{1, kernels.PanelDepth}}, {2, 0, 0, false, nil, batching{1 << 20, kernels.PanelDepth}},
				{2, 0, 1 << 20, true, func(in Input) bool { return in.At.Kind == topology.Expert || in.At.Projection == "o" }, batching{1, 2 * kernels.PanelDepth}},
				{1, 0, 1, true, func(Input) bool { return true }, usual},
			} {
				w, err := model.NewWalk(t.Context(), o.spec, o.source(), chunks, model.WalkOptions{Set: kernels.Best(), Threads: c.threads, Tile: c.tile})
				must(t, err)
				defer w.Close()
				col := NewCollector(CollectOptions{Set: kernels.Best(), Threads: c.threads, Mem: c.mem})
				col.b = c.b
				src := o.source()
				for l, ok := w.At(); ok; l, ok = w.At() {
					wants := wantsOf(o, l, c.sums)
					done, last := 0, false
					each := func(v Wave) error {
						if last {
							t.Error("a wave after the last")
						}
						last = v.Last
						for _, m := range v.Moments {
							if m.At != wants[done].At {
								t.Fatalf("%s in the place of %s", m.At, wants[done].At)
							}
							checkMoments(t, m, want.x[wants[done].told], wants[done].Hessian)
							done++
						}
						checkCounts(t, l, v.Counts, want.choice[l.Index])
						return nil
					}
					if c.pass {
						must(t, col.LayerPass(t.Context(), w, src, wants, each))
					} else {
						must(t, col.Layer(t.Context(), w, src, wants, each))
						must(t, w.Pass(t.Context(), src))
					}
					if done != len(wants) || !last {
						t.Fatalf("case %d, layer %d: %d of %d inputs", i, l.Index, done, len(wants))
					}
				}
				in := HeadInput(o.spec, src)
				must(t, col.Head(t.Context(), w, src, Want{Input: in, Hessian: true}, func(v Wave) error {
					checkMoments(t, v.Moments[0], want.x[in.told], true)
					return nil
				}))
				if col.squares.lent != 0 || col.batches.lent != 0 {
					t.Errorf("case %d: %d and %d bytes were not given back", i, col.squares.lent, col.batches.lent)
				}
			}
		})
	}
}

func checkCounts(t testing.TB, l *model.Layer, c *Counts, choices [][]int32) {
	t.Helper()
	if (c != nil) != (l.MoE != nil) {
		t.Fatalf("layer %d: counts %v", l.Index, c)
	}
	if c == nil {
		return
	}
	want := make([]int64, l.MoE.Experts)
	for _, row := range choices {
		for _, e := range row {
			want[e]++
		}
	}
	if c.Layer != l.Index || c.MTP != l.MTP || c.Tokens != int64(len(choices)) || c.TopK != l.MoE.TopK || !slices.Equal(c.Expert, want) {
		t.Errorf("layer %d: counts %+v, want %v of %d", l.Index, c, want, len(choices))
	}
}

// TestCollectWaves: as many inputs go together as the memory has room for, and
// a wave of experts reads no other experts' weights.
func TestCollectWaves(t *testing.T) {
	o := openModel(t, "qwen3_moe")
	l := &o.spec.Layers[0]
	wants := wantsOf(o, l, nil)
	var sizes []int64
	for i := range wants {
		sizes = append(sizes, wants[i].bytes())
	}
	for _, mem := range []int64{1, slices.Max(sizes), 3 * slices.Max(sizes), 1 << 30} {
		w, err := model.NewWalk(t.Context(), o.spec, o.source(), someTexts(o.spec.Vocab, 1, 40), model.WalkOptions{Set: kernels.Best(), Threads: 2})
		must(t, err)
		defer w.Close()
		at, waves := 0, 0
		must(t, NewCollector(CollectOptions{Set: kernels.Best(), Mem: mem}).Layer(t.Context(), w, o.source(), wants, func(v Wave) error {
			var sum int64
			for range v.Moments {
				sum += sizes[at]
				at++
			}
			if sum > mem && len(v.Moments) > 1 {
				t.Errorf("%d bytes in a wave that may have %d", sum, mem)
			}
			if at < len(sizes) && sum+sizes[at] <= mem {
				t.Errorf("a wave of %d bytes has room for %d more of %d", sum, sizes[at], mem)
			}
			waves++
			return nil
		}))
		if at != len(wants) || mem == 1 && waves != len(wants) || mem == 1<<30 && waves != 1 {
			t.Errorf("%d bytes: %d inputs in %d waves", mem, at, waves)
		}
	}
}

// TestCollectEnds: a context that has ended, and an error of who takes the
// moments, end the measuring.
func TestCollectEnds(t *testing.T) {
	o := openModel(t, "qwen3_moe")
	w, err := model.NewWalk(t.Context(), o.spec, o.source(), someTexts(o.spec.Vocab, 1, 40), model.WalkOptions{Set: kernels.Best(), Threads: 2})
	must(t, err)
	defer w.Close()
	col := NewCollector(CollectOptions{Set: kernels.Best(), Mem: 1})
	enough := errors.New("enough")
	n := 0
	err = col.Layer(t.Context(), w, o.source(), wantsOf(o, &o.spec.Layers[0], nil), func(Wave) error {
		if n++; n == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 2 {
		t.Errorf("%v after %d waves", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := col.Layer(ctx, w, o.source(), wantsOf(o, &o.spec.Layers[0], nil), nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// Nothing is wanted: counts come all the same.
	calls := 0
	must(t, col.Layer(t.Context(), w, o.source(), nil, func(v Wave) error {
		calls++
		if v.Counts == nil || !v.Last || len(v.Moments) != 0 {
			t.Errorf("%+v", v)
		}
		return nil
	}))
	if calls != 1 {
		t.Errorf("%d waves of nothing", calls)
	}
	if col.squares.lent != 0 || col.batches.lent != 0 {
		t.Error("memory was not given back")
	}
}

// TestPool: memory is used again by its length, and a pool forgets what lies idle
// rather than to be more than its limit.
func TestPool(t *testing.T) {
	p := pool{limit: 4 * 100}
	a, b := p.get(60), p.get(40)
	p.put(a)
	if again := p.get(60); &again[0] != &a[0] {
		t.Error("memory of the same length is not used again")
	}
	p.put(a)
	p.put(b)
	if p.lent != 0 || p.idle != 400 {
		t.Fatalf("%d bytes are lent and %d idle", p.lent, p.idle)
	}
	p.get(70)
	if p.lent != 280 || p.idle != 0 {
		t.Errorf("%d bytes are lent and %d idle, of 400 at most", p.lent, p.idle)
	}
}
