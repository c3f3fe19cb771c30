package ggufmake

import (
	"context"
	"fmt"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// part is one linear map of a checkpoint, however it is stored.
type part struct {
	name       string
	role       topology.Role
	rows, cols int
	from       string
	packed     bool
	group      int // rows that are read together
	where      string
	read       func(ctx context.Context, r *reader, first, n int, dst []float32) error
}

// parts lists the linear maps of a checkpoint in storage order, by tensor, and the
// tensors that belong to quantized modules.
func parts(ck *checkpoint.Checkpoint, top *topology.Model) (byTensor map[string][]part, taken map[string]bool, err error) {
	lay, err := layout.Open(ck, top)
	if err != nil {
		return nil, nil, err
	}
	byTensor, taken = map[string][]part{}, map[string]bool{}
	for i := range lay.Modules {
		m := &lay.Modules[i]
		for _, f := range m.Fields {
			taken[f.Tensor.Name] = true
		}
		t := m.CodeTensor()
		byTensor[t.Name] = append(byTensor[t.Name], modulePart(m, ck, top)...)
	}
	for name := range lay.Unread {
		if t, ok := ck.Lookup(name); ok {
			return nil, nil, tensorError(ck, t, "belongs to a module that is quantized in a way that is not known here")
		}
	}
	for i := range top.Matrices {
		m := &top.Matrices[i]
		t := &ck.Tensors[top.MatrixTensor[i]]
		if taken[t.Name] {
			continue
		}
		byTensor[t.Name] = append(byTensor[t.Name], plainPart(ck, t, m))
	}
	return byTensor, taken, nil
}

func tensorError(ck *checkpoint.Checkpoint, t *checkpoint.Tensor, format string, args ...any) error {
	return &checkpoint.FileError{File: fileOf(ck, t), Tensor: t.Name, Reason: fmt.Sprintf(format, args...), Err: checkpoint.ErrUnsupported}
}

func fileOf(ck *checkpoint.Checkpoint, t *checkpoint.Tensor) string {
	if len(ck.Files) > 1 {
		return ck.Path + "/" + ck.Files[t.File].Name
	}
	return ck.Path
}

// plainPart reads rows of a matrix in floating point.
func plainPart(ck *checkpoint.Checkpoint, t *checkpoint.Tensor, m *topology.Matrix) part {
	p := part{name: m.Name, role: m.Role, rows: m.Rows, cols: m.Cols, from: t.DType.String(), group: 1, where: fileOf(ck, t)}
	if m.ColStride != 1 {
		p.group = m.Rows // rows lie across the tensor: all are read for any
	}
	size := int64(t.DType.Bits() / 8)
	p.read = func(ctx context.Context, r *reader, first, n int, dst []float32) error {
		begin := int64(first) * m.RowStride
		span := int64(n-1)*m.RowStride + int64(m.Cols-1)*m.ColStride + 1
		raw := r.bytes(int(span * size))
		if err := ck.ReadAt(ctx, t, m.Offset+begin*size, raw); err != nil {
			return err
		}
		if m.ColStride == 1 && m.RowStride == int64(m.Cols) {
			return decoded(t, dst, raw)
		}
		all := r.floats(int(span))
		if err := decoded(t, all, raw); err != nil {
			return err
		}
		for i := range n {
			for c := range m.Cols {
				dst[i*m.Cols+c] = all[int64(i)*m.RowStride+int64(c)*m.ColStride]
			}
		}
		return nil
	}
	return p
}

func decoded(t *checkpoint.Tensor, dst []float32, raw []byte) error {
	if err := checkpoint.DecodeF32(dst, t.DType, raw); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return nil
}

// modulePart reads rows of a quantized module; one that has gate and up becomes two.
func modulePart(m *layout.Module, ck *checkpoint.Checkpoint, top *topology.Model) []part {
	p := part{
		name: m.Name, role: m.Role, rows: m.Rows, cols: m.Cols, from: m.Method + " " + m.Format().Name, packed: true,
		group: m.RowMultiple(), where: fileOf(ck, m.CodeTensor()),
	}
	p.role.Param, p.role.Expert = "weight", max(m.Role.Expert, m.Expert)
	p.read = func(ctx context.Context, _ *reader, first, n int, dst []float32) error {
		var s layout.Stored
		return m.Dequantize(ctx, dst, first, &s)
	}
	if m.Role.Projection != "gate_up" || m.Rows%2 != 0 {
		return []part{p}
	}
	both := make([]part, 2)
	half := m.Rows / 2
	for k, projection := range []string{"gate", "up"} {
		h := p
		h.rows, h.role.Projection = half, projection
		h.read = func(ctx context.Context, r *reader, first, n int, dst []float32) error {
			return p.read(ctx, r, k*half+first, n, dst)
		}
		if top.Config.AlternatesExperts() {
			h.read = func(ctx context.Context, r *reader, first, n int, dst []float32) error {
				all := r.floats(2 * n * m.Cols)
				if err := p.read(ctx, r, 2*first, 2*n, all); err != nil {
					return err
				}
				for i := range n {
					copy(dst[i*m.Cols:][:m.Cols], all[(2*i+k)*m.Cols:])
				}
				return nil
			}
		}
		both[k] = h
	}
	return both
}
