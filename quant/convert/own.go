package convert

import (
	"context"
	"encoding/binary"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
)

// planOwn says 4-bit integers as quantscope's own layout does: weight = bf16(code ·
// scale + minimum), where the minimum of integers with a zero point is −zero point ·
// scale. That need not give the values that the source's own formula does, so that
// all of them are compared before anything is written.
func planOwn(b *planner, p *piece) error {
	s, err := ownShape(p)
	if err != nil {
		return err
	}
	name := "int4-channel"
	if s.group > 0 {
		name = fmt.Sprintf("int4-g%d", s.group)
	}
	_, err = kernels.FormatByName(name)
	switch {
	case s.bits != 4:
		return refuse(p.m, "is of %d bits, and quantscope's own layout has 4", s.bits)
	case err != nil:
		return refuse(p.m, "has groups of %d, and quantscope's own layout has 32, 64, 128 and whole rows", s.group)
	case s.cols%2 != 0:
		return refuse(p.m, "has %d inputs, and quantscope's own layout wants an even number", s.cols)
	}
	if p.form == integers {
		if order, err := s.ordered(b.ctx, b, p); err != nil {
			return err
		} else if order {
			return refuse(p.m, "has groups in the order of activations, which quantscope's own layout cannot say")
		}
	}
	p.scheme = scheme{form: affine, name: name, bits: 4, group: s.group, scale: checkpoint.BF16}
	if p.scheme.inputs, err = b.inputsOf(p); err != nil {
		return err
	}
	if p.scheme.inputs != plainInputs {
		return refuse(p.m, "quantizes activations %s, which quantscope's own layout cannot say", p.scheme.inputs)
	}
	if err := s.halves(b, p.m, checkpoint.BF16, "quantscope's own layout"); err != nil {
		return err
	}
	rows, groups := int64(s.rows), int64(s.groups)
	codes := p.add("weight_packed", checkpoint.U8, rows, int64(s.cols/2))
	scales := p.add("weight_scale", checkpoint.BF16, rows, groups)
	mins := p.add("weight_min", checkpoint.BF16, rows, groups)
	p.promise.prove = true
	p.write = func(ctx context.Context, put put) error {
		var x ints
		var o ownRows
		return byRows(s.rows, s.chunk(2), func(first, n int) error {
			if err := s.ownRead(ctx, p, &x, first, n); err != nil {
				return err
			}
			o.fill(s, p.form, &x)
			if err := put(codes, int64(first)*int64(s.cols/2), x.Codes); err != nil {
				return err
			}
			if err := put(scales, 2*int64(first)*groups, o.scales); err != nil {
				return err
			}
			return put(mins, 2*int64(first)*groups, o.mins)
		})
	}
	return nil
}

// ownShape is the shape of integers or of codes with a minimum.
func ownShape(p *piece) (intShape, error) {
	if p.form == integers {
		return shapeOf(p.m)
	}
	f := p.m.Format()
	s := intShape{bits: f.Bits, rows: p.m.Rows, cols: p.m.Cols, group: f.Group, groups: 1, scale: p.m.ScaleTensor().DType}
	if s.group > 0 {
		s.groups = (s.cols + s.group - 1) / s.group
	}
	if size := int64(s.rows) * int64(s.groups) * int64(s.scale.Bits()/8); p.m.ScaleTensor().Size != size || p.m.MinTensor().Size != size {
		return s, refuse(p.m, "does not have a scale and a minimum for each group of each output")
	}
	return s, nil
}

func (s *intShape) ownRead(ctx context.Context, p *piece, x *ints, first, rows int) error {
	if p.form == integers {
		return s.read(ctx, p.m, x, first, rows)
	}
	return p.m.Read(ctx, &x.Stored, first, rows)
}

// ownRows are scales and minima of some rows as the own layout stores them.
type ownRows struct{ scales, mins []byte }

func (o *ownRows) fill(s intShape, f form, x *ints) {
	o.scales, o.mins = o.scales[:0], o.mins[:0]
	for i := range len(x.Scales) / (s.scale.Bits() / 8) {
		scale := scaleAt(s.scale, x.Scales, i)
		h, _ := half(checkpoint.BF16, scale)
		o.scales = binary.LittleEndian.AppendUint16(o.scales, h)
		var low float32
		switch {
		case f == affine:
			low = scaleAt(s.scale, x.Mins, i)
		case x.zeros != nil:
			low = -float32(x.zeros[i]) * scale
		default:
			low = -float32(s.middle) * scale
		}
		if low == 0 {
			low = 0 // no minus
		}
		o.mins = binary.LittleEndian.AppendUint16(o.mins, kernels.F32ToBF16(low))
	}
}

// prove compares, before anything is written, all values of modules that promise
// exactness under the formulas of both layouts, and looks at those whose weights say
// whether they can be stored.
func (b *planner) prove(ctx context.Context) error {
	return each(ctx, b.threads, len(b.pieces), func(ctx context.Context, i int) error {
		p := &b.pieces[i]
		if p.look != nil {
			return p.look(ctx)
		}
		if !p.promise.prove {
			return nil
		}
		s, err := ownShape(p)
		if err != nil {
			return err
		}
		var x ints
		var o ownRows
		var want, got []float32
		spec := kernels.Spec{Format: p.scheme.name, Convention: kernels.Own}
		return byRows(s.rows, s.chunk(16), func(first, n int) error {
			if err := s.ownRead(ctx, p, &x, first, n); err != nil {
				return err
			}
			o.fill(s, p.form, &x)
			got = resize(got, n*s.cols)
			if err := kernels.Dequantize(got, spec, n, s.cols, x.Codes, o.scales, o.mins, 0); err != nil {
				return err
			}
			want = resize(want, n*s.cols)
			if err := p.m.Dequantize(ctx, want, first, new(layout.Stored)); err != nil {
				return err
			}
			for k := range want {
				if !same(want[k], got[k]) {
					return refuse(p.m, "output %d, input %d is %v by its own formula, and would be %v as bf16(code · scale + minimum)", first+k/s.cols, k%s.cols, want[k], got[k])
				}
			}
			return nil
		})
	})
}

// same says whether two values are the same number; NaN is NaN, and 0 has no sign.
func same(a, b float32) bool { return a == b || a != a && b != b }

func resize(buf []float32, n int) []float32 {
	if cap(buf) < n {
		return make([]float32, n)
	}
	return buf[:n]
}
