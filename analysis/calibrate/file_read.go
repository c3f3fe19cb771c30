package calibrate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Moments reads those of an input: its Hessian too, where the file has it. What
// was damaged since it was written, and what is not finite, is named.
func (f *File) Moments(ctx context.Context, at model.Place) (*Moments, error) {
	i, ok := f.at[at]
	if !ok || f.inputs[i].Rows == 0 {
		return nil, &checkpoint.FileError{File: f.path, Reason: "the input of " + at.String(), Err: ErrNotMeasured}
	}
	in := &f.inputs[i]
	if f.ck == nil {
		return f.imatrixMoments(at, in), nil
	}
	m := &Moments{At: at, N: in.N}
	r := &reader{f: f, ctx: ctx, sum: sha256.New()}
	m.Sum2 = r.sum2(in)
	m.Rows = r.rows(in)
	if in.Hessian && r.err == nil {
		m.H = r.hessian(in)
	}
	switch {
	case r.err != nil:
		return nil, r.err
	case hex.EncodeToString(r.sum.Sum(nil)) != in.SHA256:
		return nil, f.fail(in.At, "is damaged: its bytes have another SHA-256 than when they were written")
	}
	if err := m.check(); err != nil {
		return nil, f.fail(in.At, "%v", err)
	}
	return m, nil
}

// reader reads the tensors of one input and sums them up; the first error stays.
type reader struct {
	f   *File
	ctx context.Context
	sum hash.Hash
	buf []byte
	err error
}

// bytes are n bytes of a tensor from off on, valid until the next call.
func (r *reader) bytes(tensor string, off int64, n int) []byte {
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	b := r.buf[:n]
	if r.err != nil {
		return b
	}
	t, ok := r.f.ck.Lookup(tensor)
	if !ok {
		r.err = r.f.fail(tensor, "is missing")
		return b
	}
	if r.err = r.f.ck.ReadAt(r.ctx, t, off, b); r.err == nil {
		_, _ = r.sum.Write(b) // a hash never fails
	}
	return b
}

func (r *reader) sum2(in *storedInput) []float64 {
	b := r.bytes(in.At+sum2Suffix, 0, 8*in.N)
	out := make([]float64, in.N)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out
}

func (r *reader) rows(in *storedInput) int64 {
	return int64(binary.LittleEndian.Uint64(r.bytes(in.At+rowsSuffix, 0, 8)))
}

// hessian reads the lower triangle, some rows at a time, and mirrors it.
func (r *reader) hessian(in *storedInput) kernels.Dense {
	h, err := kernels.NewDense(in.N, in.N)
	if err != nil {
		r.err = err
		return h
	}
	const step = 1 << 20
	at := int64(0)
	for from, to := 0, 0; from < in.N && r.err == nil; from = to {
		n := 0
		for to = from; to < in.N && (to == from || n+4*(to+1) <= step); to++ {
			n += 4 * (to + 1)
		}
		b := r.bytes(in.At+hessianSuffix, at, n)
		at += int64(n)
		for row := from; row < to; row++ {
			line := h.Data[row*h.Stride:][:row+1]
			for c := range line {
				line[c] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*c:]))
				h.Data[c*h.Stride+row] = line[c]
			}
			b = b[4*(row+1):]
		}
	}
	return h
}

// check refuses moments that are not finite, or squares that are negative, by
// their first position.
func (m *Moments) check() error {
	if len(m.Sum2) != m.N || m.N <= 0 || m.Rows < 0 {
		return fmt.Errorf("%d second moments of %d columns, %d tokens", len(m.Sum2), m.N, m.Rows)
	}
	for i, x := range m.Sum2 {
		if !(x >= 0) || math.IsInf(x, 1) {
			return fmt.Errorf("the sum of squares of column %d is %g", i, x)
		}
	}
	if m.H.Data == nil {
		return nil
	}
	if m.H.Rows != m.N || m.H.Cols != m.N || m.H.Stride < m.N || len(m.H.Data) < (m.N-1)*m.H.Stride+m.N {
		return fmt.Errorf("a Hessian of %d×%d for %d columns", m.H.Rows, m.H.Cols, m.N)
	}
	for r := range m.N {
		for c, x := range m.H.Data[r*m.H.Stride:][:r+1] {
			if x-x != 0 || c == r && x < 0 {
				return fmt.Errorf("entry (%d, %d) of the Hessian is %g", r, c, x)
			}
		}
	}
	return nil
}

// Chunks are the ids of the text that was measured on; nil where a file, such as
// an imatrix, does not hold them.
func (f *File) Chunks(ctx context.Context) ([][]int32, error) {
	if f.ck == nil {
		return nil, nil
	}
	r := &reader{f: f, ctx: ctx, sum: sha256.New()}
	n, k := int(f.Header.Corpus.Tokens), f.Header.Corpus.Chunks
	ids := make([]int32, n)
	b := r.bytes(idsTensor, 0, 4*n)
	for i := range ids {
		ids[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	out := make([][]int32, k)
	b = r.bytes(lengthsTensor, 0, 8*k)
	for i := range out {
		size := int64(binary.LittleEndian.Uint64(b[8*i:]))
		if r.err == nil && (size < 0 || size > int64(len(ids))) {
			r.err = f.fail(lengthsTensor, "chunk %d has %d tokens, and %d are left", i, size, len(ids))
		}
		if r.err != nil {
			return nil, r.err
		}
		out[i], ids = ids[:size:size], ids[size:]
	}
	switch {
	case r.err != nil:
		return nil, r.err
	case hex.EncodeToString(r.sum.Sum(nil)) != f.ids || len(ids) != 0:
		return nil, f.fail(idsTensor, "is damaged: its bytes have another SHA-256 than when they were written")
	}
	return out, nil
}
