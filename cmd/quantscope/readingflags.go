package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"quantscope/quant/gguf"
	"quantscope/quant/layout"
)

// readingFlags say of a quantized checkpoint what neither its labels nor what is
// stored tells.
type readingFlags struct{ zeroPoints, packing, blocks string }

// bind adds all of them.
func (f *readingFlags) bind(cmd *cobra.Command) {
	f.bindLayout(cmd)
	cmd.Flags().StringVar(&f.blocks, "gguf-blocks", "", "how numbers in the blocks of a big-endian GGUF file stand, where they do not tell: "+gguf.BlockOrders())
}

// bindLayout adds those of safetensors.
func (f *readingFlags) bindLayout(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.zeroPoints, "zero-points", "", "how zero points of GPTQ and AWQ are stored: as-labelled, v1 or v2 (default: by the label, and refused where what is stored speaks against it)")
	fl.StringVar(&f.packing, "packing", "", "how words hold integers of 3, 5, 6 and 7 bits: dense (across words) or padded (whole ones) (default: as the number of words tells, and refused where it does not)")
}

// options reads the flags; an unknown word is a usage error that lists the known ones.
func (f *readingFlags) options() (o layout.Options, err error) {
	if o.ZeroPoints, err = layout.ParseZeroPoints(f.zeroPoints); err != nil {
		return o, usage(fmt.Errorf("--zero-points: %w", err))
	}
	if o.Packing, err = layout.ParsePacking(f.packing); err != nil {
		return o, usage(fmt.Errorf("--packing: %w", err))
	}
	if _, err := gguf.ParseBlocks(f.blocks); err != nil {
		return o, usage(fmt.Errorf("--gguf-blocks: %w", err))
	}
	o.GGUFBlocks = f.blocks
	return o, nil
}
