package ggufmake

import (
	"context"
	"maps"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// stack adds one expert to the tensor that has its part of all.
func (c *converter) stack(t *checkpoint.Tensor, p *part) error {
	name, ok := c.names.Stack(p.role.Layer, p.role.Projection, "weight")
	if !ok || p.role.Expert < 0 {
		return tensorError(c.ck, t, "is no expert's gate, up or down")
	}
	place := p.role.Expert
	if half := map[string]int{"gate": 0, "up": 1}; c.Arch == "gemma4" && p.role.Projection != "down" { // gate and up are one tensor there
		name, place = c.names.ModuleName(p.role.Layer, gateUp), 2*place+half[p.role.Projection]
	}
	at, have := c.stacks[name]
	if !have {
		at = len(c.Tensors)
		c.stacks[name] = at
		in := p.input(name)
		in.Of = nil
		c.add(in)
	}
	for len(c.experts[at]) <= place {
		c.experts[at] = append(c.experts[at], part{})
	}
	if e := &c.experts[at][place]; e.read != nil {
		return tensorError(c.ck, t, "is expert %d of %s, and %s is it too", p.role.Expert, name, e.name)
	}
	c.experts[at][place] = *p
	return nil
}

// gateUp is the parameter of all experts' gates and ups in one.
const gateUp = "ffn_gate_up_exps.weight"

// closeStacks wants every expert to be there, of one shape.
func (c *converter) closeStacks() error {
	for _, name := range slices.Sorted(maps.Keys(c.stacks)) {
		at := c.stacks[name]
		in, list := &c.Tensors[at], c.experts[at]
		halves := 1 // of an expert's matrix
		if strings.HasSuffix(name, gateUp) {
			halves = 2
		}
		if len(list) != halves*c.cfg.Experts {
			return c.fail("%s has %d experts, the config says %d", name, len(list)/halves, c.cfg.Experts)
		}
		rows, cols, group := 0, 0, 1
		for e := range list {
			p := &list[e]
			if p.read == nil {
				return c.fail("%s: expert %d is missing", name, e/halves)
			}
			if e == 0 {
				rows, cols = p.rows, p.cols
			}
			if p.rows != rows || p.cols != cols {
				return c.fail("%s: expert %d is %d×%d and expert 0 %d×%d", name, e/halves, p.rows, p.cols, rows, cols)
			}
			group = max(group, p.group)
			if e%halves == 0 {
				in.Of = append(in.Of, p.name)
			}
			in.Packed = in.Packed || p.packed
		}
		in.Shape, in.group = []int64{int64(len(list) / halves), int64(halves * rows), int64(cols)}, group
		in.rows = func(ctx context.Context, r *reader, first, n int, dst []float32) error {
			for n > 0 {
				k := min(n, rows-first%rows)
				if err := list[first/rows].read(ctx, r, first%rows, k, dst[:k*cols]); err != nil {
					return err
				}
				first, n, dst = first+k, n-k, dst[k*cols:]
			}
			return nil
		}
	}
	return nil
}

// expertBias adds the biases of all experts, of which those of gate and up may be one
// tensor.
func (c *converter) expertBias(t *checkpoint.Tensor, r topology.Role) error {
	if r.Param != "bias" || r.Expert >= 0 || len(t.Shape) != 2 {
		return tensorError(c.ck, t, "has no place in GGUF files of architecture %s", c.Arch)
	}
	add := func(projection string, first, step, of int) error {
		name, ok := c.names.Stack(r.Layer, projection, "bias")
		if !ok {
			return tensorError(c.ck, t, "has no name in GGUF files of architecture %s", c.Arch)
		}
		n := int(t.Shape[1]) / of
		c.add(Input{
			Name: name, Of: []string{t.Name}, Shape: []int64{t.Shape[0], int64(n)}, From: t.DType.String(), Type: kernels.GGUFF32, Where: fileOf(c.ck, t), group: int(t.Shape[0]),
			rows: func(ctx context.Context, _ *reader, _, _ int, dst []float32) error {
				values, err := c.values(ctx, t)
				if err != nil {
					return err
				}
				for e := range int(t.Shape[0]) {
					for i := range n {
						dst[e*n+i] = values[e*int(t.Shape[1])+first+i*step]
					}
				}
				return nil
			},
		})
		return nil
	}
	if r.Projection != "gate_up" {
		return add(r.Projection, 0, 1, 1)
	}
	half := int(t.Shape[1]) / 2
	for k, projection := range []string{"gate", "up"} {
		first, step := k*half, 1
		if c.cfg.AlternatesExperts() {
			first, step = k, 2
		}
		if err := add(projection, first, step, 2); err != nil {
			return err
		}
	}
	return nil
}
