package model

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"quantscope/kernels"
)

// sameBits fails where two arrays differ in a bit.
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

func hiddenOf(t testing.TB, spec *Spec, src Source, chunks [][]int32, o Options) []float32 {
	t.Helper()
	out, err := Run(context.Background(), spec, []Source{src}, chunks, o)
	if err != nil {
		t.Fatal(err)
	}
	return out[0].X
}

// bare hides that a source can fork and where its weights come from.
type bare struct{ Source }

// TestSameBits: threads, sets of kernels, hooks, waves, reading ahead and keeping
// weights change no bit.
func TestSameBits(t *testing.T) {
	specs := map[string]*Spec{}
	sources := map[string]func() Source{}
	for _, name := range append([]string{"llama_rope_dynamic"}, plainModels...) {
		f := opened(t, name)
		specs[name], sources[name] = f.spec, func() Source { return f.source() }
	}
	wide := moeSpec(3, 64, 4, 2, 16, 48, 24, 3, 200)
	specs["random"], sources["random"] = wide, func() Source { return newRandom(wide, 3) }
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			chunks := texts(spec, 7, 9, 1, 13, 40, 30, 12, 20, 20, 35)
			for _, bf16 := range []bool{false, true} {
				o := Options{Set: kernels.Best(), Threads: 1, BF16: bf16}
				want := hiddenOf(t, spec, sources[name](), chunks, o)
				try := func(what string, src Source, o Options) {
					t.Helper()
					sameBits(t, what, hiddenOf(t, spec, src, chunks, o), want)
				}
				for _, threads := range []int{2, 3, 5} {
					o.Threads = threads
					try(fmt.Sprint(threads, " threads"), sources[name](), o)
				}
				o.Threads = 2
				for _, set := range kernels.Available() {
					o.Set = set
					got := hiddenOf(t, spec, sources[name](), chunks[:3], o)
					sameBits(t, "kernels "+set.Name, got, want[:len(got)])
				}
				try("no forks", bare{sources[name]()}, o)
				try("resident", NewResident(sources[name]()), o)
				o.Wave = 1
				try("an expert a wave", sources[name](), o)
				o.Input = func(int, Place, []float32, int) {}
				try("with a hook", sources[name](), o)
			}
		})
	}
}

// TestAnyGrouping: a text's bits do not depend on what else is in the pass, nor
// do those of a Pass that is used again.
func TestAnyGrouping(t *testing.T) {
	specs, sources := map[string]*Spec{}, map[string]Source{}
	for _, name := range append([]string{"llama_rope_dynamic"}, plainModels...) {
		f := opened(t, name)
		specs[name], sources[name] = f.spec, f.source()
	}
	// An MLP so wide that rows go through it in blocks.
	specs["wide"] = llamaSpec(1, 16, 2, 1, 8, 16500, 90)
	sources["wide"] = newRandom(specs["wide"], 1)
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			h := spec.Width()
			chunks := texts(spec, 5, 64, 3, 40, 100, 0, 64, 17)
			var alone [][]float32
			pass := NewPass(spec, []Source{sources[name]}, quick())
			for _, c := range chunks {
				out, err := pass.Run(t.Context(), [][]int32{c})
				if err != nil {
					t.Fatal(err)
				}
				alone = append(alone, slices.Clone(out[0].X))
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for range 3 {
				order := rng.Perm(len(chunks))
				var group [][]int32
				for _, i := range order {
					group = append(group, chunks[i])
				}
				out, err := pass.Run(t.Context(), group)
				if err != nil {
					t.Fatal(err)
				}
				x := out[0].X
				for _, i := range order {
					n := len(chunks[i]) * h
					sameBits(t, fmt.Sprintf("chunk %d in %v", i, order), x[:n], alone[i])
					x = x[n:]
				}
			}
		})
	}
}

// feed takes a text through a decoder in pieces.
func feed(t testing.TB, d *Decoder, text []int32, pieces []int) []float32 {
	t.Helper()
	var out []float32
	for _, n := range pieces {
		x, err := d.Feed(context.Background(), text[:n])
		if err != nil {
			t.Fatal(err)
		}
		out, text = append(out, x...), text[n:]
	}
	return out
}

