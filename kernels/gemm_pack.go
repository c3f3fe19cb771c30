package kernels

// gemmSpace is what one goroutine packs into.
type gemmSpace struct {
	a       []float32 // gemmDepth floats a row of A
	b       []float32 // panels of B, each of depth rows of tileCols floats
	tile    []float32 // a tile at the right edge of C
	scratch []float32 // stored elements, expanded
}

// atLeast is buf, or a longer slice.
func atLeast(buf []float32, n int) []float32 {
	if len(buf) < n {
		return make([]float32, n)
	}
	return buf
}

// block gives rows row0 …, columns col0 … of the matrix as stored, as a view
// with a stride: of memory where it is there, else of scratch.
func (o *Operand) block(s *Set, w *gemmSpace, row0, rows, col0, cols int) (view []float32, stride int, err error) {
	if o.panels == nil && o.stored.Element == 0 {
		d := &o.dense
		return d.Data[row0*d.Stride+col0:], d.Stride, nil
	}
	w.scratch = atLeast(w.scratch, rows*cols)
	view = w.scratch[:rows*cols]
	if o.panels != nil {
		return view, cols, o.panels(view, row0, rows, col0, cols)
	}
	decode := s.convert.decodeF32
	switch o.stored.Element {
	case BF16:
		decode = s.convert.decodeBF16
	case F16:
		decode = s.convert.decodeF16
	}
	size := o.stored.Element.Size()
	for r := range rows {
		at := ((row0+r)*o.stored.Cols + col0) * size
		decode(view[r*cols:][:cols], o.stored.Data[at:][:cols*size])
	}
	return view, cols, nil
}

// packA lays rows i0 … of A, steps k0 …, out in dst as gemmTileRef reads them.
func (j *gemmJob) packA(w *gemmSpace, dst []float32, i0, rows, k0, depth int) error {
	if j.a.transposed {
		view, stride, err := j.a.block(&j.set, w, k0, depth, i0, rows)
		if err != nil {
			return err
		}
		j.set.gemm.transposeF32(dst, gemmDepth, view, stride, depth, rows)
		return nil
	}
	view, stride, err := j.a.block(&j.set, w, i0, rows, k0, depth)
	if err != nil {
		return err
	}
	for r := range rows {
		copy(dst[r*gemmDepth:][:depth], view[r*stride:])
	}
	return nil
}

// packB lays columns j0 … of B, steps k0 …, out in panels of tileCols columns
// with depth·tileCols elements each. Columns beyond the last keep what was there
// before: their sums stay in the tile at the edge.
func (j *gemmJob) packB(w *gemmSpace, k0, depth, j0, cols int) error {
	width := j.set.gemm.tileCols
	panels := ceilDiv(cols, width)
	w.b = atLeast(w.b, panels*width*gemmDepth)
	if !j.b.transposed {
		return j.packRows(w, k0, depth, j0, cols)
	}
	for p := range panels {
		dst, first := w.b[p*width*depth:], j0+p*width
		n := min(width, cols-p*width)
		if m := &j.b.stored; j.b.panels == nil && m.Element == BF16 {
			j.set.gemm.transposeBF16(dst, width, m.Data[2*(first*m.Cols+k0):], m.Cols, n, depth)
			continue
		}
		view, stride, err := j.b.block(&j.set, w, first, n, k0, depth)
		if err != nil {
			return err
		}
		j.set.gemm.transposeF32(dst, width, view, stride, n, depth)
	}
	return nil
}

// packRows is packB of a matrix whose rows are the steps.
func (j *gemmJob) packRows(w *gemmSpace, k0, depth, j0, cols int) error {
	width := j.set.gemm.tileCols
	view, stride, err := j.b.block(&j.set, w, k0, depth, j0, cols)
	if err != nil {
		return err
	}
	for p := 0; p < cols; p += width {
		n := min(width, cols-p)
		if n == width {
			j.set.gemm.copyPanel(w.b[p*depth:], view[p:], stride, depth)
			continue
		}
		for k := range depth {
			copy(w.b[p*depth+k*width:][:n], view[k*stride+p:])
		}
	}
	return nil
}
