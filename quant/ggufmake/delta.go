package ggufmake

import (
	"context"
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
	"quantscope/quant/topology"
)

// linearAttention says whether a role belongs to a layer with linear attention.
func (c *converter) linearAttention(r topology.Role) bool {
	return r.Layer >= 0 && c.cfg.LayerType(r.Layer) == topology.LinearAttention
}

// delta are the sizes of linear attention.
func (c *converter) delta() gguf.Delta {
	l := c.cfg.Linear
	return gguf.Delta{KeyHeads: l.KeyHeads, ValueHeads: l.ValueHeads, KeyDim: l.KeyDim, ValueDim: l.ValueDim}
}

// linearModules are the modules of linear attention whose value heads stand in turns
// in files of Qwen3.5, by projection.
var linearModules = map[string]string{
	"qkv": "linear_attn.in_proj_qkv", "z": "linear_attn.in_proj_z", "a": "linear_attn.in_proj_a", "b": "linear_attn.in_proj_b", "o": "linear_attn.out_proj",
	"conv": "linear_attn.conv1d", "a_log": "linear_attn.A_log", "dt": "linear_attn.dt_bias",
}

// order is where the rows, columns or values of a weight stand in the file, as the list
// of what stands at each place; nil where they stay.
func (c *converter) order(r topology.Role, n int) []int {
	if c.Arch == "qwen3next" || r.Kind != topology.Attention || !c.linearAttention(r) {
		return nil
	}
	d := c.delta()
	stored, ok := d.Order(linearModules[r.Projection], c.cfg.Linear.Taps)
	if !ok || d.KeyHeads == d.ValueHeads {
		return nil
	}
	list := make([]int, n)
	for i := range list {
		if at := stored(i); at < n {
			list[at] = i
		}
	}
	return list
}

// linearSide is the number of rows, or columns, that a map of linear attention has
// where value heads lie.
func (c *converter) linearSide(projection string) int {
	d := c.delta()
	switch projection {
	case "qkv":
		return d.QK() + d.V()
	case "qkvz":
		return d.QK() + 2*d.V()
	case "z", "o":
		return d.V()
	case "a", "b":
		return d.ValueHeads
	}
	return 0
}

// linearPart adds a map of linear attention; known is false for any other.
func (c *converter) linearPart(t *checkpoint.Tensor, p *part, name string) (known bool, err error) {
	if p.role.Kind != topology.Attention || !c.linearAttention(p.role) {
		return false, nil
	}
	have := p.rows
	if p.role.Projection == "o" {
		have = p.cols
	}
	if want := c.linearSide(p.role.Projection); want != 0 && want != have {
		return true, tensorError(c.ck, t, "is %d×%d where the config asks for %d", p.rows, p.cols, want)
	}
	if p.role.Projection == "qkvz" {
		return true, c.splitQKVZ(t, p)
	}
	in := p.input(name)
	if list := c.order(p.role, have); list != nil {
		if p.role.Projection == "o" {
			inOrderOfColumns(&in, list)
		} else {
			inOrder(&in, list, p)
		}
	}
	c.add(in)
	return true, nil
}