// cuts are random lengths of pieces of n tokens.
func cuts(rng *rand.Rand, n int) (pieces []int) {
	for n > 0 {
		k := min(1+rng.IntN(9), n)
		pieces, n = append(pieces, k), n-k
	}
	return pieces
}

// TestDecoderIsRun: a text token by token, in pieces, and after going back, has
// the bits of the whole text at once.
func TestDecoderIsRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	check := func(t *testing.T, spec *Spec, src Source, n int) {
		text := texts(spec, 11, n)[0]
		want := hiddenOf(t, spec, src, [][]int32{text}, quick())
		d, err := NewDecoder(t.Context(), spec, NewResident(src), quick())
		if err != nil {
			t.Fatal(err)
		}
		sameBits(t, "in pieces", feed(t, d, text, cuts(rng, n)), want)
		back := n / 3
		d.Cut(n + 1) // there is no more
		if d.Len() != n {
			t.Fatalf("cut to %d of %d tokens, has %d", n+1, n, d.Len())
		}
		d.Cut(back)
		if d.Len() != back {
			t.Fatalf("cut to %d tokens, has %d", back, d.Len())
		}
		sameBits(t, "after going back", feed(t, d, text[back:], cuts(rng, n-back)), want[back*spec.Width():])
	}
	for _, name := range plainModels {
		t.Run(name, func(t *testing.T) {
			f := opened(t, name)
			check(t, f.spec, f.source(), 75)
		})
	}
	// A window that is longer than the blocks in which products sum, and heads in a
	// group: blocks of queries end at many places.
	t.Run("long window", func(t *testing.T) {
		spec := llamaSpec(2, 48, 6, 2, 16, 32, 100)
		spec.Layers[1].Attn.Window, spec.Layers[1].Attn.Sinks = 270, true
		check(t, spec, newRandom(spec, 9).keep(), 650)
	})
}

// TestDynamicRopeByItsText: the angles of a text depend on its own length.
func TestDynamicRopeByItsText(t *testing.T) {
	f := opened(t, "llama_rope_dynamic")
	long := texts(f.spec, 3, 200)[0]
	x := hiddenOf(t, f.spec, f.source(), [][]int32{long, long[:100]}, quick())
	n := 100 * f.spec.Hidden
	if slices.Equal(x[:n], x[200*f.spec.Hidden:]) {
		t.Error("a text of 200 tokens begins as one of 100, in spite of dynamic rope")
	}
	r := f.spec.Layers[0].Attn.Rope
	if a, b := r.Frequencies(10), r.Frequencies(r.Max); !slices.Equal(a, b) {
		t.Errorf("up to %d tokens frequencies are %v and %v", r.Max, a, b)
	}
}

// TestBF16Of rounds the activations of one party alone.
func TestBF16Of(t *testing.T) {
	spec := moeSpec(3, 48, 4, 2, 12, 40, 8, 2, 90)
	chunks, src := texts(spec, 2, 30, 30), newRandom(spec, 1)
	o := quick()
	plain := hiddenOf(t, spec, src, chunks, o)
	o.BF16 = true
	rounded := hiddenOf(t, spec, src, chunks, o)
	o.BF16, o.BF16Of = false, []bool{false, true}
	out, err := Run(t.Context(), spec, []Source{src.Fork(), src.Fork(), src.Fork()}, chunks, o)
	if err != nil {
		t.Fatal(err)
	}
	sameBits(t, "f32", out[0].X, plain)
	sameBits(t, "bf16", out[1].X, rounded)
	sameBits(t, "f32 after it", out[2].X, plain)
	if slices.Equal(plain, rounded) {
		t.Error("bf16 activations change nothing")
	}
	for i, v := range rounded {
		if math.Float32bits(v)&0xffff != 0 {
			t.Fatalf("value %d of the bf16 pass is %g, which is no bf16 number", i, v)
		}
	}
}
