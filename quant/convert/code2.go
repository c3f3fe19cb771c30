package convert

import (
	"context"
	"math/bits"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
)

// Two bits: codes of E2M1 of which a matrix uses four values at most are stored packed
// in quantscope's own layout, and packed ones as codes of E2M1 in those of FP4. Scales
// are the same bytes in both; a second-level scale keeps its name, which says whether
// it multiplies, or becomes its reciprocal where the other layout wants that.

// planUnpacked says codes of two bits as the codes of E2M1 that they stand for.
func planUnpacked(b *planner, p *piece) error {
	base, _ := kernels.CodebookBase(p.m.Format().Name)
	f, err := kernels.FormatByName(base)
	if err != nil {
		return err
	}
	rows, cols, block := int64(p.m.Rows), int64(p.m.Cols), int64(f.Group)
	if cols%block != 0 {
		return refuse(p.m, "%d inputs are no multiple of %d", cols, block)
	}
	if err := scalar(p, p.m.GlobalTensor()); err != nil {
		return err
	}
	p.scheme = scheme{form: form(base), name: base, bits: f.Bits, group: f.Group}
	p.promise.reciprocal = p.m.GlobalTensor() != nil && divides(p.m) != (b.To == CompressedTensors)
	param, dtype := "weight_packed", checkpoint.F8E4M3
	if b.To == ModelOpt {
		param = "weight"
	}
	if f.Scale == "e8m0" {
		dtype = checkpoint.U8
	}
	codes := p.add(param, checkpoint.U8, rows, cols/2)
	scales := p.add("weight_scale", dtype, rows, cols/block)
	global := -1
	switch {
	case p.m.GlobalTensor() == nil:
	case b.To == ModelOpt:
		global = p.add("weight_scale_2", checkpoint.F32)
	default:
		global = p.add("weight_global_scale", checkpoint.F32, 1)
	}
	p.write = func(ctx context.Context, put put) error {
		if err := b.copyTensor(ctx, p.m.ScaleTensor(), put, scales); err != nil {
			return err
		}
		if global >= 0 {
			if err := b.putReciprocal(ctx, p, p.m.GlobalTensor(), put, global); err != nil {
				return err
			}
		}
		var x ints
		return byRows(p.m.Rows, codeRows(p.m), func(first, n int) error {
			if err := x.readNibbles(ctx, p.m, first, n); err != nil {
				return err
			}
			return put(codes, int64(first)*cols/2, x.Codes)
		})
	}
	return nil
}

// planPacked says FP4 codes in two bits, where four values are enough.
func planPacked(b *planner, p *piece) error {
	f, err := kernels.FormatByName(p.m.Format().Name)
	if err != nil {
		return err
	}
	name := "code2"
	scaleType := checkpoint.F8E4M3
	if f.Scale == "e8m0" {
		name, scaleType = "code2-mxfp4", checkpoint.U8
	}
	rows, cols := int64(p.m.Rows), int64(p.m.Cols)
	t := p.m.ScaleTensor()
	switch {
	case cols%4 != 0:
		return refuse(p.m, "%d inputs are no multiple of 4", cols)
	case t.DType.Bits() != 8 || t.Size != rows*((cols+int64(f.Group)-1)/int64(f.Group)):
		return refuse(p.m, "%s is %s %v, which are not the scales of %d×%d alone", t.Name, t.DType, t.Shape, rows, cols)
	}
	in, err := b.inputsOf(p)
	if err != nil {
		return err
	}
	if in != plainInputs {
		return refuse(p.m, "quantizes activations %s, which quantscope's own layout cannot say", in)
	}
	for _, param := range []string{"input_scale", "input_global_scale"} {
		if p.field(param) != nil {
			return refuse(p.m, "has %s, which quantscope's own layout cannot say", param)
		}
	}
	global := p.m.GlobalTensor()
	if f.Scale != "e8m0" && global == nil {
		return refuse(p.m, "has no second-level scale")
	}
	if err := scalar(p, global); err != nil {
		return err
	}
	p.scheme = scheme{form: form(name), name: name, bits: 2, group: f.Group}
	codes := p.add("weight_packed", checkpoint.U8, rows, cols/4)
	scales := p.add("weight_scale", scaleType, rows, (cols+int64(f.Group)-1)/int64(f.Group))
	book := p.add("weight_codebook", checkpoint.U8, kernels.CodebookValues)
	second := -1
	switch {
	case global == nil:
	case divides(p.m):
		second = p.add("weight_global_scale", checkpoint.F32, 1)
	default:
		second = p.add("weight_scale_2", checkpoint.F32)
	}
	// some writes packed rows from first on, and with the first of them the rest.
	some := func(ctx context.Context, put put, first int, packed []byte, mask uint16) error {
		if err := put(codes, int64(first)*cols/4, packed); err != nil || first > 0 {
			return err
		}
		if err := put(book, 0, kernels.CodebookCodes(mask)); err != nil {
			return err
		}
		if err := b.copyTensor(ctx, t, put, scales); err != nil || second < 0 {
			return err
		}
		return b.copyTensor(ctx, global, put, second)
	}
	pack := func(nibbles []byte, n int, mask uint16) ([]byte, error) {
		packed := make([]byte, n*int(cols/4))
		if err := kernels.PackCode2(packed, nibbles, n, int(cols), mask); err != nil {
			return nil, refuse(p.m, "%v", err)
		}
		return packed, nil
	}
	if b.recoded {
		p.recoded = func(ctx context.Context, put put, nibbles []byte, mask uint16) error {
			packed, err := pack(nibbles, p.m.Rows, mask)
			if err != nil {
				return err
			}
			return some(ctx, put, 0, packed, mask)
		}
		return nil
	}
	var mask uint16
	p.look = func(ctx context.Context) (err error) {
		mask, err = codebookOf(ctx, p.m)
		return err
	}
	p.write = func(ctx context.Context, put put) error {
		var x ints
		return byRows(p.m.Rows, codeRows(p.m), func(first, n int) error {
			if err := x.readNibbles(ctx, p.m, first, n); err != nil {
				return err
			}
			packed, err := pack(x.Codes, n, mask) // an error where the file has changed
			if err != nil {
				return err
			}
			return some(ctx, put, first, packed, mask)
		})
	}
	return nil
}

