package speed

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"quantscope/kernels"
	"quantscope/quant/method"
)

// makeMatrices is, for each thread, matrices of normal bf16 weights. They are
// made of one block of numbers: what the numbers are does not change the rate.
func makeMatrices(threads int, maxBytes int64) [][]kernels.Matrix {
	n := int(min(perThread, max(maxBytes/int64(threads)/matrixBytes, 1)))
	rng := rand.New(rand.NewPCG(1, 2))
	block := make([]byte, matrixBytes)
	for i := 0; i < len(block); i += 2 {
		binary.LittleEndian.PutUint16(block[i:], kernels.F32ToBF16(float32(0.02*rng.NormFloat64())))
	}
	out := make([][]kernels.Matrix, threads)
	for t := range out {
		for range n {
			out[t] = append(out[t], kernels.Matrix{Element: kernels.BF16, Rows: matrixRows, Cols: matrixCols, Data: slices.Clone(block)})
		}
	}
	return out
}

// measureVariant quantizes matrices with codes and scales written, each thread
// its own, until time is up.
func measureVariant(ctx context.Context, v method.Variant, set kernels.Set, sources [][]kernels.Matrix, each time.Duration) (Kernel, error) {
	threads := len(sources)
	workers := make([]*worker, threads)
	for i, list := range sources {
		w, err := newWorker(v, set, list)
		if err != nil {
			return Kernel{}, fmt.Errorf("speed: %s: %w", v.Name, err)
		}
		workers[i] = w
	}
	counts, errs := make([]int, threads), make([]error, threads)
	var wg sync.WaitGroup
	start := time.Now()
	for i, w := range workers {
		wg.Go(func() {
			for errs[i] == nil && ctx.Err() == nil {
				errs[i] = w.once()
				if counts[i]++; time.Since(start) >= each {
					return // once at least
				}
			}
		})
	}
	wg.Wait()
	seconds := time.Since(start).Seconds()
	total := 0
	for i := range counts {
		if errs[i] != nil {
			return Kernel{}, fmt.Errorf("speed: %s: %w", v.Name, errs[i])
		}
		total += counts[i]
	}
	if err := ctx.Err(); err != nil {
		return Kernel{}, err
	}
	k := Kernel{
		Name: v.Name, Set: set.Name, Threads: threads, Of: OfMemcpy,
		GBs:     float64(total) * matrixBytes / seconds / 1e9,
		Weights: float64(total) * matrixRows * matrixCols / seconds,
	}
	k.Seconds200GB = checkpointBytes / (k.GBs * 1e9)
	return k, nil
}

// worker quantizes matrices of one shape, one after another.
type worker struct {
	variant method.Variant
	set     kernels.Set
	sources []kernels.Matrix
	next    int
	out     kernels.Output
}

// newWorker allocates what a quantization leaves and does the first rows of one,
// so that nothing is first touched while time is taken.
func newWorker(v method.Variant, set kernels.Set, sources []kernels.Matrix) (*worker, error) {
	m := sources[0]
	w := &worker{variant: v, set: set, sources: sources}
	p, err := v.Begin(set, m, 1, nil)
	if err != nil {
		return nil, err
	}
	n := p.Sizes(m.Rows)
	w.out = kernels.Output{Codes: make([]byte, n.Codes), Scales: make([]byte, n.Scales), Mins: make([]byte, n.Mins)}
	for _, b := range [][]byte{w.out.Codes, w.out.Scales, w.out.Mins} {
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	}
	const some = 128
	err = p.Rows(m.Data[:some*m.Cols*m.Element.Size()], nil)
	_, _ = p.Finish() // most rows did not come
	return w, err
}

func (w *worker) once() error {
	m := w.sources[w.next]
	w.next = (w.next + 1) % len(w.sources)
	amax := float32(0)
	if w.variant.Spec.NeedsAmax() {
		var err error
		if amax, err = w.set.AbsMax(m); err != nil {
			return err
		}
	}
	p, err := w.variant.Begin(w.set, m, amax, nil)
	if err != nil {
		return err
	}
	err = p.Rows(m.Data, &w.out)
	if _, ferr := p.Finish(); err == nil {
		err = ferr
	}
	return err
}
