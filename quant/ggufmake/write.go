package ggufmake

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Settings say how a file is written.
type Settings struct {
	Threads   int // 0: all
	MemBytes  int64
	Set       kernels.Set
	Overwrite bool
	// Progress is told how many elements are done, from any goroutine.
	Progress func(elements int64)

	create func(path string) (output, error) // nil is the operating system's
}

// output is a file that gets its name when it is whole.
type output interface {
	WriteAt(p []byte, off int64) (int, error)
	Commit() error
	Abandon() error
}

// chunkElements is how much of a tensor one worker takes at a time. It does not
// depend on threads, so that figures are the same with any number.
const chunkElements = 1 << 19

// chunk is some rows of one matrix.
type chunk struct {
	target, matrix int
	first, rows    int // within the matrix
	sums           sums
}

// sums are over the elements of a chunk: squares of the source and of errors, plain
// and weighted.
type sums struct{ w2, e2, ww2, we2 float64 }

// Error is what the round trip did to a tensor.
type Error struct {
	RelL2    float64 // ‖w−q‖/‖w‖; 0 where both are 0
	Weighted float64 // the same by the importance of columns; NaN where nothing is weighted
	Rel2     float64
}

// chunks deals the targets out, in their order.
func (p *Plan) chunks() []chunk {
	var list []chunk
	for i := range p.Targets {
		t := &p.Targets[i]
		step := max(chunkElements/max(t.Cols(), 1), 1)
		step = (step + t.group - 1) / t.group * t.group
		for m := range t.Matrices() {
			for first := 0; first < t.Rows(); first += step {
				list = append(list, chunk{target: i, matrix: m, first: first, rows: min(step, t.Rows()-first)})
			}
		}
	}
	return list
}

// workers is how many there is memory for.
func (p *Plan) workers(s Settings, list []chunk) (int, error) {
	n := s.Threads
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	if s.MemBytes <= 0 {
		return n, nil
	}
	most := int64(0)
	for i := range list {
		c := &list[i]
		most = max(most, int64(c.rows)*int64(p.Targets[c.target].Cols()))
	}
	// The source as stored and decoded, the blocks, and these decoded again.
	need := most*16 + 1<<20
	if need > s.MemBytes {
		return 0, fmt.Errorf("%s: %d bytes of memory are too few: one worker takes %d", p.Source.Path, s.MemBytes, need)
	}
	return int(min(int64(n), s.MemBytes/need)), nil
}

// Write writes the file and says what became of each target. Until it is whole and
// durable nothing stands under its name; a file that is there already is refused,
// unless Overwrite.
func (p *Plan) Write(ctx context.Context, path string, s Settings) (errs []Error, err error) {
	if _, err := os.Lstat(path); err == nil && !s.Overwrite {
		return nil, &checkpoint.FileError{File: path, Reason: "exists already, and is not written over"}
	}
	if err := checkpoint.CheckSpace(filepath.Dir(path), p.Size); err != nil {
		return nil, err
	}
	list := p.chunks()
	workers, err := p.workers(s, list)
	if err != nil {
		return nil, err
	}
	create := s.create
	if create == nil {
		create = func(path string) (output, error) { return checkpoint.CreateAtomic(path) }
	}
	out, err := create(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Abandon())
		}
	}()
	w := &writer{Plan: p, Settings: s, out: out, path: path, list: list}
	if err := w.put(p.header, 0); err != nil {
		return nil, err
	}
	if err := w.measureScales(ctx, workers); err != nil {
		return nil, err
	}
	if err := w.run(ctx, workers, func(i int) bool { return true }, w.convert); err != nil {
		return nil, err
	}
	if err := w.end(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := out.Commit(); err != nil {
		return nil, err
	}
	return w.errors(), nil
}

type writer struct {
	*Plan
	Settings
	out  output
	path string
	list []chunk
}

