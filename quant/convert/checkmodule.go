package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
)

// nearness is how far values may be apart where a second-level scale multiplies in one
// layout and its reciprocal divides in the other: five roundings to f32, of 2^-24 each.
const nearness = 0x5p-24

// module compares one module.
func (c *checker) module(ctx context.Context, i int) error {
	p := &c.pieces[i]
	m, ok := c.layout.Lookup(p.name)
	if !ok {
		c.problem(p.name, "is not among the quantized modules")
		return nil
	}
	if m.Rows != p.m.Rows || m.Cols != p.m.Cols {
		c.problem(p.name, "is %d×%d, want %d×%d", m.Rows, m.Cols, p.m.Rows, p.m.Cols)
		return nil
	}
	read, other, err := c.readers(p, m)
	if err != nil {
		c.problem(p.name, "%v", err)
		return nil
	}
	var v Values
	codes := true
	var a, b ints
	var x, y []float32
	step := lcm(lcm(rowUnit, p.m.RowMultiple()), m.RowMultiple())
	step *= max(chunkBytes/(16*m.Cols*step), 1)
	err = byRows(m.Rows, step, func(first, n int) error {
		if err := read(ctx, &a, first, n); err != nil {
			return err
		}
		if err := other(ctx, &b, first, n); err != nil {
			return err
		}
		if !bytes.Equal(a.Codes, b.Codes) {
			codes = false
			c.problem(m.CodeTensor().Name, "codes of outputs %d to %d are not the source's", first, first+n)
		}
		if said := differ(p, m, &a, &b, n); said != "" {
			c.problem(m.CodeTensor().Name, "outputs %d to %d: %s", first, first+n, said)
		}
		x, y = resize(x, n*m.Cols), resize(y, n*m.Cols)
		if err := p.m.Dequantize(ctx, x, first, &a.Stored); err != nil {
			return err
		}
		if err := m.Dequantize(ctx, y, first, &b.Stored); err != nil {
			return err
		}
		v.compare(x, y, p.promise)
		return nil
	})
	if err != nil {
		return err
	}
	c.verdict(p, m, &v)
	if err := c.scalars(ctx, p, m); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if codes {
		c.report.CodesEqual++
	}
	c.report.Elements += int64(m.Rows) * int64(m.Cols)
	c.report.Values.add(&v, p.name)
	return nil
}

type reader func(ctx context.Context, x *ints, first, rows int) error

// readers read both modules in the same form.
func (c *checker) readers(p *piece, m *layout.Module) (from, to reader, err error) {
	of := func(m *layout.Module) (reader, error) {
		if !p.ints {
			return func(ctx context.Context, x *ints, first, rows int) error { return x.readNibbles(ctx, m, first, rows) }, nil
		}
		s, err := shapeOf(m)
		return func(ctx context.Context, x *ints, first, rows int) error { return s.read(ctx, m, x, first, rows) }, err
	}
	if from, err = of(p.m); err == nil {
		to, err = of(m)
	}
	return from, to, err
}

// differ compares scales, zero points and groups of what was read; "" where they are the
// same numbers.
func differ(p *piece, m *layout.Module, a, b *ints, rows int) string {
	if f := formOf(m); fourBits(f) != fourBits(p.form) && !(p.form == integers && f == affine) && !(p.ints && f == integers) {
		return fmt.Sprintf("is read as %s, was %s", f, p.form)
	}
	if f := fourBits(p.form); f == nvfp4 || f == mxfp4 {
		if !bytes.Equal(a.Scales, b.Scales) {
			return "block scales are not the source's"
		}
		return ""
	}
	da, db := p.m.ScaleTensor().DType, m.ScaleTensor().DType
	n := len(a.Scales) / p.m.ScaleSize()
	if n != len(b.Scales)/m.ScaleSize() {
		return fmt.Sprintf("%d scales, want %d", len(b.Scales)/m.ScaleSize(), n)
	}
	for i := range n {
		if x, y := scaleAt(wideType(da), a.Scales, i), scaleAt(wideType(db), b.Scales, i); !same(x, y) {
			return fmt.Sprintf("scale %d is %v, was %v", i, y, x)
		}
	}
	if !p.ints {
		return ""
	}
	s, err := shapeOf(m)
	if err != nil {
		return err.Error()
	}
	for i := range rows * s.groups {
		if x, y := zeroAt(a.zeros, i, s.middle), zeroAt(b.zeros, i, s.middle); x != y {
			return fmt.Sprintf("zero point %d is %d, was %d", i, y, x)
		}
	}
	for i := range m.Cols {
		if x, y := groupAt(a.Groups, i, s.group), groupAt(b.Groups, i, s.group); x != y {
			return fmt.Sprintf("input %d is in group %d, was in %d", i, y, x)
		}
	}
	return ""
}

