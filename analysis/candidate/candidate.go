// Package candidate opens everything that can present a model's weights: a
// checkpoint in floating point or in a quantized layout, a GGUF file, a variant
// or a recipe made on the fly from a reference, and mixtures of them. All of them
// are model.Sources behind one forward pass.
//
// Promises: what is quantized is decoded by its own layout's formula, everything
// else comes from the candidate's own files. Weights are expanded in panels,
// never as a whole. What really ran is in Effective, and what could not be made as
// asked is in Fallbacks, never silent. Findings say what is odd. Errors are one
// line with the file, the tensor and the reason.
package candidate

import (
	"context"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/method"
	"quantscope/quant/tokenizer"
	"quantscope/quant/topology"
)

// Kind is what a candidate is made from.
type Kind string

// Kinds of candidates.
const (
	Checkpoint Kind = "checkpoint" // a folder or file of safetensors, quantized or not
	GGUF       Kind = "gguf"
	Variant    Kind = "variant" // made on the fly from the reference
	Recipe     Kind = "recipe"  // the same, from a recipe file
	Codes      Kind = "codes"   // a folder of codes that calibration chose
	Mixed      Kind = "mixed"   // of two others: kept tensors, another's head or body
)

// Candidate is an opened model. It is a reference where others are measured
// against it. Its fields are not changed after it was opened; Source may be called
// from any goroutine.
type Candidate struct {
	Label string // what tables call it: the name given, else the spec
	Spec  string // as the user wrote it
	Path  string // of the files; the reference's for variants, "demo" for the embedded one
	Kind  Kind

	Topology *topology.Model // of the weights as the forward pass sees them
	Arch     *model.Spec

	Tokenizer    *tokenizer.Tokenizer // nil where there is none that can be read
	TokenizerErr error                // why
	TokenizerID  string               // SHA-256 over vocabulary and rules; equal ids, equal tokenizers; "" where there is none

	Identity      string  // of the weights: checkpoint.Identity or the digest of a GGUF's header and size, in hex; of a variant the reference's
	Content       string  // SHA-256 over what decides its weights: bytes of files, architecture, what is made of them; "" without Options.Digest
	Bytes         int64   // stored, scales and all, of everything the pass reads
	BitsPerWeight float64 // of all linear weights and embeddings that the pass reads, scales included
	Schemes       []Share // by falling share
	Effective     string  // what really is presented: the variant's canonical name, the formats of a checkpoint
	Fallbacks     []Fallback
	Findings      []Finding
	Baseline      string // of a variant: the spec that differs from it in nothing but how codes are chosen; "" for others
	Calibrated    string // on what a calibrated one was: corpus, tokens, SHA-256 in a line; "" for others
	Added         bool   // nobody asked for it: the baseline of a calibrated one

	files  *opened // of safetensors that it was opened from; nil of others
	source func() (model.Source, error)
	close  func() error
	items  []item    // what the pass reads, tensor by tensor
	id     *identity // of the weights, where source does not say where they come from
	codes  *budget   // of what is made of it

	calib   []*codes.Store // of codes that calibration chose, here or in what it is mixed of
	base    []choice       // of a calibrated one: its baseline
	globals export.Globals // over what second-level scales are taken
}

// Share is how much of a candidate is stored in one scheme.
type Share struct {
	Scheme  string  `json:"scheme"`
	Tensors int     `json:"tensors"`
	Params  int64   `json:"params"`
	Of      float64 `json:"of"` // share of the parameters counted in BitsPerWeight
}

// Fallback is a tensor that is not what was asked for.
type Fallback struct {
	Tensor    string `json:"tensor"`
	Requested string `json:"requested"`
	Effective string `json:"effective"`
	Reason    string `json:"reason"`
	Params    int64  `json:"params"`
}

// Finding is something odd about a candidate.
type Finding struct {
	ID      string `json:"id"` // permuted, tokenizer-differs, tied-head-missing, …
	Tensor  string `json:"tensor,omitempty"`
	Message string `json:"message"`
}

// Options of opening.
type Options struct {
	Set     kernels.Set
	Threads int
	Targets string // patterns of what variants quantize; "" is the default selection of package recipe
	Mem     int64  // bytes that codes of all variants of one reference may stay in memory for; 0: 256 MiB, negative: they are made anew each time
	// Layout is how quantized checkpoints are read, where they do not tell.
	Layout  layout.Options
	Recover bool // undo the orders of rows that Compare finds in a candidate with files of its own
	// Digest is the SHA-256 over the bytes of the files of the model at a path, and
	// something that is not "" of the embedded one. Without it candidates have no Content.
	Digest func(ctx context.Context, path string) (string, error)
	// Calibrate makes the codes of a calibrated variant of ref, or finds those that
	// were made before. Without it a calibrated variant is refused; a folder of codes
	// that is named is opened in any case.
	Calibrate func(ctx context.Context, ref *Candidate, v method.Variant, targets string) (*codes.Store, error)
	// Export finds the newest whole export of a session file: where it lies.
	// Without it a spec that ends in .qscope is refused.
	Export func(ctx context.Context, session string) (dir string, err error)
	// Recipe finds the text of a recipe that a session follows, by its name. It goes
	// before built-in ones, and may be nil.
	Recipe func(name string) (text string, ok bool)
	// Tier finds the text of a precision map that a session holds, by what follows
	// tier: in a spec. It goes before files, and may be nil.
	Tier func(name string) (text string, ok bool)
}

// Source is a source of the candidate's weights for one pass. It is a
// model.Origins, too.
func (c *Candidate) Source() (model.Source, error) { return c.traced() }

// Close gives back the files. The reference of a variant stays open.
func (c *Candidate) Close() error {
	if c.close == nil {
		return nil
	}
	return c.close()
}

// Of makes a candidate of any source, for whoever has weights that no file holds.
// close may be nil.
func Of(c Candidate, source func() (model.Source, error), close func() error) *Candidate {
	c.source, c.close = source, close
	return c.identified()
}
