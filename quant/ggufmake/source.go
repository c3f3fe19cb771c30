package ggufmake

import (
	"context"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
)

// Source is what a file is made of: its metadata and its tensors, by their names in
// GGUF files, with the values that such files hold.
type Source struct {
	Path     string
	Kind     string // gguf or checkpoint
	Identity string
	Arch     string // general.architecture; "" of a GGUF file that has none
	Pairs    []gguf.Pair
	Tensors  []Input
	Findings []Finding

	check func(pairs []gguf.Pair, tensors []gguf.Tensor) error
	close func() error
}

// Finding is something about the source that a person should know.
type Finding struct {
	Tensor  string `json:"tensor,omitempty"`
	Message string `json:"message"`
}

// Close closes the source's files.
func (s *Source) Close() error { return s.close() }

// Input is one tensor of a Source.
type Input struct {
	Name  string
	Of    []string // names in a checkpoint, of all matrices in their order; nil of a GGUF file
	Shape []int64  // row-major
	From  string   // how it is stored
	// Type is what holds every value as it stands. It is what the tensor is written
	// as where it is not quantized.
	Type   kernels.GGUFType
	Packed bool // stored in blocks: quantized already
	Where  string

	group int // rows that are read together, a divisor of a matrix's rows
	copy  func(ctx context.Context, off int64, dst []byte) error
	rows  func(ctx context.Context, r *reader, first, n int, dst []float32) error
}

// Params is the number of elements.
func (in *Input) Params() int64 {
	n := int64(1)
	for _, d := range in.Shape {
		n *= d
	}
	return n
}

// Cols is the length of a row, Rows the number of rows of a matrix, Matrices that of
// matrices.
func (in *Input) Cols() int {
	if len(in.Shape) == 0 {
		return 1
	}
	return int(in.Shape[len(in.Shape)-1])
}

// Rows is the number of rows of one matrix.
func (in *Input) Rows() int {
	if len(in.Shape) < 2 {
		return 1
	}
	return int(in.Shape[len(in.Shape)-2])
}

// Matrices is their number: experts of a stack, else 1.
func (in *Input) Matrices() int {
	n := 1
	for i := 0; i+2 < len(in.Shape); i++ {
		n *= int(in.Shape[i])
	}
	return n
}

// fail is an error about the tensor.
func (in *Input) fail(format string, args ...any) error {
	return &checkpoint.FileError{File: in.Where, Tensor: in.Name, Reason: fmt.Sprintf(format, args...)}
}

// reader is the memory of one worker.
type reader struct {
	set kernels.Set
	raw []byte
	f32 []float32
}

func (r *reader) bytes(n int) []byte {
	if cap(r.raw) < n {
		r.raw = make([]byte, n)
	}
	return r.raw[:n]
}

func (r *reader) floats(n int) []float32 {
	if cap(r.f32) < n {
		r.f32 = make([]float32, n)
	}
	return r.f32[:n]
}
