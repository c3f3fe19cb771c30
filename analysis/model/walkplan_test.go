package model

import (
	"testing"

	"quantscope/kernels"
)

// TestWalkNeedsKept: a walk, looked at and passed, takes no more memory than is
// said, of weights, hidden states and what is computed in, and not a small part of it.
func TestWalkNeedsKept(t *testing.T) {
	for _, c := range []struct {
		name   string
		spec   *Spec
		chunks []int
		o      WalkOptions
	}{
		{"experts", moeSpec(4, 256, 4, 2, 32, 256, 96, 2, 100), []int{64, 64, 64, 20}, WalkOptions{Threads: 2}},
		{"few experts at a time", moeSpec(3, 256, 4, 2, 32, 256, 96, 2, 100), []int{64, 64, 64, 20}, WalkOptions{Threads: 3, Wave: 1 << 20, Tile: 1}},
		{"dense", llamaSpec(4, 512, 8, 2, 64, 1024, 100), []int{64, 200, 30}, WalkOptions{Threads: 2}},
		{"many rows", llamaSpec(3, 64, 2, 2, 32, 128, 100), []int{512, 512, 512, 512, 512, 512, 512, 512}, WalkOptions{Threads: 2}},
		{"one thread", llamaSpec(3, 64, 2, 2, 32, 128, 100), []int{512, 512, 512, 512, 512}, WalkOptions{Threads: 1}},
		{"wide", llamaSpec(1, 64, 2, 2, 32, 16384, 100), []int{256, 256}, WalkOptions{Threads: 2}},
		{"lending", lendingSpec(5, 128, 4, 4, 64, 192, 100, 64), []int{128, 128, 40}, WalkOptions{Threads: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Set = kernels.Best()
			chunks := texts(c.spec, 1, c.chunks...)
			rows, chunk := 0, 0
			for _, n := range c.chunks {
				rows, chunk = rows+n, max(chunk, n)
			}
			ref, through := newRandom(c.spec, 1), newRandom(c.spec, 2)
			through.shared = ref.shared // which counts the bytes of both
			w := newWalk(t, c.spec, ref, chunks, c.o)
			for range c.spec.Layers {
				must(t, w.Look(t.Context(), ref, Looks{Input: func(Place, []float32, int) {}}))
				must(t, w.Pass(t.Context(), through))
			}
			// Without Wave walks read defaultWave at a time; WalkNeeds says one expert.
			o := c.o
			if o.Wave == 0 {
				o.Wave = defaultWave
			}
			need := WalkNeeds(c.spec, int64(rows), chunk, 16, o)
			weights := ref.shared.peak.Load()
			if most := need.Weights + need.Experts; weights > most {
				t.Errorf("%d bytes of weights, of %d said", weights, most)
			}
			rest := w.r.bytes() + 4*int64(cap(w.x)+cap(w.mtp.y)+cap(w.tokens)+cap(w.layers))
			for _, l := range w.spare {
				rest += 4 * int64(cap(l.k)+cap(l.v))
			}
			if c.spec.PerLayer != nil {
				rest += 4 * int64(cap(w.x)) // a look's copy
			}
			if most := need.States + need.Work; rest > most || float64(rest) < 0.3*float64(most-int64(c.o.Threads)*workBytes) {
				t.Errorf("%d bytes beside weights, of %d said", rest, most)
			}
		})
	}
}

// TestWalkNeedsOfMTP: a module's states and what goes into eh_proj are counted.
func TestWalkNeedsOfMTP(t *testing.T) {
	f := opened(t, "deepseek_v3_mtp")
	o := WalkOptions{Set: kernels.Best(), Threads: 2}
	src := f.source()
	w := newWalk(t, f.spec, src, texts(f.spec, 1, 300, 300, 300), o)
	for range len(f.spec.Layers) + len(f.spec.MTP) {
		must(t, w.Look(t.Context(), src, Looks{Input: func(Place, []float32, int) {}}))
		must(t, w.Pass(t.Context(), src))
	}
	need := WalkNeeds(f.spec, 900, 300, 32, o)
	if rest := w.r.bytes() + 4*int64(cap(w.x)+cap(w.mtp.y)+cap(w.tokens)); rest > need.States+need.Work {
		t.Errorf("%d bytes beside weights, of %d said", rest, need.States+need.Work)
	}
	plain := *f.spec
	plain.MTP = nil
	if less := WalkNeeds(&plain, 900, 300, 32, o); need.States-less.States < 900*4*int64(f.spec.Hidden) {
		t.Errorf("a module's states take %d bytes", need.States-less.States)
	}
}
