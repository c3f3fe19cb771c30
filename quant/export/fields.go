package export

import (
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// The functions here are the fields of a rows×cols matrix in each layout; f is
// what the table of formats says, c whose arithmetic it is.

func modelOptNVFP4(f kernels.Format, _ kernels.Convention, rows, cols int64) []field {
	return []field{
		{Codes, "weight", checkpoint.U8, []int64{rows, cols / 2}},
		{Scales, "weight_scale", checkpoint.F8E4M3, []int64{rows, cols / int64(f.Group)}},
		{Global, "weight_scale_2", checkpoint.F32, []int64{}},
	}
}

func modelOptFP8(f kernels.Format, c kernels.Convention, rows, cols int64) []field {
	scales := []int64{} // a scalar
	switch f.Scope {
	case kernels.ScopeChannel:
		scales = []int64{rows}
	case kernels.ScopeTile:
		scales = []int64{ceil(rows, f.Group), 1, ceil(cols, f.Group), 1}
	}
	return []field{
		{Codes, "weight", checkpoint.F8E4M3, []int64{rows, cols}},
		{Scales, "weight_scale", scaleType(c), scales},
	}
}

func ctNVFP4(f kernels.Format, _ kernels.Convention, rows, cols int64) []field {
	return []field{
		{Codes, "weight_packed", checkpoint.U8, []int64{rows, cols / 2}},
		{Scales, "weight_scale", checkpoint.F8E4M3, []int64{rows, cols / int64(f.Group)}},
		{Global, "weight_global_scale", checkpoint.F32, []int64{1}},
	}
}

func ctMXFP4(f kernels.Format, _ kernels.Convention, rows, cols int64) []field {
	return []field{
		{Codes, "weight_packed", checkpoint.U8, []int64{rows, cols / 2}},
		{Scales, "weight_scale", checkpoint.U8, []int64{rows, cols / int64(f.Group)}},
	}
}

func ctFP8(f kernels.Format, c kernels.Convention, rows, cols int64) []field {
	scales := []int64{1}
	switch f.Scope {
	case kernels.ScopeChannel:
		scales = []int64{rows, 1}
	case kernels.ScopeTile:
		scales = []int64{ceil(rows, f.Group), ceil(cols, f.Group)}
	}
	return []field{
		{Codes, "weight", checkpoint.F8E4M3, []int64{rows, cols}},
		{Scales, "weight_scale", scaleType(c), scales},
	}
}

func ctInt4(f kernels.Format, c kernels.Convention, rows, cols int64) []field {
	groups := groupsOf(f, cols)
	fields := []field{
		{Codes, "weight_packed", checkpoint.I32, []int64{rows, ceil(cols, rowsPerWord)}},
		{Scales, "weight_scale", scaleType(c), []int64{rows, groups}},
		{Shape, "weight_shape", checkpoint.I64, []int64{2}},
	}
	if f.MinBits > 0 {
		fields = append(fields, field{ZeroPoints, "weight_zero_point", checkpoint.I32, []int64{ceil(rows, rowsPerWord), groups}})
	}
	return fields
}

func ownInt4(f kernels.Format, _ kernels.Convention, rows, cols int64) []field {
	groups := groupsOf(f, cols)
	return []field{
		{Codes, "weight_packed", checkpoint.U8, []int64{rows, ceil(cols, 2)}},
		{Scales, "weight_scale", checkpoint.BF16, []int64{rows, groups}},
		{Mins, "weight_min", checkpoint.BF16, []int64{rows, groups}},
	}
}

// codesPerByte is how many codes of two bits share a byte.
const codesPerByte = 4

// ownCode2 are codes of two bits with the scales of NVFP4 or MXFP4. The name of the
// second-level scale says, as in the layouts that it is from, whether it multiplies or
// divides.
func ownCode2(f kernels.Format, c kernels.Convention, rows, cols int64) []field {
	scale := checkpoint.F8E4M3
	if f.Scale == "e8m0" {
		scale = checkpoint.U8
	}
	fields := []field{
		{Codes, "weight_packed", checkpoint.U8, []int64{rows, ceil(cols, codesPerByte)}},
		{Scales, "weight_scale", scale, []int64{rows, ceil(cols, f.Group)}},
		{Codebook, "weight_codebook", checkpoint.U8, []int64{kernels.CodebookValues}},
	}
	switch {
	case f.Scale == "e8m0":
	case c == kernels.CT || c == kernels.CT32:
		fields = append(fields, field{Global, "weight_global_scale", checkpoint.F32, []int64{1}})
	default:
		fields = append(fields, field{Global, "weight_scale_2", checkpoint.F32, []int64{}})
	}
	return fields
}

// scaleType is the type of scales that are not part of a block format:
// compressed-tensors keeps them in the type of the weights that it quantizes.
func scaleType(c kernels.Convention) checkpoint.DType {
	if c == kernels.CT {
		return checkpoint.BF16
	}
	return checkpoint.F32
}

// groupsOf is how many scales a row has.
func groupsOf(f kernels.Format, cols int64) int64 {
	if f.Scope == kernels.ScopeChannel {
		return 1
	}
	return ceil(cols, f.Group)
}

func ceil(n int64, d int) int64 { return (n + int64(d) - 1) / int64(d) }
