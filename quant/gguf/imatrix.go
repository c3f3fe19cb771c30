package gguf

import (
	"errors"
	"io"
)

// Imatrix is what llama.cpp's llama-imatrix writes: for the inputs of each
// matrix the sum of squares of every column and how many tokens were counted.
type Imatrix struct {
	Datasets   []string
	ChunkCount int // of ChunkSize tokens
	ChunkSize  int
	Entries    []ImatrixEntry // sorted by name
	Legacy     bool           // read from the .dat format that was before GGUF
}

// ImatrixEntry is one stored tensor, of one matrix or of a stack of experts.
type ImatrixEntry struct {
	Name     string    // of the weight: blk.0.ffn_down_exps.weight
	Cols     int       // inputs
	Matrices int       // experts of a stack, else 1
	Sum2     []float32 // Matrices×Cols: Σx²
	Counts   []float32 // Matrices: tokens
}

var errNotYet = errors.New("gguf: is not there yet")

// ReadImatrix reads one, by its content: GGUF of either byte order, or the older
// .dat.
func ReadImatrix(path string) (*Imatrix, error) { return nil, errNotYet }

// WriteImatrix writes one as GGUF.
func WriteImatrix(w io.Writer, m *Imatrix) error { return errNotYet }
