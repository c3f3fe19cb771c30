package candidate

import (
	"context"
	"errors"
)

var errNotYet = errors.New("candidate: not built yet")

// Open opens a model by its path: a folder or file of safetensors, a GGUF file
// (the first of a split one), or demo.
func Open(ctx context.Context, path string, o Options) (*Candidate, error) { return nil, errNotYet }

// Parse opens what a SPEC names, against the reference ref:
//
//	[LABEL=]SPEC      SPEC is one of
//	ref               the reference itself
//	VARIANT[@TARGETS] made on the fly: nvfp4+mse, int4-g128@linear; TARGETS is default, linear
//	                  (all linear maps of the decoder layers), all (and head and embedding) or patterns
//	FILE.yaml         a recipe, made on the fly
//	FILE.qscope       the newest whole export of a session
//	FOLDER, FILE.safetensors, FILE.gguf
//
// An unknown SPEC is refused with the known forms.
func Parse(ctx context.Context, ref *Candidate, spec string, o Options) (*Candidate, error) {
	return nil, errNotYet
}

// Keep is c with the tensors that match pattern (as recipe.ParseTarget reads it)
// taken from ref.
func Keep(ref, c *Candidate, pattern string) (*Candidate, error) { return nil, errNotYet }

// WithHead is c with head's final norm and head, or only the head where the norm
// is the same.
func WithHead(c, head *Candidate) (*Candidate, error) { return nil, errNotYet }

// WithBody is c with the embedding and decoder layers of body, and its own final
// norm and head.
func WithBody(c, body *Candidate) (*Candidate, error) { return nil, errNotYet }