// run deals chunks out to workers and returns the first error.
func (w *writer) run(ctx context.Context, workers int, wants func(chunk int) bool, do func(ctx context.Context, r *buffers, c *chunk) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			r := &buffers{reader: reader{set: w.Set}}
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(w.list) {
					return
				}
				if !wants(i) {
					continue
				}
				if err := do(ctx, r, &w.list[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// buffers are the memory of one worker.
type buffers struct {
	reader
	src, back []float32
	blocks    []byte
}

func grown[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = make([]T, n)
	}
	return (*buf)[:n]
}

// read fills src with the values of a chunk, all of them finite.
func (w *writer) read(ctx context.Context, r *buffers, c *chunk) ([]float32, error) {
	t := &w.Targets[c.target]
	cols := t.Cols()
	src := grown(&r.src, c.rows*cols)
	if err := t.rows(ctx, &r.reader, c.matrix*t.Rows()+c.first, c.rows, src); err != nil {
		return nil, err
	}
	for i, v := range src {
		if v-v != 0 {
			at := fmt.Sprintf("row %d, column %d", c.first+i/cols, i%cols)
			if t.Matrices() > 1 {
				at = fmt.Sprintf("matrix %d, %s", c.matrix, at)
			}
			return nil, t.fail("%s is %v", at, v)
		}
	}
	return src, nil
}

// measureScales finds the factor beside each NVFP4 weight: with it the largest
// block scale of a matrix is the format's largest, 448.
func (w *writer) measureScales(ctx context.Context, workers int) error {
	if len(w.scales) == 0 {
		return nil
	}
	amax := make([]float32, len(w.list))
	at := make(map[*chunk]int, len(w.list))
	for i := range w.list {
		at[&w.list[i]] = i
	}
	err := w.run(ctx, workers, func(i int) bool { return w.Targets[w.list[i].target].scaled >= 0 }, func(ctx context.Context, r *buffers, c *chunk) error {
		src, err := w.read(ctx, r, c)
		most := float32(0)
		for _, v := range src {
			most = max(most, v, -v)
		}
		amax[at[c]] = most
		return err
	})
	if err != nil {
		return err
	}
	for i := range w.list {
		c := &w.list[i]
		if k := w.Targets[c.target].scaled; k >= 0 {
			v := w.scales[k].values
			v[c.matrix] = max(v[c.matrix], amax[i])
		}
	}
	for i := range w.scales {
		s := &w.scales[i]
		raw := make([]byte, 0, 4*len(s.values))
		for k, most := range s.values {
			if s.values[k] = most / (6 * 448); s.values[k] == 0 { // all zeros, or too small for f32
				s.values[k] = 1
			}
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(s.values[k]))
		}
		if err := w.put(raw, s.offset); err != nil {
			return err
		}
	}
	return nil
}

// convert makes the blocks of a chunk and writes them.
func (w *writer) convert(ctx context.Context, r *buffers, c *chunk) error {
	t := &w.Targets[c.target]
	cols := t.Cols()
	n := c.rows * cols
	block, bytes := t.Effective.Block()
	size := n / block * bytes
	row := int64(c.matrix*t.Rows() + c.first)
	off := row * int64(cols/block*bytes)
	blocks := grown(&r.blocks, size)
	if t.copied() {
		if err := t.copy(ctx, off, blocks); err != nil {
			return err
		}
	} else if err := w.encode(ctx, r, c, blocks); err != nil {
		return err
	}
	if err := w.put(blocks, t.Offset+off); err != nil {
		return err
	}
	if w.Progress != nil {
		w.Progress(int64(n))
	}
	return nil
}

func (w *writer) encode(ctx context.Context, r *buffers, c *chunk, blocks []byte) error {
	t := &w.Targets[c.target]
	cols := t.Cols()
	src, err := w.read(ctx, r, c)
	if err != nil {
		return err
	}
	scale := float32(1)
	if t.scaled >= 0 {
		scale = w.scales[t.scaled].values[c.matrix]
		for i := range src {
			src[i] /= scale
		}
	}
	var weights []float32
	if t.importance != nil {
		weights = t.importance[c.matrix]
	}
	if err := w.Set.EncodeGGUF(blocks, t.Effective, c.rows, cols, src, weights); err != nil {
		return &checkpoint.FileError{File: t.Where, Tensor: t.Name, Reason: fmt.Sprintf("cannot be stored as %s, from row %d of matrix %d on", t.Effective, c.first, c.matrix), Err: err}
	}
	back := grown(&r.back, len(src))
	if err := w.Set.DecodeGGUF(back, t.Effective, blocks); err != nil {
		return &checkpoint.FileError{File: t.Where, Tensor: t.Name, Reason: "cannot be read back", Err: err}
	}
	c.sums = sumsOf(src, back, weights, cols)
	return nil
}

// sumsOf adds up row by row. A scale that is common to both sides drops out of every
// ratio.
func sumsOf(w, q, weights []float32, cols int) (s sums) {
	for at := 0; at < len(w); at += cols {
		var w2, e2, ww2, we2 float64
		for c, v := range w[at : at+cols] {
			x := float64(v)
			d := x - float64(q[at+c])
			w2 += x * x
			e2 += d * d
			if weights != nil {
				i := float64(weights[c])
				ww2 += i * x * x
				we2 += i * d * d
			}
		}
		s.w2, s.e2, s.ww2, s.we2 = s.w2+w2, s.e2+e2, s.ww2+ww2, s.we2+we2
	}
	return s
}

// errors adds up the chunks of each target in their order. The squares of matrices
// with scales of their own are put back to size.
func (w *writer) errors() []Error {
	all := make([]sums, len(w.Targets))
	for i := range w.list {
		c := &w.list[i]
		t := &w.Targets[c.target]
		k := 1.0
		if t.scaled >= 0 {
			k = float64(w.scales[t.scaled].values[c.matrix])
		}
		a := &all[c.target]
		a.w2, a.e2 = a.w2+k*k*c.sums.w2, a.e2+k*k*c.sums.e2
		a.ww2, a.we2 = a.ww2+k*k*c.sums.ww2, a.we2+k*k*c.sums.we2
	}
	out := make([]Error, len(all))
	for i, a := range all {
		out[i] = Error{RelL2: math.Sqrt(ratio(a.e2, a.w2)), Rel2: ratio(a.e2, a.w2), Weighted: math.NaN()}
		if w.Targets[i].Weighted() {
			out[i].Weighted = math.Sqrt(ratio(a.we2, a.ww2))
		}
	}
	return out
}

func ratio(a, b float64) float64 {
	if a == 0 {
		return 0
	}
	return a / b
}

func (w *writer) put(p []byte, off int64) error {
	if _, err := w.out.WriteAt(p, off); err != nil {
		return checkpoint.SystemError(w.path, err)
	}
	return nil
}

// end writes the last bytes, where padding follows the last tensor.
func (w *writer) end() error {
	last := &w.Targets[len(w.Targets)-1]
	at := last.Offset + last.Bytes
	if last.scaled >= 0 {
		s := &w.scales[last.scaled]
		at = s.offset + 4*int64(len(s.values))
	}
	return w.put(make([]byte, w.Size-at), at)
}
