package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
	NoFloor    bool // leave out the reference under the other activations
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

	ready *biasParties // opened by PrepareBias
	held  holdings
}

// Biaser is a feed that can look at biases of candidates of its session's own
// checkpoint. Bias may be called from any goroutine and returns when the look has ended;
// what it finds arrives through the feed. ctx ends it; what was recorded stays. Every
// call is a look of its own. A second one at the same time, or one beside a measurement
// or gates, is ErrMeasuring.
type Biaser interface {
	Bias(ctx context.Context, r BiasRequest) error
}

// PreparedBias is a session that biases can be looked at in.
type PreparedBias struct {
	Path string
	Made bool // it was made for this
	Feed Feed // what is found arrives through it
	r    BiasRequest
}

// PrepareBias opens everything that a look reads, and then the session: that at path,
// which must be of the same checkpoint, or a new one, in the default place where path is
// "". Without an error nothing was computed, with one no session was made.
func PrepareBias(ctx context.Context, path string, r BiasRequest) (p *PreparedBias, err error) {
	p = &PreparedBias{Path: path, r: r}
	defer func() {
		if err != nil {
			p, err = nil, errors.Join(err, p.Close())
		}
	}()
	var identity string
	if p.Feed, identity, p.r.held, p.Made, err = openLook(ctx, path); err != nil {
		return p, err
	}
	at := r.Checkpoint
	if s, ok := p.Feed.(*savedFeed); ok {
		at = cmp.Or(at, s.meta.place())
	}
	if p.r.ready, err = p.r.open(ctx, at, identity); err == nil && p.Made {
		p.Path, p.Feed, err = makeLook(ctx, path, at, p.r.measured(), p.r.ready.ref)
	}
	return p, err
}

// Run looks; see Biaser.
func (p *PreparedBias) Run(ctx context.Context) error {
	b, ok := p.Feed.(Biaser)
	if !ok {
		return fmt.Errorf("sessions: %s: no biases can be looked at in it", p.Path)
	}
	return b.Bias(ctx, p.r)
}

// Close closes what was opened.
func (p *PreparedBias) Close() error {
	var errs []error
	if p.r.ready != nil {
		errs = append(errs, p.r.ready.close())
	}
	if p.Feed != nil {
		errs = append(errs, p.Feed.Close())
	}
	return errors.Join(errs...)
}

// Analyze is the report of what was found so far.
func (b *BiasRun) Analyze() *bias.Report {
	return bias.Analyze(b.Setup, b.Weights, b.Rows, b.Divergences)
}
