package sessions

import (
	"context"
	"errors"

	"quantscope/analysis/bias"
	"quantscope/kernels"
	"quantscope/quant/layout"
)

// BiasRun is one look at biases through depth that a session holds.
type BiasRun struct {
	Setup       *bias.Setup
	AtUS        int64 // of its beginning
	Weights     []*bias.Weights
	Rows        []*bias.Row // in the order in which they came; none of these is changed once it is here
	Divergences []*bias.Divergence
	End         *bias.End // nil while it runs, and where it never ended
}

// BiasBegun, BiasFound and BiasEnded are what batches bring; Run is the index in
// State.Biases. Of BiasFound one field is set.
type (
	BiasBegun struct {
		Run   int
		AtUS  int64
		Setup *bias.Setup
	}
	BiasFound struct {
		Run        int
		Weights    *bias.Weights
		Row        *bias.Row
		Divergence *bias.Divergence
	}
	BiasEnded struct {
		Run int
		End *bias.End
	}
)

// BiasRequest says whose biases are looked at, on what.
type BiasRequest struct {
	Checkpoint string   // "": where the session says
	Candidates []string // specs as package candidate parses them
	Corpora    []string // none: as in MeasureRequest
	Targets    string
	Chunk      int // tokens of a chunk of a text; 0: 512
	Chunks     int // at most, of each corpus; 0: 4
	BF16       bool
	Layout     layout.Options
	Codes      string
	Calib      []string
	Cache      string
	Threads    int
	MemBytes   int64
	Program    string
	KernelSet  kernels.Set

	Progress func(bias.Progress)
	Pause    func(context.Context) error
	Warn     func(string)
	Report   func(*bias.Report) // given what a run that finished says; may be nil
}

// Biaser is a feed that can look at biases of candidates of its session's own
// checkpoint, as Gater runs gates.
type Biaser interface {
	Bias(ctx context.Context, r BiasRequest) error
}

// PreparedBias is a session that biases can be looked at in.
type PreparedBias struct {
	Path string
	Made bool
	Feed Feed
}

// PrepareBias opens everything that a look reads, and then the session, as
// PrepareGates does.
func PrepareBias(ctx context.Context, path string, r BiasRequest) (*PreparedBias, error) {
	return nil, errors.ErrUnsupported
}

// Run looks; see Biaser.
func (p *PreparedBias) Run(ctx context.Context) error { return errors.ErrUnsupported }

// Close closes what was opened.
func (p *PreparedBias) Close() error { return nil }

// Analyze is the report of what was found so far.
func (b *BiasRun) Analyze() *bias.Report {
	return bias.Analyze(b.Setup, b.Weights, b.Rows, b.Divergences)
}
