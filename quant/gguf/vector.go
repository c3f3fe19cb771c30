package gguf

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// ReadVector reads a norm, a bias, or another small tensor as the list of its values.
func (m *Model) ReadVector(ctx context.Context, w *Weight) ([]float32, error) {
	p := &w.pieces[0]
	t := &m.Tensors[p.tensor]
	if !w.Vector || w.Cols > maxVector {
		return nil, m.shape(t, "a vector")
	}
	raw := make([]float32, w.Cols)
	if w.form == ones {
		for i := range raw {
			raw[i] = 1
		}
		return raw, nil
	}
	if err := m.values(ctx, t, p.first*int64(w.Cols), raw); err != nil {
		return nil, err
	}
	if p.heads > 0 || p.rowTiles != nil {
		out := make([]float32, len(raw))
		for i := range out {
			if p.heads > 0 {
				out[i] = raw[paired(i, len(raw)/p.heads)]
			} else {
				out[i] = raw[p.rowTiles.stored(i)]
			}
		}
		raw = out
	}
	for i := range raw {
		raw[i] += w.Shift
		if w.form != decay {
			continue
		}
		if !(raw[i] < 0) || math.IsInf(float64(raw[i]), 0) {
			return nil, &checkpoint.FileError{File: m.Parts[t.Part].Name, Tensor: t.Name, Reason: fmt.Sprintf("value %d is %g, and a rate of decay is −exp of a number", i, raw[i])}
		}
		raw[i] = float32(math.Log(-float64(raw[i])))
	}
	return raw, nil
}

// values decodes values from first on, integers of 32 bits too.
func (m *Model) values(ctx context.Context, t *Tensor, first int64, dst []float32) error {
	if t.Type != kernels.GGUFI32 {
		return m.Decode(ctx, t, first, dst)
	}
	raw := make([]byte, 4*len(dst))
	if err := m.ReadStored(ctx, t, 4*first, raw); err != nil {
		return err
	}
	for i := range dst {
		n := int32(binary.LittleEndian.Uint32(raw[4*i:]))
		if n < 0 || n >= maxExperts {
			return &checkpoint.FileError{File: m.Parts[t.Part].Name, Tensor: t.Name, Reason: fmt.Sprintf("value %d is %d, and is no number of an expert", i, n)}
		}
		dst[i] = float32(n)
	}
	return nil
}

// flat makes a vector of all values of a tensor, in their order.
func (m *Model) flat(name string, i int) (Weight, error) {
	t := &m.Tensors[i]
	if t.Elements() > maxVector {
		return Weight{}, m.shape(t, fmt.Sprintf("at most %d values", maxVector))
	}
	w := Weight{Name: name, Rows: 1, Cols: int(t.Elements()), Vector: true, pieces: []piece{{tensor: i, rows: 1}}}
	if len(t.Shape) > 1 {
		w.Lines = int(t.Shape[0])
	}
	return w, nil
}
