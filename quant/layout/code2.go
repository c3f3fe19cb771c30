package layout

import (
	"context"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Codes of two bits of quantscope's own layout: four values of E2M1 a matrix, with the
// scales of NVFP4 or MXFP4.

// bookParam is the parameter of the four values; only modules of two bits have it.
const bookParam = "weight_codebook"

// codesPerByte is how many codes of two bits share a byte.
const codesPerByte = 4

// buildCode2 reads [outputs, inputs/4] codes with the block scales of NVFP4 or, where
// they are powers of two, of MXFP4. Which of its two names the second-level scale has
// says whether it multiplies or divides. The values are read with the codes.
func buildCode2(o *opener, f *form, g *group) ([]Module, error) {
	codes, book, scales := g.params["weight_packed"], g.params[bookParam], g.params["weight_scale"]
	times, by := g.params["weight_scale_2"], g.params["weight_global_scale"]
	switch {
	case len(codes.Shape) != 2:
		return nil, fmt.Errorf("%s is %v, want [outputs, inputs/%d]", codes.Name, codes.Shape, codesPerByte)
	case len(book.Shape) != 1 || book.Shape[0] != kernels.CodebookValues:
		return nil, fmt.Errorf("%s is %v, want [%d]", book.Name, book.Shape, kernels.CodebookValues)
	case times != nil && by != nil:
		return nil, fmt.Errorf("%s beside %s: one multiplies and one divides, and only one can be meant", times.Name, by.Name)
	}
	global := times
	spec := kernels.Spec{Format: f.name, Convention: kernels.ModelOpt}
	if by != nil {
		global, spec.Convention = by, kernels.CT
	}
	block := int64(kernels.BlockNVFP4)
	switch powers := scales.DType != checkpoint.F8E4M3; {
	case powers && global != nil:
		return nil, fmt.Errorf("%s beside scales that are powers of two", global.Name)
	case powers:
		spec.Convention, block = kernels.CT, mxBlock
	case global == nil:
		return nil, fmt.Errorf("has neither weight_scale_2 nor weight_global_scale beside scales in %s", scales.DType)
	case global.DType != checkpoint.F32:
		return nil, fmt.Errorf("%s is %s, want F32", global.Name, global.DType)
	}
	rows, stored := codes.Shape[0], codes.Shape[1]
	ms, err := o.start(f, g, shape{false, 1, rows, stored}, codesPerByte*min(stored, 1<<40), spec)
	if err != nil {
		return nil, err
	}
	ms[0].book = place{t: book, row: kernels.CodebookValues}
	if global != nil {
		if err := addGlobal(ms, global); err != nil {
			return nil, err
		}
	}
	return ms, addScales(ms, scales, rows, ceil(codesPerByte*stored, block))
}

// BookTensor is the stored tensor of the values that codes of two bits stand for, nil
// in other formats.
func (m *Module) BookTensor() *checkpoint.Tensor { return m.book.t }

// Codebook reads the four values that codes of two bits stand for, as a mask of codes
// of E2M1, see kernels.Spec; 0 of other formats. What is none is a
// *checkpoint.FileError that wraps kernels.ErrCodebook.
func (m *Module) Codebook(ctx context.Context) (uint16, error) {
	if m.book.t == nil {
		return 0, nil
	}
	var raw [kernels.CodebookValues]byte
	if err := m.ck.ReadAt(ctx, m.book.t, m.book.off, raw[:]); err != nil {
		return 0, err
	}
	mask, err := kernels.CodebookMask(raw[:])
	if err != nil {
		return 0, &checkpoint.FileError{File: m.ck.Path + "/" + m.ck.Files[m.book.t.File].Name, Tensor: m.book.t.Name, Reason: "is not what codes of two bits can stand for", Err: err}
	}
	return mask, nil
}

// SpecOf is Spec with what rows were read with: the codebook of codes of two bits.
func (m *Module) SpecOf(s *Stored) kernels.Spec {
	spec := m.Spec
	spec.Codebook = s.Codebook
	return spec
}

// FP4 says whether a module's codes are those of E2M1, two in a byte as Read gives
// them, under the scales of NVFP4 or MXFP4.
func (m *Module) FP4() bool { return m.Spec.Format == "nvfp4" || m.Spec.Format == "mxfp4" }

// divides says whether the second-level scale is divided by.
func (m *Module) divides() bool {
	return m.Method == CompressedTensors || m.book.t != nil && m.Spec.Convention == kernels.CT
}
