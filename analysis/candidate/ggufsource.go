package candidate

import (
	"context"
	"fmt"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
)

// blocks is a GGUF file's weights: matrices stay in memory as the blocks that
// they are stored in until Release, and are decoded in panels.
type blocks struct {
	m       *gguf.Model
	set     kernels.Set
	buffers [][]byte // used again after Release
	used    int
}

func newBlocks(m *gguf.Model, set kernels.Set) *blocks { return &blocks{m: m, set: set} }

func (b *blocks) find(p model.Place, name string) (*gguf.Weight, error) {
	w, ok := findGGUF(b.m, p, name)
	if !ok {
		return nil, fmt.Errorf("%s: %s %s %w", b.m.Path, p, name, model.ErrAbsent)
	}
	return w, nil
}

// Weight implements model.Source.
func (b *blocks) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	w, err := b.find(p, "weight")
	if err != nil {
		return model.Weight{}, err
	}
	l, err := b.m.Load(ctx, w, b.set, b.buffer(w.Bytes()))
	if err != nil {
		return model.Weight{}, err
	}
	return model.Weight{Rows: w.Rows, Cols: w.Cols, Operand: l.Operand()}, nil
}

// buffer is memory that Release gives back.
func (b *blocks) buffer(n int64) []byte {
	if b.used == len(b.buffers) {
		b.buffers = append(b.buffers, nil)
	}
	s := b.buffers[b.used]
	if int64(cap(s)) < n {
		s = make([]byte, n)
	}
	s = s[:n]
	b.buffers[b.used] = s
	b.used++
	return s
}

// Vector implements model.Source.
func (b *blocks) Vector(ctx context.Context, p model.Place, name string) ([]float32, error) {
	w, err := b.find(p, name)
	if err != nil {
		return nil, err
	}
	return b.m.ReadVector(ctx, w)
}

// Rows implements model.Source.
func (b *blocks) Rows(ctx context.Context, p model.Place, rows []int32, dst []float32) error {
	w, err := b.find(p, "weight")
	if err != nil {
		return err
	}
	if w.Vector {
		return &checkpoint.FileError{File: b.m.Path, Tensor: b.m.Stored(w), Reason: "is a vector, and no table of embeddings"}
	}
	return b.m.ReadRows(ctx, w, rows, dst)
}

// Has implements model.Source.
func (b *blocks) Has(p model.Place, name string) bool {
	_, ok := findGGUF(b.m, p, name)
	return ok
}

// Release implements model.Source.
func (b *blocks) Release() { b.used = 0 }

// LayerOrigin implements model.Origins.
func (b *blocks) LayerOrigin(layer int) any { return layerOrigin{b.m, layer} }

// WeightOrigin implements model.Origins.
func (b *blocks) WeightOrigin(p model.Place) any { return placeOrigin{b.m, p, "weight"} }

// vectorOrigin implements traced.
func (b *blocks) vectorOrigin(p model.Place, name string) any { return placeOrigin{b.m, p, name} }
