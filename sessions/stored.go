package sessions

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// storedSource are the matrices of an opened checkpoint, in the order of its files.
type storedSource struct {
	ck       *checkpoint.Checkpoint
	matrices []topology.Matrix
	tensor   []*checkpoint.Tensor
}

var _ rowSource = (*storedSource)(nil)

func newStored(ck *checkpoint.Checkpoint, matrices []topology.Matrix) (*storedSource, error) {
	s := &storedSource{ck: ck}
	type place struct {
		m topology.Matrix
		t *checkpoint.Tensor
	}
	places := make([]place, len(matrices))
	for i, m := range matrices {
		t, ok := ck.Lookup(m.Tensor)
		if !ok {
			return nil, fmt.Errorf("%s: tensor %q is to be measured and is not there", ck.Path, m.Tensor)
		}
		places[i] = place{m, t}
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.t.File, b.t.File), cmp.Compare(a.t.Offset, b.t.Offset), cmp.Compare(a.m.Offset, b.m.Offset))
	})
	for _, p := range places {
		s.matrices = append(s.matrices, p.m)
		s.tensor = append(s.tensor, p.t)
	}
	return s, nil
}

// files are the indices of the files that the matrices are in.
func (s *storedSource) files() []int {
	out := make([]int, len(s.tensor))
	for i, t := range s.tensor {
		out[i] = t.File
	}
	return out
}

// cut is a source of n matrices from one on, over the same files.
func (s *storedSource) cut(from, n int) *storedSource {
	return &storedSource{ck: s.ck, matrices: s.matrices[from : from+n], tensor: s.tensor[from : from+n]}
}

// pick is a source of some matrices, in the order given, over the same files.
func (s *storedSource) pick(which []int) *storedSource {
	p := &storedSource{ck: s.ck}
	for _, i := range which {
		p.matrices, p.tensor = append(p.matrices, s.matrices[i]), append(p.tensor, s.tensor[i])
	}
	return p
}

func (s *storedSource) tensors() []Tensor {
	out := make([]Tensor, len(s.matrices))
	for i, m := range s.matrices {
		t := s.tensor[i]
		out[i] = Tensor{
			ID: i, Name: m.Name, Source: m.Tensor, File: filepath.Base(s.ck.Files[t.File].Name),
			DType: t.DType.String(), Rows: m.Rows, Cols: m.Cols, Role: m.Role,
		}
	}
	return out
}

func contiguous(m *topology.Matrix) bool { return m.ColStride == 1 && m.RowStride == int64(m.Cols) }

// Need is the bytes of the matrix.
func (s *storedSource) Need(i int) int {
	m := &s.matrices[i]
	return m.Rows * m.Cols * elementSize(s.tensor[i].DType.String())
}

// Shape is the matrix without its elements.
func (s *storedSource) Shape(i int) (kernels.Matrix, error) {
	m, t := &s.matrices[i], s.tensor[i]
	out := kernels.Matrix{Rows: m.Rows, Cols: m.Cols}
	switch t.DType {
	case checkpoint.BF16:
		out.Element = kernels.BF16
	case checkpoint.F16:
		out.Element = kernels.F16
	case checkpoint.F32:
		out.Element = kernels.F32
	default:
		return out, &checkpoint.FileError{
			File: filepath.Join(s.ck.Path, s.ck.Files[t.File].Name), Tensor: t.Name,
			Reason: "stored as " + t.DType.String() + "; weights are quantized from BF16, F16 or F32", Err: checkpoint.ErrUnsupported,
		}
	}
	return out, nil
}

func (s *storedSource) Read(ctx context.Context, i int, buf []byte) (kernels.Matrix, error) {
	out, err := s.Shape(i)
	if err != nil {
		return out, err
	}
	out.Data = buf[:s.Need(i)]
	return out, s.ReadRows(ctx, i, 0, out.Data)
}

// Run is where the matrix stands, if its elements follow one another row by row.
func (s *storedSource) Run(i int) (file int, off, size int64, ok bool) {
	m, t := &s.matrices[i], s.tensor[i]
	return t.File, t.Offset + m.Offset, int64(s.Need(i)), contiguous(m)
}

// ReadRun reads bytes of the file in which matrix i stands.
func (s *storedSource) ReadRun(ctx context.Context, i int, off int64, dst []byte) error {
	t := *s.tensor[i]
	t.Offset, t.Size = off, int64(len(dst))
	return s.ck.ReadAt(ctx, &t, 0, dst)
}

// ReadRows reads whole rows from one on, as many as fill dst, in row-major order
// however they are stored.
func (s *storedSource) ReadRows(ctx context.Context, i, from int, dst []byte) error {
	m, t := &s.matrices[i], s.tensor[i]
	size := int64(elementSize(t.DType.String()))
	if len(dst) == 0 {
		return ctx.Err()
	}
	if contiguous(m) {
		return s.ck.ReadAt(ctx, t, m.Offset+int64(from)*m.RowStride*size, dst)
	}
	g := gathering{dst: dst, size: int(size), cols: m.Cols, lines: len(dst) / (m.Cols * int(size)), step: int(m.RowStride), length: m.Cols, stride: int(m.ColStride)}
	if m.ColStride > m.RowStride { // what lies close together is a column
		g.turned = true
		g.lines, g.step, g.length, g.stride = m.Cols, int(m.ColStride), g.lines, int(m.RowStride)
	}
	start := m.Offset + int64(from)*m.RowStride*size
	return g.run(func(off int64, part []byte) error { return s.ck.ReadAt(ctx, t, start+off, part) })
}

// Changed names a file that is not what it was when it was opened.
func (s *storedSource) Changed() (file string, changed bool) { return s.ck.Changed() }

func (s *storedSource) Close() error { return s.ck.Close() }