// runs calls with each stretch of a list of rows that stand one after the other.
func runs(list []int, do func(at, first, n int) error) error {
	for at := 0; at < len(list); {
		n := 1
		for at+n < len(list) && list[at+n] == list[at]+n {
			n++
		}
		if err := do(at, list[at], n); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// inOrder makes row i of in row list[i] of a part. Rows of a part that is stored in
// groups of several are read whole.
func inOrder(in *Input, list []int, p *part) {
	cols, own := p.cols, p.group
	if own > 1 {
		in.group = len(list)
	}
	in.rows = func(ctx context.Context, r *reader, first, n int, dst []float32) error {
		if own <= 1 {
			return runs(list[first:first+n], func(at, row, n int) error { return p.read(ctx, r, row, n, dst[at*cols:][:n*cols]) })
		}
		all := make([]float32, p.rows*cols)
		if err := p.read(ctx, r, 0, p.rows, all); err != nil {
			return err
		}
		for i, row := range list[first : first+n] {
			copy(dst[i*cols:][:cols], all[row*cols:])
		}
		return nil
	}
}

// inOrderOfColumns makes column i of in column list[i] of what it reads.
func inOrderOfColumns(in *Input, list []int) {
	read := in.rows
	in.rows = func(ctx context.Context, r *reader, first, n int, dst []float32) error {
		if err := read(ctx, r, first, n, dst); err != nil {
			return err
		}
		line := make([]float32, len(list))
		for i := range n {
			row := dst[i*len(list):][:len(list)]
			for c, from := range list {
				line[c] = row[from]
			}
			copy(row, line)
		}
		return nil
	}
}

// splitQKVZ makes of Qwen3-Next's one matrix, which has queries, keys, values and gates
// of each key head, one of all queries, keys and values, and one of all gates.
func (c *converter) splitQKVZ(t *checkpoint.Tensor, p *part) error {
	d := c.delta()
	values := d.V() / d.KeyHeads
	head := 2*d.KeyDim + 2*values
	var qkv, z []int
	for _, of := range []struct {
		list        *[]int
		first, rows int
	}{{&qkv, 0, d.KeyDim}, {&qkv, d.KeyDim, d.KeyDim}, {&qkv, 2 * d.KeyDim, values}, {&z, 2*d.KeyDim + values, values}} {
		for h := range d.KeyHeads {
			for i := range of.rows {
				*of.list = append(*of.list, h*head+of.first+i)
			}
		}
	}
	for _, of := range []struct {
		module string
		list   []int
	}{{"attn_qkv.weight", qkv}, {"attn_gate.weight", z}} {
		in := p.input(c.names.ModuleName(p.role.Layer, of.module))
		in.Shape = []int64{int64(len(of.list)), int64(p.cols)}
		inOrder(&in, of.list, p)
		c.add(in)
	}
	return nil
}

// smallShape is the shape that files have for a tensor that is no linear map: a
// vector, the taps of a convolution, or a table of positions; ok is false for others.
func (c *converter) smallShape(t *checkpoint.Tensor, r topology.Role) ([]int64, bool) {
	s := t.Shape
	switch {
	case len(s) == 1:
		return s, true
	case r.Kind != topology.Attention:
		return nil, false
	case r.Projection == "conv" && len(s) == 3 && s[1] == 1:
		d := c.delta()
		return []int64{s[0], s[2]}, s[0] == int64(d.QK()+d.V()) && s[2] == int64(c.cfg.Linear.Taps)
	case r.Projection == "compressor.ape" || r.Projection == "indexer.compressor.ape":
		return s, len(s) == 2
	}
	return nil, false
}

// decayed is what files keep of A_log, as llama.cpp computes it.
func decayed(x []float32) {
	for i, v := range x {
		x[i] = float32(-math.Exp(float64(v)))
	}
}

// table adds the table of experts of a layer that hashes tokens: integers.
func (c *converter) table(t *checkpoint.Tensor, name string) error {
	if t.DType != checkpoint.I64 && t.DType != checkpoint.I32 || len(t.Shape) != 2 || t.Elements() == 0 || t.Elements() > maxVector {
		return tensorError(c.ck, t, "is %s of shape %v where a table of experts is expected", t.DType, t.Shape)
	}
	wide := int64(t.DType.Bits() / 8)
	c.add(Input{
		Name: name, Of: []string{t.Name}, Shape: slices.Clone(t.Shape), From: t.DType.String(), Type: kernels.GGUFI32, Where: fileOf(c.ck, t), group: 1,
		copy: func(ctx context.Context, off int64, dst []byte) error {
			raw := make([]byte, int64(len(dst))/4*wide)
			if err := c.ck.ReadAt(ctx, t, off/4*wide, raw); err != nil {
				return err
			}
			for i := range len(dst) / 4 {
				n := raw[int64(i)*wide:][:wide]
				if slices.ContainsFunc(n[2:], func(b byte) bool { return b != 0 }) || int(n[0])|int(n[1])<<8 >= c.cfg.Experts {
					return tensorError(c.ck, t, "value %d is no number of %d experts", off/4+int64(i), c.cfg.Experts)
				}
				copy(dst[4*i:][:4], n[:4])
			}
			return nil
		},
	})
	return nil
}
