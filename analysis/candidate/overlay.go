package candidate

import (
	"context"

	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// overlay is a reference's weights with some of them quantized on the fly.
type overlay struct {
	base traced // of what stays
	raw  traced // of what is quantized: read, made into codes and given back at once
	m    *made

	table   map[model.Place]*coded // embeddings, which are looked up group after group
	buffers [][]byte               // of codes, used again after Release
	used    int
}

func newOverlay(ref *Candidate, m *made) (*overlay, error) {
	base, err := ref.traced()
	if err != nil {
		return nil, err
	}
	raw, err := ref.traced()
	if err != nil {
		return nil, err
	}
	return &overlay{base: base, raw: raw, m: m, table: map[model.Place]*coded{}}, nil
}

// Weight implements model.Source.
func (o *overlay) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	j, ok := o.m.jobs[p]
	if !ok {
		return o.base.Weight(ctx, p)
	}
	var c *coded
	var err error
	if p.Kind == topology.Embedding {
		c, err = o.embeddings(ctx, j)
	} else {
		c, err = o.m.code(ctx, o.raw, j, o.room)
	}
	if err == nil && o.m.firsts != nil {
		c, err = o.m.first(ctx, o.raw, p, c)
	}
	if err != nil {
		return model.Weight{}, err
	}
	return c.weight(), nil
}

// room is memory that Release gives back.
func (o *overlay) room(n int) []byte {
	if o.used == len(o.buffers) {
		o.buffers = append(o.buffers, nil)
	}
	b := o.buffers[o.used]
	if cap(b) < n {
		b = make([]byte, n)
	}
	o.buffers[o.used] = b[:n]
	o.used++
	return b[:n]
}

// embeddings are codes that stay as long as the source.
func (o *overlay) embeddings(ctx context.Context, j *job) (*coded, error) {
	if c, ok := o.table[j.at]; ok {
		return c, nil
	}
	c, err := o.m.code(ctx, o.raw, j, func(n int) []byte { return make([]byte, n) })
	if err != nil {
		return nil, err
	}
	o.table[j.at] = c
	return c, nil
}

// Vector implements model.Source.
func (o *overlay) Vector(ctx context.Context, p model.Place, name string) ([]float32, error) {
	return o.base.Vector(ctx, p, name)
}

// Rows implements model.Source.
func (o *overlay) Rows(ctx context.Context, p model.Place, rows []int32, dst []float32) error {
	j, ok := o.m.jobs[p]
	if !ok {
		return o.base.Rows(ctx, p, rows, dst)
	}
	var c *coded
	var err error
	if p.Kind == topology.Embedding {
		c, err = o.embeddings(ctx, j)
	} else {
		c, err = o.m.code(ctx, o.raw, j, func(n int) []byte { return make([]byte, n) })
	}
	if err != nil {
		return err
	}
	return c.lookup(j.name, rows, dst)
}

// Has implements model.Source.
func (o *overlay) Has(p model.Place, name string) bool { return o.base.Has(p, name) }

// Release implements model.Source.
func (o *overlay) Release() {
	o.base.Release()
	o.used = 0
}

// LayerOrigin implements model.Origins.
func (o *overlay) LayerOrigin(layer int) any {
	if o.m.layers[layer] {
		return layerOrigin{o.m, layer}
	}
	return o.base.LayerOrigin(layer)
}

// WeightOrigin implements model.Origins.
func (o *overlay) WeightOrigin(p model.Place) any {
	if _, ok := o.m.jobs[p]; ok {
		return placeOrigin{o.m, p, "weight"}
	}
	return o.base.WeightOrigin(p)
}

func (o *overlay) vectorOrigin(p model.Place, name string) any { return o.base.vectorOrigin(p, name) }
