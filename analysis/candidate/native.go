package candidate

import (
	"context"
	"fmt"

	"quantscope/analysis/model"
	"quantscope/quant/layout"
)

// native is a checkpoint's own weights: quantized modules as they are stored,
// everything else in floating point.
type native struct {
	*model.Stored
	x      *opened
	read   []*layout.Stored // memory of modules, used again after Release
	used   int
	loaded map[*layout.Module]*coded // since the last Release
	rows   layout.Stored             // for rows of embeddings
}

func newNative(x *opened) *native {
	return &native{Stored: model.NewStored(x.ck, x.top), x: x, loaded: map[*layout.Module]*coded{}}
}

// Weight implements model.Source.
func (n *native) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	at, ok := n.x.modules[p]
	if !ok {
		return n.Stored.Weight(ctx, p)
	}
	c, ok := n.loaded[at.m]
	if !ok {
		if n.used == len(n.read) {
			n.read = append(n.read, &layout.Stored{})
		}
		s := n.read[n.used]
		n.used++
		if err := at.m.Read(ctx, s, 0, at.m.Rows); err != nil {
			return model.Weight{}, err
		}
		var err error
		if c, err = n.x.coded(at.m, s, at.m.Rows); err != nil {
			return model.Weight{}, n.x.fail(at.m.CodeTensor().Name, "cannot be decoded", err)
		}
		n.loaded[at.m] = c
	}
	part, err := c.part(at.rows, at.first, at.step)
	if err != nil {
		return model.Weight{}, n.x.fail(at.m.CodeTensor().Name, "cannot be decoded", err)
	}
	return part.weight(), nil
}

// coded is what was read of rows of a module.
func (x *opened) coded(m *layout.Module, s *layout.Stored, rows int) (*coded, error) {
	if v, ok := x.firsts[m]; ok {
		s.Global = v
	}
	if m.OwnPanels() {
		return &coded{set: x.set, rows: rows, cols: m.Cols, step: 1, codes: s.Codes, scales: s.Scales, mins: s.Mins, own: m, stored: s}, nil
	}
	tileR, tileC := m.Tile()
	c, err := newCoded(x.set, m.SpecOf(s), rows, m.Cols, tileR, tileC, s.Codes, s.Scales, s.Mins, s.Global)
	if err != nil {
		return nil, err
	}
	c.columns = s.Columns
	return c, nil
}

// Has implements model.Source.
func (n *native) Has(p model.Place, name string) bool {
	if _, ok := n.x.modules[p]; ok && name == "weight" {
		return true
	}
	return n.Stored.Has(p, name)
}

// Vector implements model.Source. Biases of experts that are quantized in one
// tensor are halved as their matrices are.
func (n *native) Vector(ctx context.Context, p model.Place, name string) ([]float32, error) {
	at, ok := n.x.modules[p]
	if !ok || at.m.Role.Projection != "gate_up" || name == "weight" {
		return n.Stored.Vector(ctx, p, name)
	}
	whole := p
	whole.Expert, whole.Projection = -1, "gate_up"
	all, err := n.Stored.Vector(ctx, whole, name)
	if err != nil {
		return nil, err
	}
	from := at.m.Rows * max(at.m.Expert, 0)
	if len(all) < from+at.m.Rows {
		return nil, fmt.Errorf("%s: %s of %s has %d values: %w", n.x.ck.Path, name, whole, len(all), model.ErrArchitecture)
	}
	out := make([]float32, at.rows)
	for r := range out {
		out[r] = all[from+at.first+r*at.step]
	}
	return out, nil
}

// Rows implements model.Source.
func (n *native) Rows(ctx context.Context, p model.Place, rows []int32, dst []float32) error {
	at, ok := n.x.modules[p]
	if !ok {
		return n.Stored.Rows(ctx, p, rows, dst)
	}
	m := at.m
	if len(dst) != len(rows)*m.Cols {
		return fmt.Errorf("candidate: %d values for %d rows of %s", len(dst), len(rows), m.Name)
	}
	multiple := m.RowMultiple()
	for k, row := range rows {
		if row < 0 || int(row) >= m.Rows {
			return fmt.Errorf("candidate: row %d of %s, which has %d", row, m.Name, m.Rows)
		}
		first := int(row) / multiple * multiple
		if err := m.Read(ctx, &n.rows, first, min(multiple, m.Rows-first)); err != nil {
			return err
		}
		c, err := n.x.coded(m, &n.rows, min(multiple, m.Rows-first))
		if err != nil {
			return n.x.fail(m.CodeTensor().Name, "cannot be decoded", err)
		}
		if err := c.row(dst[k*m.Cols:][:m.Cols], int(row)-first); err != nil {
			return n.x.fail(m.CodeTensor().Name, "cannot be decoded", err)
		}
	}
	return nil
}

// Release implements model.Source.
func (n *native) Release() {
	n.Stored.Release()
	n.used = 0
	clear(n.loaded)
}

// LayerOrigin implements model.Origins.
func (n *native) LayerOrigin(layer int) any { return layerOrigin{n.x, layer} }

// WeightOrigin implements model.Origins.
func (n *native) WeightOrigin(p model.Place) any { return placeOrigin{n.x, p, "weight"} }

// vectorOrigin implements traced.
func (n *native) vectorOrigin(p model.Place, name string) any { return placeOrigin{n.x, p, name} }
