package model

import (
	"context"
	"fmt"
	"math"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// maxVector bounds a norm or a bias; the widest have a few hundred thousand values.
const maxVector = 1 << 24

// Stored is a checkpoint's own floating-point weights as a Source.
type Stored struct {
	ck       *checkpoint.Checkpoint
	model    *topology.Model
	matrices map[Place]int    // index in model.Matrices
	vectors  map[vectorAt]int // index in ck.Tensors
	buffers  [][]byte
	used     int
	raw      []byte // of a matrix whose elements do not follow each other
}

type vectorAt struct {
	Place
	param string
}

// NewStored makes a Source of an opened checkpoint, which must outlive it.
func NewStored(ck *checkpoint.Checkpoint, m *topology.Model) *Stored {
	s := &Stored{ck: ck, model: m, matrices: map[Place]int{}, vectors: map[vectorAt]int{}}
	for i := range m.Matrices {
		s.matrices[placeOf(m.Matrices[i].Role)] = i
	}
	for i, role := range m.Roles {
		s.vectors[vectorAt{placeOf(role), role.Param}] = i
	}
	return s
}

func placeOf(r topology.Role) Place {
	return Place{Kind: r.Kind, Layer: r.Layer, Expert: r.Expert, Projection: r.Projection}
}

// Has implements Source.
func (s *Stored) Has(p Place, param string) bool {
	if param == "weight" {
		if _, ok := s.matrices[p]; ok {
			return true
		}
	}
	_, _, _, ok := s.vector(p, param)
	return ok
}

// vector finds a vector: a tensor of its own, or the part of an expert in one
// that holds those of all, of which gate and up may alternate.
func (s *Stored) vector(p Place, param string) (tensor, first, step int, ok bool) {
	if i, ok := s.vectors[vectorAt{p, param}]; ok {
		return i, 0, 1, true
	}
	if p.Expert < 0 {
		return 0, 0, 0, false
	}
	all := p
	all.Expert = -1
	if i, ok := s.vectors[vectorAt{all, param}]; ok {
		return i, p.Expert * s.width(i), 1, true
	}
	if p.Projection != "gate" && p.Projection != "up" {
		return 0, 0, 0, false
	}
	all.Projection = "gate_up"
	i, ok := s.vectors[vectorAt{all, param}]
	if !ok {
		return 0, 0, 0, false
	}
	second := 0
	if p.Projection == "up" {
		second = 1
	}
	if m, ok := s.matrices[p]; ok && s.model.Matrices[m].RowStride == 2 { // gate and up alternate
		return i, p.Expert*s.width(i) + second, 2, true
	}
	return i, p.Expert*s.width(i) + second*s.width(i)/2, 1, true
}

// width is the last dimension of a tensor.
func (s *Stored) width(i int) int {
	shape := s.ck.Tensors[i].Shape
	if len(shape) == 0 {
		return 1
	}
	return int(shape[len(shape)-1])
}

// Vector implements Source.
func (s *Stored) Vector(ctx context.Context, p Place, param string) ([]float32, error) {
	i, first, step, ok := s.vector(p, param)
	if !ok {
		return nil, fmt.Errorf("%s: %s %s %w", s.ck.Path, p, param, ErrAbsent)
	}
	t := &s.ck.Tensors[i]
	n := t.Elements()
	if t.DType >= checkpoint.I8 && param != tokenExperts { // no numbers with a fraction
		return nil, &checkpoint.FileError{File: s.ck.Files[t.File].Name, Tensor: t.Name, Reason: fmt.Sprintf("values of type %s", t.DType), Err: checkpoint.ErrUnsupported}
	}
	if n > maxVector {
		return nil, &checkpoint.FileError{File: s.ck.Files[t.File].Name, Tensor: t.Name, Reason: fmt.Sprintf("%d values where a vector is expected", n)}
	}
	all := make([]float32, n)
	raw := make([]byte, n*int64(t.DType.Bits())/8)
	if err := s.ck.ReadAt(ctx, t, 0, raw); err != nil {
		return nil, err
	}
	if err := checkpoint.DecodeF32(all, t.DType, raw); err != nil {
		return nil, &checkpoint.FileError{File: s.ck.Files[t.File].Name, Tensor: t.Name, Reason: "cannot be decoded", Err: err}
	}
	if p.Expert < 0 || len(t.Shape) < 2 {
		return all, nil
	}
	width := s.width(i)
	if step == 2 || first%width != 0 || p.Projection == "gate" && isHalf(s, p) {
		width /= 2
	}
	out := make([]float32, width)
	for k := range out {
		out[k] = all[first+k*step]
	}
	return out, nil
}

// isHalf says whether an expert's vector is half of a fused one.
func isHalf(s *Stored, p Place) bool {
	p.Expert = -1
	_, own := s.vectors[vectorAt{p, "bias"}]
	return !own
}

// Weight implements Source.
func (s *Stored) Weight(ctx context.Context, p Place) (Weight, error) {
	i, ok := s.matrices[p]
	if !ok {
		return Weight{}, fmt.Errorf("%s: %s %w", s.ck.Path, p, ErrAbsent)
	}
	m := &s.model.Matrices[i]
	t := &s.ck.Tensors[s.model.MatrixTensor[i]]
	e, ok := element(t.DType)
	if !ok {
		return Weight{}, &checkpoint.FileError{File: s.ck.Files[t.File].Name, Tensor: t.Name, Reason: fmt.Sprintf("weights of type %s", t.DType), Err: checkpoint.ErrUnsupported}
	}
	data, err := s.read(ctx, m, t, e)
	if err != nil {
		return Weight{}, err
	}
	return Weight{Rows: m.Rows, Cols: m.Cols, Operand: kernels.StoredOperand(kernels.Matrix{Element: e, Rows: m.Rows, Cols: m.Cols, Data: data})}, nil
}

// read brings a matrix into memory, row after row.
func (s *Stored) read(ctx context.Context, m *topology.Matrix, t *checkpoint.Tensor, e kernels.Element) ([]byte, error) {
	size := e.Size()
	if m.Rows > 0 && m.Cols > math.MaxInt/size/m.Rows {
		return nil, fmt.Errorf("model: %s is too large", m.Name)
	}
	data := s.buffer(m.Rows * m.Cols * size)
	if m.ColStride == 1 && m.RowStride == int64(m.Cols) {
		return data, s.ck.ReadAt(ctx, t, m.Offset, data)
	}
	span := (int64(m.Rows-1)*m.RowStride + int64(m.Cols-1)*m.ColStride + 1) * int64(size)
	if span > t.Size { // the tensor is in the file, so this bounds what is allocated
		return nil, &checkpoint.FileError{File: s.ck.Files[t.File].Name, Tensor: t.Name, Reason: fmt.Sprintf("%s would end behind it", m.Name)}
	}
	if int64(cap(s.raw)) < span {
		s.raw = make([]byte, span)
	}
	raw := s.raw[:span]
	if err := s.ck.ReadAt(ctx, t, m.Offset, raw); err != nil {
		return nil, err
	}
	rows, cols := m.RowStride*int64(size), m.ColStride*int64(size)
	for row := range m.Rows {
		from, to := int64(row)*rows, data[row*m.Cols*size:][:m.Cols*size]
		switch {
		case m.ColStride == 1:
			copy(to, raw[from:])
		case size == 2:
			for ; len(to) > 0; to, from = to[2:], from+cols {
				to[0], to[1] = raw[from], raw[from+1]
			}
		default:
			for ; len(to) > 0; to, from = to[size:], from+cols {
				copy(to[:size], raw[from:])
			}
		}
	}
	return data, nil
}

// buffer is memory that Release gives back.
func (s *Stored) buffer(n int) []byte {
	if s.used == len(s.buffers) {
		s.buffers = append(s.buffers, nil)
	}
	b := s.buffers[s.used]
	if cap(b) < n {
		b = make([]byte, n)
	}
	s.buffers[s.used] = b[:n]
	s.used++
	return b[:n]
}

// Release implements Source.
func (s *Stored) Release() { s.used = 0 }

// Fork implements Forker.
func (s *Stored) Fork() Source {
	return &Stored{ck: s.ck, model: s.model, matrices: s.matrices, vectors: s.vectors}
}

// Rows implements Source.
func (s *Stored) Rows(ctx context.Context, p Place, rows []int32, dst []float32) error {
	i, ok := s.matrices[p]
	if !ok {
		return fmt.Errorf("%s: %s %w", s.ck.Path, p, ErrAbsent)
	}
	m := &s.model.Matrices[i]
	t := &s.ck.Tensors[s.model.MatrixTensor[i]]
	if m.ColStride != 1 || len(dst) != len(rows)*m.Cols {
		return fmt.Errorf("model: %s cannot be read by rows", m.Name)
	}
	size := int64(t.DType.Bits()) / 8
	raw := make([]byte, int64(m.Cols)*size)
	for k, row := range rows {
		if row < 0 || int(row) >= m.Rows {
			return fmt.Errorf("model: row %d of %s, which has %d", row, m.Name, m.Rows)
		}
		if err := s.ck.ReadAt(ctx, t, m.Offset+int64(row)*m.RowStride*size, raw); err != nil {
			return err
		}
		if err := checkpoint.DecodeF32(dst[k*m.Cols:(k+1)*m.Cols], t.DType, raw); err != nil {
			return &checkpoint.FileError{File: s.ck.Files[t.File].Name, Tensor: t.Name, Reason: "cannot be decoded", Err: err}
		}
	}
	return nil
}

// element is the kernels' word for a dtype that products can expand.
func element(d checkpoint.DType) (kernels.Element, bool) {
	switch d {
	case checkpoint.BF16:
		return kernels.BF16, true
	case checkpoint.F16:
		return kernels.F16, true
	case checkpoint.F32:
		return kernels.F32, true
	}
	return 0, false
}
