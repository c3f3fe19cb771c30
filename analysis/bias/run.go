package bias

import (
	"context"
	"errors"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/kernels"
)

// Options of a run.
type Options struct {
	Set     kernels.Set
	Threads int
	Mem     int64 // bytes; 0: 2 GiB
	BF16    bool
	Program string
	NoFloor bool // leave out the reference under the other activations

	Pause    func(context.Context) error // asked between matrices and between layers; may be nil
	Progress func(Progress)              // may be nil; from any goroutine
}

// Progress is where a run stands.
type Progress struct {
	Stage     string // weights, passing, heads
	Candidate int    // -1: all
	Layer     int
	Done, Of  int64 // matrices, or rows of Row
	Seconds   float64
	Tokens    int64
}

// Sink takes results as they come, from one goroutine, in an order that does not
// depend on threads: weights of each candidate, rows layer by layer, divergences.
type Sink struct {
	Weights    func(*Weights) error
	Row        func(*Row) error
	Divergence func(*Divergence) error
}

// NewSetup says what a run will look at. Nothing is computed.
func NewSetup(ref *candidate.Candidate, candidates []*candidate.Candidate, corpora []*corpus.Corpus, o Options) (*Setup, error) {
	return nil, errors.ErrUnsupported
}

// Run looks at the candidates of a setup. Errors name candidate, layer and tensor.
func Run(ctx context.Context, s *Setup, ref *candidate.Candidate, candidates []*candidate.Candidate, corpora []*corpus.Corpus, o Options, sink Sink) error {
	return errors.ErrUnsupported
}

// Report is all that a run found, computed from what sinks were given.
type Report struct {
	Setup       *Setup        `json:"setup"`
	Weights     []*Weights    `json:"weights"`
	Rows        []*Row        `json:"rows"`
	Divergences []*Divergence `json:"divergences"`
	Verdicts    []string      `json:"verdicts"` // a sentence a candidate with its figures, then what holds between candidates of about equal error
}

// Analyze makes a report of what was found so far.
func Analyze(s *Setup, weights []*Weights, rows []*Row, divergences []*Divergence) *Report {
	return &Report{Setup: s, Weights: weights, Rows: rows, Divergences: divergences}
}
