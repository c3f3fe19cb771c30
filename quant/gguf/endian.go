package gguf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Blocks says how the numbers within the blocks of a big-endian file stand: turned
// like all others, as gguf-py's converter of byte orders leaves them, or as in a
// little-endian file, as its writer does.
type Blocks string

// Orders of numbers in blocks.
const (
	BlocksSwapped Blocks = "swapped"
	BlocksPlain   Blocks = "plain"
)

// ParseBlocks reads one; "" is that the blocks tell.
func ParseBlocks(s string) (Blocks, error) {
	switch b := Blocks(s); b {
	case "", BlocksSwapped, BlocksPlain:
		return b, nil
	}
	return "", fmt.Errorf("order of numbers in blocks %q is not known; known are %s, %s", s, BlocksSwapped, BlocksPlain)
}

// ErrBlocks is wrapped by the error about blocks of a big-endian file that can be
// read in two ways.
var ErrBlocks = errors.New("swapped or plain must be said")

// Options are what a file does not say of itself.
type Options struct {
	Blocks Blocks // "": told by the blocks, where that can be
}

// blockOrder is what was found out about a file's blocks.
type blockOrder struct {
	stated Blocks
	once   sync.Once
	found  Blocks
	why    string
	err    error
}

// ReadStored fills dst with bytes of a tensor from off on, a whole number of blocks, as
// a little-endian file has them.
func (f *File) ReadStored(ctx context.Context, t *Tensor, off int64, dst []byte) error {
	if err := f.ReadAt(ctx, t, off, dst); err != nil || !f.Parts[t.Part].BigEndian {
		return err
	}
	if block, _ := t.Type.Block(); block > 1 {
		b, _, err := f.Blocks(ctx)
		if err != nil {
			return err
		}
		if b == BlocksPlain {
			return nil
		}
	}
	if err := kernels.SwapGGUF(t.Type, dst); err != nil {
		return &checkpoint.FileError{File: f.Parts[t.Part].Name, Tensor: t.Name, Reason: "big-endian", Err: err}
	}
	return nil
}

// Blocks is the order of numbers within the blocks of a big-endian file, and what
// tells it; "" of files that have none.
func (f *File) Blocks(ctx context.Context) (Blocks, string, error) {
	o := &f.order
	if o.stated != "" {
		return o.stated, "was said", nil
	}
	o.once.Do(func() { o.found, o.why, o.err = f.tellBlocks(context.WithoutCancel(ctx)) })
	return o.found, o.why, o.err
}

// How many blocks are looked at, of a tensor and in all, and how much less the one
// reading must scatter, in octaves, to be believed.
const (
	mostOfTensor = 32
	mostBlocks   = 1 << 12
	leastApart   = 12
	timesApart   = 2
	oddBlock     = 16 // octaves that a block counts which is not finite
)

// tellBlocks reads blocks both ways. Read rightly, the largest values of the blocks
// of a model lie within a few octaves of one another; the two bytes of a scale the
// wrong way round make of the low bits of its mantissa the exponent, and scatter them
// over all thirty.
func (f *File) tellBlocks(ctx context.Context) (Blocks, string, error) {
	var sizes [2][]float64 // by reading: log2 of the largest value, +Inf where not finite
	seen := 0
	for i := range f.Tensors {
		t := &f.Tensors[i]
		block, bytes := t.Type.Block()
		if block <= 1 || !t.Type.Decodes() || !f.Parts[t.Part].BigEndian || bytes == 0 {
			continue
		}
		n := t.Bytes / int64(bytes)
		take := min(n, mostOfTensor, int64(mostBlocks-seen))
		values := make([]float32, block)
		for k := range take {
			as := [2][]byte{make([]byte, bytes), make([]byte, bytes)}
			if err := f.ReadAt(ctx, t, k*n/take*int64(bytes), as[1]); err != nil {
				return "", "", err
			}
			copy(as[0], as[1])
			if err := kernels.SwapGGUF(t.Type, as[0]); err != nil {
				return "", "", &checkpoint.FileError{File: f.Parts[t.Part].Name, Tensor: t.Name, Reason: "big-endian", Err: err}
			}
			if string(as[0]) == string(as[1]) {
				continue
			}
			for r := range as {
				if err := kernels.DecodeGGUF(values, t.Type, as[r]); err != nil {
					return "", "", &checkpoint.FileError{File: f.Parts[t.Part].Name, Tensor: t.Name, Reason: "cannot be decoded", Err: err}
				}
				sizes[r] = append(sizes[r], largest(values))
			}
			seen++
		}
	}
	swapped, plain := scatter(sizes[0]), scatter(sizes[1])
	tell := fmt.Sprintf("of %d blocks the largest values scatter by %.0f octaves in all if swapped, %.0f if plain", seen, swapped, plain)
	switch {
	case seen == 0:
		return BlocksSwapped, "no block differs", nil
	case plain-swapped >= leastApart && plain >= timesApart*swapped:
		return BlocksSwapped, tell, nil
	case swapped-plain >= leastApart && swapped >= timesApart*plain:
		return BlocksPlain, tell, nil
	}
	return "", "", &checkpoint.FileError{File: f.Path, Reason: "is big-endian, and its blocks do not tell how the numbers in them stand: " + tell + "; say so with --gguf-blocks", Err: ErrBlocks}
}

// largest is log2 of the largest magnitude, −Inf of none.
func largest(x []float32) float64 {
	most := 0.0
	for _, v := range x {
		if v-v != 0 {
			return math.Inf(1)
		}
		most = max(most, math.Abs(float64(v)))
	}
	return math.Log2(most)
}

// scatter is the sum of distances from the median; blocks of zeros count as those
// that lie far off, for a file has few of them.
func scatter(x []float64) float64 {
	var finite []float64
	for _, v := range x {
		if !math.IsInf(v, 0) {
			finite = append(finite, v)
		}
	}
	sum := float64(len(x)-len(finite)) * oddBlock
	if len(finite) == 0 {
		return sum
	}
	slices.Sort(finite)
	middle := finite[len(finite)/2]
	for _, v := range finite {
		sum += min(math.Abs(v-middle), oddBlock)
	}
	return sum
}

// BlockOrders lists the words of ParseBlocks.
func BlockOrders() string {
	return strings.Join([]string{string(BlocksSwapped), string(BlocksPlain)}, ", ")
}
