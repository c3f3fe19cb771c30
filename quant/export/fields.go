package export

import (
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// The functions here are the fields of a rows×cols matrix in each layout; f is
// what the table of formats says.

func modelOptNVFP4(f kernels.Format, _ kernels.Convention, rows, cols int64) []field {
	return []field{
		{Codes, "weight", checkpoint.U8, []int64{rows, cols / 2}, asIs},
		{Scales, "weight_scale", checkpoint.F8E4M3, []int64{rows, cols / int64(f.Group)}, asIs},
		{Global, "weight_scale_2", checkpoint.F32, []int64{}, asIs},
	}
}
