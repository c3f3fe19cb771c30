package tier

import (
	"context"
	"errors"

	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/kernels"
)

// Model is what a tier needs to know of a model; candidate.Candidate.TierModel makes
// one.
type Model struct {
	Label    string
	Identity string // of the checkpoint
	Spec     *model.Spec
	Bits     float64 // that a stored weight takes, for planning memory
	// Size is what an expert of a layer takes as a variant, scales included, or as it is
	// stored for "source". It refuses what cannot be made.
	Size   func(variant string, layer, expert int) (int64, error)
	Source func() (model.Source, error)
}

// Options of recording and running.
type Options struct {
	Set     kernels.Set
	Threads int
	Mem     int64
	BF16    bool
	Program string

	Hot, Cold string   // variants; hot may be source
	Budgets   []string // shares (25%, 0.25) of the bytes of all experts that are hot, or bytes (1.5GiB)
	Policy    Policy
	Trace     int // 1 or 2
	Seed      uint64

	Progress func(Progress)                             // may be nil; from any goroutine
	Pause    func(context.Context) error                // asked between windows; may be nil
	Pace     func(ctx context.Context, w *Window) error // asked after each window, so that a person can watch; may be nil
}

// Progress is where a run stands.
type Progress struct {
	Stage    string // routing, running
	Budget   int
	Done, Of int64 // tokens
	Seconds  float64
}

// Sink takes windows as they come, from one goroutine.
type Sink func(*Window) error

// Prepare makes the trace of a workload and the setup of a run:
//
//	calib, prose, FILE    text, as package corpus names it: recorded from the forward pass of routed, one phase a corpus
//	FILE.routes           a recorded trace
//	zipf:S[:drift=N][:seed=K][:tokens=N]   made up: popularity falls with rank to the power of S, ranks change every N tokens
//
// The corpora of recorded workloads are loaded by load. routed is whose forward pass
// chooses, the reference or a candidate.
func Prepare(ctx context.Context, ref, routed Model, workload []string, load func(name string) ([]*corpus.Corpus, error), o Options) (*Setup, *Trace, error) {
	return nil, nil, errors.ErrUnsupported
}

// Run takes a trace through the manager, budget after budget, and tells of each window.
// Trace levels decide what the windows hold, not what happens.
func Run(ctx context.Context, s *Setup, t *Trace, o Options, sink Sink) (*End, error) {
	return nil, errors.ErrUnsupported
}