// wideType is the type that Read gives scales in: powers of two as the f32 that they
// stand for.
func wideType(d checkpoint.DType) checkpoint.DType {
	if d == checkpoint.F16 || d == checkpoint.BF16 {
		return d
	}
	return checkpoint.F32
}

func zeroAt(zeros []byte, i int, middle byte) byte {
	if zeros == nil {
		return middle
	}
	return zeros[i]
}

func groupAt(groups []int32, i, size int) int {
	switch {
	case groups != nil:
		return int(groups[i])
	case size == 0:
		return 0
	}
	return i / size
}

// compare counts how values differ.
func (v *Values) compare(x, y []float32, p promise) {
	for i := range x {
		a, b := x[i], y[i]
		if same(a, b) {
			v.Equal++
			if a == 0 && math.Signbit(float64(a)) != math.Signbit(float64(b)) {
				v.NegZeros++
			}
			continue
		}
		v.Differ++
		if p.rounds && rounded(a, b) {
			v.Rounded++
		}
		if !same(toBF16(a), toBF16(b)) {
			v.BF16++
		}
		d := Figure(math.Abs(float64(a) - float64(b)))
		if !(d <= v.MaxAbs) {
			v.MaxAbs = d
		}
		if rel := d / Figure(max(math.Abs(float64(a)), math.Abs(float64(b)))); !(rel <= v.MaxRel) {
			v.MaxRel = rel
		}
	}
}

func toBF16(v float32) float32 { return kernels.BF16ToF32(kernels.F32ToBF16(v)) }

func toF16(v float32) float32 { return kernels.F16ToF32(kernels.F32ToF16(v)) }

// rounded says whether one of two numbers is the other in a narrower type.
func rounded(a, b float32) bool {
	return same(toBF16(a), b) || same(a, toBF16(b)) || same(toF16(a), b) || same(a, toF16(b))
}

func (v *Values) add(o *Values, module string) {
	v.Equal += o.Equal
	v.Differ += o.Differ
	v.Rounded += o.Rounded
	v.BF16 += o.BF16
	v.NegZeros += o.NegZeros
	v.MaxAbs = max(v.MaxAbs, o.MaxAbs) // NaN stays
	if o.MaxRel > v.MaxRel || o.MaxRel != o.MaxRel {
		v.MaxRel, v.Module = o.MaxRel, module
	}
}

// verdict holds what was found against what was promised.
func (c *checker) verdict(p *piece, m *layout.Module, v *Values) {
	name := m.CodeTensor().Name
	switch {
	case v.Differ == 0:
	case p.promise.reciprocal && v.MaxRel <= nearness:
	case p.promise.reciprocal:
		c.problem(name, "values differ by up to %.3g of themselves, more than a reciprocal explains", v.MaxRel)
	case p.promise.rounds && v.Rounded == v.Differ:
	default:
		c.problem(name, "%d of %d values are not the source's, by up to %.3g", v.Differ, v.Differ+v.Equal, v.MaxAbs)
	}
}

// scalars compares second-level scales and those of activations.
func (c *checker) scalars(ctx context.Context, p *piece, m *layout.Module) error {
	pairs := [][2]*checkpoint.Tensor{}
	if fourBits(p.form) == nvfp4 {
		pairs = append(pairs, [2]*checkpoint.Tensor{p.m.GlobalTensor(), m.GlobalTensor()})
	}
	to := piece{m: m}
	for _, a := range []string{"input_scale", "input_global_scale"} {
		for _, b := range []string{"input_scale", "input_global_scale"} {
			if x, y := p.field(a), to.field(b); x != nil && y != nil {
				pairs = append(pairs, [2]*checkpoint.Tensor{x, y})
			}
		}
	}
	for i, pair := range pairs {
		if pair[0] == nil || pair[1] == nil {
			c.problem(p.name, "has lost a scale of the tensor")
			continue
		}
		x, err := scalarOf(ctx, c.ck, pair[0])
		if err != nil {
			return err
		}
		y, err := scalarOf(ctx, c.out, pair[1])
		if err != nil {
			return err
		}
		want := x
		if p.promise.reciprocal {
			want = 1 / x
		}
		if !same(want, y) {
			c.problem(pair[1].Name, "is %v, want %v", y, want)
		}
		if i == 0 && p.promise.reciprocal {
			c.mu.Lock()
			c.report.Scales.Reciprocal++
			if 1/y == x {
				c.report.Scales.RoundTrip++
			}
			c.mu.Unlock()
		}
	}
	return nil
}

func scalarOf(ctx context.Context, ck *checkpoint.Checkpoint, t *checkpoint.Tensor) (float32, error) {
	if t.Size != 4 {
		return 0, fmt.Errorf("convert: %s is %s %v, want one F32", t.Name, t.DType, t.Shape)
	}
	var raw [4]byte
	err := ck.ReadAt(ctx, t, 0, raw[:])
	return math.Float32frombits(binary.LittleEndian.Uint32(raw[:])), err
}

// lcm is the least common multiple of two positive numbers.
func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
