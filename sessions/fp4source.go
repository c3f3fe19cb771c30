package sessions

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/recode"
)

// fp4Source are matrices of FP4 codes of an opened checkpoint, in the order of its
// files. A matrix is in memory whole, with room for its codes once more: 8.25 or 8.5
// bits a weight.
type fp4Source struct {
	ck       *checkpoint.Checkpoint
	matrices []*recode.Matrix
}

var (
	_ Source   = (*fp4Source)(nil)
	_ pickable = (*fp4Source)(nil)
	_ pickable = (*storedSource)(nil)
)

// pickable is a source of which some tensors can be taken, in the order given, over the
// same files.
type pickable interface {
	picked(which []int) (Source, []Tensor)
}

func (s *storedSource) picked(which []int) (Source, []Tensor) {
	p := s.pick(which)
	return p, p.tensors()
}

func newFP4Source(ck *checkpoint.Checkpoint, matrices []*recode.Matrix) *fp4Source {
	s := &fp4Source{ck, slices.Clone(matrices)}
	slices.SortStableFunc(s.matrices, func(a, b *recode.Matrix) int {
		x, xo, _ := a.Codes()
		y, yo, _ := b.Codes()
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Offset+xo, y.Offset+yo))
	})
	return s
}

// files are the indices of the files that the matrices' codes are in.
func (s *fp4Source) files() []int {
	out := make([]int, len(s.matrices))
	for i, m := range s.matrices {
		t, _, _ := m.Codes()
		out[i] = t.File
	}
	return out
}

// cut is a source of n matrices from one on.
func (s *fp4Source) cut(from, n int) *fp4Source { return &fp4Source{s.ck, s.matrices[from : from+n]} }

func (s *fp4Source) picked(which []int) (Source, []Tensor) {
	p := &fp4Source{ck: s.ck}
	for _, i := range which {
		p.matrices = append(p.matrices, s.matrices[i])
	}
	return p, p.tensors()
}

func (s *fp4Source) tensors() []Tensor {
	out := make([]Tensor, len(s.matrices))
	for i, m := range s.matrices {
		t, _, _ := m.Codes()
		out[i] = Tensor{
			ID: i, Name: m.Name, Source: m.Tensor, File: filepath.Base(s.ck.Files[t.File].Name),
			DType: m.Module.Spec.Format, Rows: m.Rows, Cols: m.Cols, Role: m.Role,
		}
	}
	return out
}

// Need is codes and scales, and room for other codes.
func (s *fp4Source) Need(i int) int {
	_, _, codes := s.matrices[i].Codes()
	return s.matrices[i].Bytes() + int(codes)
}

// Read reads what is stored of the matrix: Data are its codes, block scales and
// second-level scale, as recode.Matrix.Read has them.
func (s *fp4Source) Read(ctx context.Context, i int, buf []byte) (kernels.Matrix, error) {
	m := s.matrices[i]
	raw := buf[:m.Bytes()]
	_, err := m.Read(ctx, raw)
	return kernels.Matrix{Element: kernels.F32, Rows: m.Rows, Cols: m.Cols, Data: raw}, err
}

// Changed names a file that is not what it was when it was opened.
func (s *fp4Source) Changed() (file string, changed bool) { return s.ck.Changed() }

func (s *fp4Source) Close() error { return s.ck.Close() }

// tensorBytes is what a tensor takes in the source, -1 where its type is not known. That
// of FP4 codes is the name of a format, whose scales count.
func tensorBytes(t *Tensor) int64 {
	if d, ok := checkpoint.ParseDType(t.DType); ok {
		return int64(t.Rows) * int64(t.Cols) * int64(d.Bits()) / 8
	}
	if isFP4(t.DType) {
		if f, err := kernels.FormatByName(t.DType); err == nil {
			if n, err := f.Bytes(t.Rows, t.Cols); err == nil {
				return n
			}
		}
	}
	return -1
}

// isFP4 says whether a tensor's type is a format of FP4 codes, as tensors of fp4Source
// have it.
func isFP4(dtype string) bool { return strings.HasSuffix(dtype, "fp4") }