// codebookOf reads all codes of an FP4 module for the four values that it uses. Of fewer
// the rest are those of the first codes that it does not use.
func codebookOf(ctx context.Context, m *layout.Module) (uint16, error) {
	var used uint16
	var x ints
	err := byRows(m.Rows, codeRows(m), func(first, n int) error {
		if err := x.readNibbles(ctx, m, first, n); err != nil {
			return err
		}
		for _, two := range x.Codes {
			used |= 1<<(two&15) | 1<<(two>>4)
		}
		return nil
	})
	switch {
	case err != nil:
		return 0, err
	case bits.OnesCount16(used&^(1<<8)) > kernels.CodebookValues:
		return 0, refuse(m, "%s uses %d values (%v), and quantscope's own layout of two bits has %d", m.CodeTensor().Name, bits.OnesCount16(used&^(1<<8)), kernels.Codebook(used), kernels.CodebookValues)
	case used&(1<<8) != 0:
		return 0, refuse(m, "%s has codes of −0, which no codebook has", m.CodeTensor().Name)
	}
	for code := 0; bits.OnesCount16(used) < kernels.CodebookValues; code++ {
		used |= 1 << code
	}
	return used, nil
}

// divides says whether a module is decoded with its second-level scale as a divisor.
func divides(m *layout.Module) bool {
	return m.Method == CompressedTensors || m.BookTensor() != nil && m.Spec.Convention == kernels.CT
}

// codeRows is how many rows of codes are read at once.
func codeRows(m *layout.Module) int {
	step := max(chunkBytes/max(2*m.Cols, 1), 1)
	return max(step/m.RowMultiple(), 1) * m.RowMultiple()
}

// readNibbles reads rows of a module of four bits or two; codes are then those of E2M1,
// two in a byte.
func (x *ints) readNibbles(ctx context.Context, m *layout.Module, first, rows int) error {
	if err := m.Read(ctx, &x.Stored, first, rows); err != nil || m.BookTensor() == nil {
		return err
	}
	x.four = append(x.four[:0], make([]byte, rows*((m.Cols+1)/2))...)
	if err := kernels.UnpackCode2(x.four, x.Codes, rows, m.Cols, x.Codebook); err != nil {
		return err
	}
	x.Codes, x.four = x.four, x.Codes[:0]
	return nil
}

// fourBits is the form that codes of two bits have unpacked, and any other form itself.
func fourBits(f form) form {
	if base, ok := kernels.CodebookBase(string(f)); ok {
		return form(base)
	}
	return f
}
