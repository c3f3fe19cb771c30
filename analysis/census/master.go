package census

import (
	"context"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// Master is the checkpoint that a quantized one was made of.
type Master struct {
	ck      *checkpoint.Checkpoint
	matrix  map[string]int // by the module that each becomes
	model   *topology.Model
	element map[string]kernels.Element // by tensor
}

// NewMaster looks at a checkpoint and its topology; it reads nothing. It may be
// used from many goroutines at once.
func NewMaster(ck *checkpoint.Checkpoint, model *topology.Model) *Master {
	m := &Master{ck: ck, model: model, matrix: make(map[string]int, len(model.Matrices)), element: map[string]kernels.Element{}}
	for i := range model.Matrices {
		x := &model.Matrices[i]
		name, err := export.Module(x)
		if err != nil {
			continue // is no linear map that could have been quantized
		}
		m.matrix[name] = i
	}
	for i := range ck.Tensors {
		switch t := &ck.Tensors[i]; t.DType {
		case checkpoint.BF16:
			m.element[t.Name] = kernels.BF16
		case checkpoint.F16:
			m.element[t.Name] = kernels.F16
		case checkpoint.F32:
			m.element[t.Name] = kernels.F32
		}
	}
	return m
}

// of opens the matrix that a module was made of. why says, where it is not "",
// what keeps the two from being compared.
func (m *Master) of(mod *layout.Module) (r *matrixReader, why string) {
	i, ok := m.matrix[export.ExpertModule(mod.Name)]
	if !ok {
		return nil, "the master has no such matrix"
	}
	x := &m.model.Matrices[i]
	t, ok := m.ck.Lookup(x.Tensor)
	if !ok {
		return nil, "the master has no such matrix"
	}
	e, ok := m.element[x.Tensor]
	switch {
	case x.Rows != mod.Rows || x.Cols != mod.Cols:
		return nil, fmt.Sprintf("is %d×%d, in the master %d×%d", mod.Rows, mod.Cols, x.Rows, x.Cols)
	case !ok:
		return nil, fmt.Sprintf("the master stores it as %s", t.DType)
	}
	return &matrixReader{ck: m.ck, t: t, m: x, elem: e}, ""
}

// chunkBytes is about how much of a matrix is in memory at once.
const chunkBytes = 1 << 20

// matrixReader reads rows of a matrix as they stand, also where it is stored by
// columns or between others. It has one user.
type matrixReader struct {
	ck        *checkpoint.Checkpoint
	t         *checkpoint.Tensor
	m         *topology.Matrix
	elem      kernels.Element
	buf, span []byte
	whole     bool // span holds all of a matrix that is stored by columns
}

// chunkRows is how many rows of so many columns are gone through at once.
func chunkRows(cols int) int { return max(1, chunkBytes/max(4*cols, 1)) }

// rows reads n rows from first on, row by row; good until the next call.
func (r *matrixReader) rows(ctx context.Context, first, n int) ([]byte, error) {
	size := r.elem.Size()
	row := r.m.Cols * size
	if r.m.ColStride == 1 && r.m.RowStride == int64(r.m.Cols) {
		r.buf = grow(r.buf, n*row)
		return r.buf, r.ck.ReadAt(ctx, r.t, r.m.Offset+int64(first)*int64(row), r.buf)
	}
	rowStep, colStep := int(r.m.RowStride)*size, int(r.m.ColStride)*size
	at := 0
	switch {
	case r.m.ColStride == 1:
		r.span = grow(r.span, (n-1)*rowStep+row)
		if err := r.ck.ReadAt(ctx, r.t, r.m.Offset+int64(first)*int64(rowStep), r.span); err != nil {
			return nil, err
		}
	case !r.whole:
		r.span = grow(r.span, (r.m.Rows-1)*rowStep+(r.m.Cols-1)*colStep+size)
		if err := r.ck.ReadAt(ctx, r.t, r.m.Offset, r.span); err != nil {
			return nil, err
		}
		r.whole = true
		fallthrough
	default:
		at = first * rowStep
	}
	r.buf = grow(r.buf, n*row)
	for k := range n {
		from, to := r.span[at+k*rowStep:], r.buf[k*row:(k+1)*row]
		if colStep == size {
			copy(to, from[:row])
			continue
		}
		for c := range r.m.Cols {
			copy(to[c*size:(c+1)*size], from[c*colStep:])
		}
	}
	return r.buf, nil
}

// absMax is the largest finite magnitude of the matrix.
func (r *matrixReader) absMax(ctx context.Context, set kernels.Set) (float32, error) {
	amax := float32(0)
	for first := 0; first < r.m.Rows; {
		n := min(chunkRows(r.m.Cols), r.m.Rows-first)
		data, err := r.rows(ctx, first, n)
		if err != nil {
			return 0, err
		}
		a, err := set.AbsMax(kernels.Matrix{Element: r.elem, Rows: n, Cols: r.m.Cols, Data: data})
		if err != nil {
			return 0, fmt.Errorf("%s: %w", r.m.Name, err)
		}
		amax = max(amax, a)
		first += n
	}
	return amax, nil
}

// grow is buf with n elements, whose content is whatever it was.
func grow[T any](buf []T, n int) []T {
	if cap(buf) < n {
		return make([]T, n)
	}
	return buf[:n]
}
