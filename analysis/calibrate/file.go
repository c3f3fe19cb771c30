package calibrate

import (
	"context"

	"quantscope/analysis/model"
	"quantscope/quant/codes"
)

// Header says of what, on what and through what moments were measured.
type Header struct {
	Format   int          `json:"format"`
	Source   string       `json:"source"`  // identity of the checkpoint
	Family   string       `json:"family"`  // of its architecture
	Through  string       `json:"through"` // "reference", or the variant through whose layers the text went
	Corpus   codes.Corpus `json:"corpus"`
	Counts   []Counts     `json:"counts"`
	Hessians bool         `json:"hessians"`
	Numerics string       `json:"numerics"`
	Program  string       `json:"program"`
	Imatrix  string       `json:"imatrix,omitempty"` // the file that moments were imported from
}

// File is moments of every input of a model, kept in one file.
type File struct {
	Header Header
	path   string
}

// OpenFile opens one: our own, or an imatrix of llama.cpp (ref's names then say
// which tensor is which).
func OpenFile(ctx context.Context, path string) (*File, error) { return nil, errNotYet }

// Has says whether the moments of an input are there, with a Hessian if asked.
func (f *File) Has(at model.Place, hessian bool) bool { return false }

// Moments reads those of an input.
func (f *File) Moments(ctx context.Context, at model.Place) (*Moments, error) { return nil, errNotYet }

// Identity is the SHA-256 of what it holds, in hex.
func (f *File) Identity() string { return "" }

// Close gives the file back.
func (f *File) Close() error { return nil }
