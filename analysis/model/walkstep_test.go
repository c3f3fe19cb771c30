package model

import (
	"runtime"
	"sync/atomic"
	"testing"

	"quantscope/kernels"
)

// A pass tells how far it is in ascending order up to the layer's rows, and a look
// no further; with several threads never twice at once.
func TestWalkTellsSteps(t *testing.T) {
	for name, f := range walkModels(t) {
		chunks := make([][]int32, 6)
		for i := range chunks {
			for k := range 40 {
				chunks[i] = append(chunks[i], int32((7*i+3*k)%f.spec.Vocab))
			}
		}
		for _, threads := range []int{1, 3} {
			var told []int
			var inside atomic.Int32
			w := newWalk(t, f.spec, f.source(), chunks, WalkOptions{Set: kernels.Best(), Threads: threads, Tile: 50, Step: func(rows int) {
				if inside.Add(1) != 1 {
					t.Errorf("%s: told twice at once", name)
				}
				for range 50 { // time for another to come in
					runtime.Gosched()
				}
				told = append(told, rows)
				inside.Add(-1)
			}})
			for l, ok := w.At(); ok; l, ok = w.At() {
				rows := w.Rows()
				for _, pass := range []bool{false, true} {
					told = told[:0]
					if pass {
						must(t, w.Pass(t.Context(), f.source()))
					} else {
						must(t, w.Look(t.Context(), f.source(), Looks{Input: func(Place, []float32, int) {}}))
					}
					last := 0
					for _, n := range told {
						if n < last || n > rows {
							t.Fatalf("%s: layer %d, %d threads: %v of %d rows", name, l.Index, threads, told, rows)
						}
						last = n
					}
					if threads == 1 && (last != rows || len(told) < 3) {
						t.Fatalf("%s: layer %d: %v of %d rows", name, l.Index, told, rows)
					}
				}
			}
		}
	}
}
